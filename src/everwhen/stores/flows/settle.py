"""Settling jobs, many in one transaction, each after the ones before it (R0–R6).

A worker may settle a job if it has the fence of the last claim and the job is not released yet. A rescued job has a
new fence, so the outcome from a worker that was considered dead changes nothing; the first outcome of a job is final.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from everwhen.decide.settle import cancel_catch_up, settle
from everwhen.model import row_changes
from everwhen.model.decision import Decision
from everwhen.model.job import FAILURES, FINAL, Job
from everwhen.model.outcome import JobEnd, Outcome
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.stores.flows.commit import commit_decisions, queues_behind, write_shared
from everwhen.stores.flows.load import add_shared, hold, schedules_of, with_jobs
from everwhen.stores.flows.settle_fast import is_held_by, settle_fast, storable_outcome
from everwhen.stores.flows.side_effects import write_side_effects
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Queue, Transaction

Ended = tuple[Job, Outcome]


def settle_jobs(tx: Transaction, plans: PlanCache, ends: Sequence[JobEnd], now: int) -> int:
    """Write how claimed jobs ended; return how many of the ends were valid."""
    ids = [end.job_id for end in ends]
    peeked = tx.peek_jobs(ids)
    shared = hold(tx, plans, peeked)
    tx.lock_schedules({seen.uid for seen in peeked})
    left = settle_fast(tx, plans, ends, shared, now)
    settled = len(ends) - len(left)
    if left:
        settled += settle_full(tx, plans, left, shared, now)
    write_shared(tx, shared, now)
    return settled


def settle_full(tx: Transaction, plans: PlanCache, ends: Sequence[JobEnd], shared: Shared, now: int) -> int:
    """Settle on the full path, which handles every case; the caller writes `shared`."""
    jobs = tx.jobs([end.job_id for end in ends])
    current: dict[str, Ended] = {}
    for end in ends:
        job = jobs.get(end.job_id)
        if job is not None and is_held_by(job, end.fence):
            current.setdefault(end.job_id, (job, storable_outcome(end.outcome)))
    if current:
        _end_all(tx, plans, list(current.values()), shared, now)
    return len(current)


def end_jobs(tx: Transaction, plans: PlanCache, ended: Sequence[Ended], shared: Shared, now: int) -> None:
    """Settle jobs, and do what follows from it for their schedules, breakers and limits."""
    _end_all(tx, plans, ended, shared, now)
    write_shared(tx, shared, now)


def _end_all(tx: Transaction, plans: PlanCache, ended: Sequence[Ended], shared: Shared, now: int) -> None:
    now = tx.latest(now)  # a schedule may end with its run
    ending = _Ending(tx, plans, shared, now)
    ending.load(ended)
    for job, outcome in ended:
        ending.end(job, outcome)
    ending.write()
    opened = {transition.key for transition in shared.transitions if transition.to_state == "open"}
    if opened:
        ending.cancel_catch_up(opened)


class _Ending:
    """Schedules while jobs of theirs end: each decision is made from the state that the previous one left."""

    def __init__(self, tx: Transaction, plans: PlanCache, shared: Shared, now: int) -> None:
        self._tx = tx
        self._plans = plans
        self._shared = shared
        self._now = now
        self._schedules: dict[str, Schedule] = {}
        self._jobs: dict[str, list[Job]] = {}  # outstanding ones, of schedules that have several
        self._ended: list[Ended] = []
        self._let_go: list[Job] = []
        self._decisions: list[Decision] = []
        self._queues: set[Queue] = set()

    def load(self, ended: Sequence[Ended]) -> None:
        """Load everything that the ends may need, in batches."""
        self._load_schedules({job.uid for job, _ in ended} | self._uids_of_catch_up(ended))
        own = {job.uid for job, _ in ended if job.is_own}
        self._load_jobs([uid for uid in own & self._schedules.keys() if self._is_crowded(uid)])
        add_shared(self._tx, self._shared, self._schedules.values(), [job for job, _ in ended])

    def end(self, job: Job, outcome: Outcome) -> None:
        if job.status in FINAL:  # cancelled, or timed out, while its work continued
            if not outcome.is_still_running:
                self._release(job)
            return
        if outcome.awaits is not None:
            self._tx.hand_over_jobs([(job, outcome.awaits)])
            return
        schedule = self._schedules.get(job.uid)
        if schedule is not None and job.is_own and self._is_crowded(job.uid):
            schedule = Schedule(schedule.state, schedule.plan, self._others(job))
        _, _, decision = settle(job, outcome, schedule, self._now, self._shared)
        self._ended.append((job, outcome))
        # Where nothing is outstanding no job waits in line; backfills are not included in that count.
        if job.origin == "backfill" or (decision is not None and decision.after.outstanding):
            self._queues.update(queues_behind(job))
        if decision is not None:
            self._decide(decision, job)

    def _is_crowded(self, uid: str) -> bool:
        """Return whether more jobs are outstanding: the end of a run may end its schedule, and cancel them."""
        return self._schedules[uid].state.outstanding >= 2

    def _others(self, job: Job) -> list[Job]:
        if job.uid not in self._jobs:
            self.write()  # a retry made in this batch is among them
            self._load_jobs([job.uid])
        return [other for other in self._jobs[job.uid] if other.row_id != job.row_id]

    def _decide(self, decision: Decision, job: Job) -> None:
        """Advance the state, and update or forget the known jobs of the schedule."""
        self._decisions.append(decision)
        uid = decision.after.uid
        self._schedules[uid] = Schedule(decision.after, decision.plan)
        if uid in self._jobs:
            gone = {job.row_id, *(other.row_id for other, _ in decision.cancelled)}
            self._jobs[uid] = [other for other in self._jobs[uid] if other.row_id not in gone]
            if decision.jobs:
                del self._jobs[uid]

    def _release(self, job: Job) -> None:
        """Release a job whose work ended after its status was final: it counts as running until now."""
        self._let_go.append(job)
        self._shared.move(job.capacity_key, running=-1)
        self._queues.update(queues_behind(job))
        schedule = self._schedules.get(job.uid)
        if schedule is not None:
            before = schedule.state
            after = before if job.origin == "backfill" else row_changes.release(before)
            self._decide(Decision(before, after, schedule.plan, (), (), cancelled=()), job)

    def write(self) -> None:
        """Write what was decided since the last call, and forget it."""
        if self._ended:
            self._tx.end_jobs(self._ended, self._now)
            write_side_effects(self._tx, self._ended, self._now)
            left = [job for job, outcome in self._ended if outcome.is_still_running]
            if left:
                self._tx.keep_jobs(left)
        if self._let_go:
            self._tx.let_go_of_jobs(self._let_go, self._now)
        if self._decisions:
            commit_decisions(self._tx, self._decisions, self._now)
        if self._queues:
            self._tx.ready_successors(self._queues, self._now)
        self._ended, self._let_go, self._decisions, self._queues = [], [], [], set()

    def cancel_catch_up(self, keys: set[str]) -> None:
        """Cancel the queued catch-up jobs of the keys whose breakers open (R6)."""
        uids = {job.uid for job in self._tx.queued_catch_up(keys)}
        self._load_schedules(uids - self._schedules.keys())
        concerned = with_jobs(self._tx, [s for uid, s in self._schedules.items() if uid in uids], uids)
        add_shared(self._tx, self._shared, concerned, [job for s in concerned for job in s.outstanding])
        self._decisions += [cancel_catch_up(s, keys, self._now, self._shared) for s in concerned]
        self.write()

    def _uids_of_catch_up(self, ended: Iterable[Ended]) -> set[str]:
        """Return the schedules whose catch-up jobs end if these failures open a breaker: they are locked in time."""
        keys = {job.breaker_key for job, outcome in ended if outcome.status in FAILURES and job.breaker_key}
        return {job.uid for job in self._tx.queued_catch_up(keys)} if keys else set()

    def _load_schedules(self, uids: Iterable[str]) -> None:
        if wanted := set(uids):
            states = list(self._tx.states(wanted).values())
            for schedule in schedules_of(self._tx, self._plans, states):
                self._schedules[schedule.state.uid] = schedule

    def _load_jobs(self, uids: Sequence[str]) -> None:
        if not uids:
            return
        found = self._tx.outstanding(uids)
        self._jobs |= {uid: found.get(uid, []) for uid in uids}
        # Some may belong to older revisions, with keys of their own.
        add_shared(self._tx, self._shared, (), [job for jobs in found.values() for job in jobs])
