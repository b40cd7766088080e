"""Settling jobs, many in one transaction, each after the ones before it.

A worker may settle a job if it has the fence of the last claim and the job is not released yet. A rescued job has a
new fence, so the outcome from a worker that was considered dead changes nothing; the first outcome of a job is final.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from everwhen.decide.settle import cancel_catch_up, is_relief, settle
from everwhen.model import row_changes
from everwhen.model.changes import Decision
from everwhen.model.job import EXTERNAL, FAILURES, FINAL, OWN_ORIGINS, Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import (
    SUCCEEDED,
    JobEnd,
    NewMessage,
    Outcome,
    OutputPiece,
    OutputStream,
    PluginUpdate,
)
from everwhen.model.schedule import Plan, Schedule
from everwhen.store.commit import commit_decisions, put_costs, queues_behind, write_shared
from everwhen.store.dialect import Insert, Statement, storable
from everwhen.store.job_rows import row_ids
from everwhen.store.load import add_shared, hold, schedules_of, with_jobs
from everwhen.store.messages import insert_messages
from everwhen.store.transaction import Finished, JobLine, Transaction

Ended = tuple[Job, Outcome]
T = TypeVar("T", Job, Finished)

# idx_jobs_outstanding, whole: few of all jobs are outstanding.
_QUEUED_CATCH_UP = Statement("""
SELECT uid FROM jobs WHERE status IN ('queued', 'running') AND status = 'queued' AND origin = 'catch_up'
    AND breaker_key = ANY(:keys::texts)""")
# idx_jobs_unreleased
EXTERNAL_OVER = Statement(f"""
SELECT job_id FROM jobs WHERE node = '{EXTERNAL}' AND released_at IS NULL
    AND (status = 'cancelled' OR deadline_at <= :now::instant)""")
# The unique key on job_id.
_OUTCOME_TOKEN = Statement("SELECT outcome_token FROM jobs WHERE job_id = :job_id::text")
# The same, and the primary key of schedules.
_FINISHED = Statement("""
SELECT j.row_id, j.job_id, j.uid, j.origin, j.status, j.is_counted, j.guard_key, j.capacity_key, j.breaker_key, j.node,
    j.fence, j.released_at, s.row_id, s.revision, s.outstanding, j.started_at, j.cost_reserved
FROM jobs j LEFT JOIN schedules s ON s.row_id = j.schedule_row AND s.uid = j.uid
WHERE j.job_id = ANY(:job_ids::texts)""")
# The primary key of jobs, for all that follow. A job continues externally with the hash of the token that authorises
# its report; one that has ended and whose work is still running stays unreleased.
HAND_OVER = Statement(f"""
UPDATE jobs AS j SET node = '{EXTERNAL}', outcome_token = v.outcome_token
FROM batch AS v(outcome_token, row_id, fence)
WHERE j.row_id = v.row_id AND j.fence = v.fence AND j.status = 'running'""")
# The unique key on uid.
_RELIEVE = Statement("UPDATE schedules SET expect_met_at = :now::instant WHERE uid = ANY(:uids::texts)")
_KEEP = Statement("UPDATE jobs SET released_at = NULL WHERE row_id = ANY(:row_ids::integers)")
_RELEASE = Statement("""
UPDATE jobs SET released_at = :now::instant WHERE row_id = ANY(:row_ids::integers) AND released_at IS NULL""")


def settle_jobs(tx: Transaction, ends: Sequence[JobEnd], now: int) -> int:
    """Write how claimed jobs ended; return how many of the ends were valid."""
    ids = [end.job_id for end in ends]
    peeked = tx.peek_jobs(ids)
    shared = hold(tx, peeked)
    tx.lock_schedules({seen.uid for seen in peeked})
    left = settle_fast(tx, ends, shared, now)
    settled = len(ends) - len(left)
    if left:
        settled += settle_full(tx, left, shared, now)
    write_shared(tx, shared, now)
    return settled


def settle_full(tx: Transaction, ends: Sequence[JobEnd], shared: Shared, now: int) -> int:
    """Settle on the full path, which handles every case; the caller writes `shared`."""
    jobs = tx.jobs([end.job_id for end in ends])
    current: dict[str, Ended] = {}
    for end in ends:
        job = jobs.get(end.job_id)
        if job is not None and is_held_by(job, end.fence):
            current.setdefault(end.job_id, (_begun(job, end), storable_outcome(end.outcome)))
    if current:
        _end_all(tx, list(current.values()), shared, now)
    return len(current)


def end_jobs(tx: Transaction, ended: Sequence[Ended], shared: Shared, now: int) -> None:
    """Settle jobs, and do what follows from it for their schedules, breakers and limits."""
    _end_all(tx, ended, shared, now)
    write_shared(tx, shared, now)


def _end_all(tx: Transaction, ended: Sequence[Ended], shared: Shared, now: int) -> None:
    ending = _Ending(tx, shared, tx.latest(now))  # a schedule may end with its run
    ending.load(ended)
    for job, outcome in ended:
        ending.end(job, outcome)
    ending.write()
    opened = {transition.key for transition in shared.transitions if transition.to_state == "open"}
    if opened:
        ending.cancel_catch_up(opened)


class _Ending:
    """Schedules while jobs of theirs end: each decision is made from the state that the previous one left."""

    def __init__(self, tx: Transaction, shared: Shared, now: int) -> None:
        self._tx = tx
        self._shared = shared
        self._now = now
        self._schedules: dict[str, Schedule] = {}
        self._jobs: dict[str, list[Job]] = {}  # outstanding ones, of schedules that have several
        self._ended: list[Ended] = []
        self._let_go: list[Job] = []
        self._decisions: list[Decision] = []
        self._queues: set[JobLine] = set()
        self._relieved: list[str] = []  # schedules that were run by a person, and succeeded

    def load(self, ended: Sequence[Ended]) -> None:
        """Load everything that the ends may need, in batches."""
        uids = {job.uid for job, _ in ended}
        keys = {job.breaker_key for job, outcome in ended if outcome.status in FAILURES and job.breaker_key}
        if (
            keys
        ):  # these failures may open a breaker, which ends catch-up jobs of others: they are locked in time
            uids.update(self._tx.column(_QUEUED_CATCH_UP, keys=keys))
        self._load_schedules(uids)
        own = {job.uid for job, _ in ended if job.is_own}
        self._load_jobs([uid for uid in own & self._schedules.keys() if self._is_crowded(uid)])
        add_shared(self._tx, self._shared, self._schedules.values(), [job for job, _ in ended])

    def end(self, job: Job, outcome: Outcome) -> None:
        if job.status in FINAL:  # cancelled, or timed out, while its work continued
            if not outcome.is_still_running:
                self._release(job)
            return
        if outcome.awaits is not None:
            batch = [(outcome.awaits, job.row_id, job.fence)]
            self._tx.expect(1, self._tx.run(HAND_OVER, batch=batch))
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
            if is_relief(job, outcome, decision.plan.definition):
                self._relieved.append(job.uid)

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
            put_costs(self._tx, [(job, outcome.cost) for job, outcome in self._ended])
            write_side_effects(self._tx, self._ended, self._now)
            left = [job for job, outcome in self._ended if outcome.is_still_running]
            if left:
                self._tx.run(_KEEP, row_ids=row_ids(left))
        if self._let_go:
            released = self._tx.run(_RELEASE, now=self._now, row_ids=row_ids(self._let_go))
            self._tx.expect(len(self._let_go), released)
        if self._decisions:
            commit_decisions(self._tx, self._decisions, self._shared, self._now)
        if self._relieved:
            self._tx.run(_RELIEVE, now=self._now, uids=self._relieved)
            self._relieved = []
        if self._queues:
            self._tx.ready_successors(self._queues, self._now)
        self._ended, self._let_go, self._decisions, self._queues = [], [], [], set()

    def cancel_catch_up(self, keys: set[str]) -> None:
        """Cancel the queued catch-up jobs of the keys whose breakers open."""
        uids = set(self._tx.column(_QUEUED_CATCH_UP, keys=keys))
        self._load_schedules(uids - self._schedules.keys())
        concerned = with_jobs(self._tx, [s for uid, s in self._schedules.items() if uid in uids], uids)
        add_shared(self._tx, self._shared, concerned, [job for s in concerned for job in s.outstanding])
        self._decisions += [cancel_catch_up(s, keys, self._now, self._shared) for s in concerned]
        self.write()

    def _load_schedules(self, uids: Iterable[str]) -> None:
        if wanted := set(uids):
            states = list(self._tx.states(wanted).values())
            for schedule in schedules_of(self._tx, states):
                self._schedules[schedule.state.uid] = schedule

    def _load_jobs(self, uids: Sequence[str]) -> None:
        if not uids:
            return
        found = self._tx.outstanding(uids)
        self._jobs |= {uid: found.get(uid, []) for uid in uids}
        # Some may belong to older revisions, with keys of their own.
        add_shared(self._tx, self._shared, (), [job for jobs in found.values() for job in jobs])


# Jobs whose work continues externally, and whose outcome is reported later (HTTP 202).
#
# A worker that receives a 202 hands its job over: the job stays running and belongs to no node. So its worker
# is free, no lease of it can expire, and a restart of everwhen does not affect it. The job ends by a report
# with its token, by its deadline, or by a cancellation; the first of them counts. When the node dies between
# the 202 and the hand-over, the job is rescued like any other: the request is sent again, with the same
# idempotency key and a new token.


def take_report(tx: Transaction, job_id: str, token_hash: str, outcome: Outcome, now: int) -> bool:
    """End a job with the reported outcome; False when it does not wait for this token."""
    shared = hold(tx, seen := tx.peek_jobs([job_id]))
    tx.states({lock_hint.uid for lock_hint in seen})  # locked before their jobs
    job = tx.jobs([job_id]).get(job_id)
    if job is None or not is_awaited(job):
        return False
    if not hmac.compare_digest(tx.text(_OUTCOME_TOKEN, job_id=job_id) or "", token_hash):
        return False
    end_jobs(tx, [(job, outcome)], shared, now)
    return True


def end_overdue(tx: Transaction, now: int) -> int:
    """End jobs that are past their deadline, and release cancelled ones; return how many."""
    found = tx.column(EXTERNAL_OVER, now=now)
    if not found:
        return 0
    shared = hold(tx, seen := tx.peek_jobs(found))
    tx.states({lock_hint.uid for lock_hint in seen})
    jobs = [job for job in tx.jobs(found).values() if job.node == EXTERNAL and job.released_at is None]
    over = [job for job in jobs if job.status != "running" or (job.deadline_at or now) <= now]
    outcome = Outcome("timed_out", error="timed out: no outcome was reported in time")
    end_jobs(tx, [(job, outcome) for job in over], shared, now)
    return len(over)


def is_awaited(job: Job) -> bool:
    return job.node == EXTERNAL and job.status == "running"


# Side effects of jobs besides their outcome: state of plugins, messages, events.
#
# The transaction that settles the jobs writes them. So a crash neither loses nor repeats anything, and a
# worker that was considered dead writes nothing.


_PUT_PLUGIN_STATES = Insert("plugin_state", ("plugin", "state", "updated_at"), replaces="plugin")
EVENTS = "events"  # the stream of a job's output
PIECE = 64 * 1024


def write_side_effects(tx: Transaction, ended: Sequence[tuple[Job, Outcome]], now: int) -> None:
    """Write the side effects of ended jobs, in the order in which the jobs are settled."""
    for job, outcome in ended:
        if outcome.events:
            stream, data = OutputStream(job.job_id, job.attempt, EVENTS), outcome.events.encode()
            starts = range(0, len(data), PIECE)
            tx.put_output([OutputPiece(stream, at, data[at : at + PIECE]) for at in starts], [], now)
    left = [outcome.also for _, outcome in ended if outcome.also is not None]
    if not left:
        return
    updates = [one for one in left if isinstance(one, PluginUpdate)]
    messages = [one for one in left if isinstance(one, NewMessage)]
    if updates:
        _remember(tx, updates, now)
    if messages:
        insert_messages(tx, messages, now)


def _remember(tx: Transaction, updates: Sequence[PluginUpdate], now: int) -> None:
    """Merge key by key, so that the updates of two jobs of one plugin that end together are both kept."""
    stored = tx.plugin_states({update.plugin for update in updates})
    states: dict[str, dict[str, Any]] = {plugin: json.loads(state) for plugin, state in stored.items()}
    for update in updates:
        states.setdefault(update.plugin, {}).update(json.loads(update.updates))
    rows = [(plugin, json.dumps(state), now) for plugin, state in sorted(states.items())]
    tx.insert(_PUT_PLUGIN_STATES, rows)


# The fast path for the ends of nearly all jobs: successes with no job waiting behind them, counted in the
# statement.
#
# Neither a job nor the row of its schedule is read whole, and there are no decisions per job. It writes what
# the full path would have written (a test compares the two); ends that need more are left to the full path,
# untouched.


Plans = Mapping[tuple[str, int], Plan]


def settle_fast(tx: Transaction, ends: Sequence[JobEnd], shared: Shared, now: int) -> Sequence[JobEnd]:
    """Settle ordinary ends; return the others. `shared` is updated; the caller writes it."""
    found = {
        job.job_id: job for job in tx.many(Finished._make, _FINISHED, job_ids=[end.job_id for end in ends])
    }
    if len(found) < len(ends) and len({end.job_id for end in ends}) < len(ends):
        return ends  # of a job that is named twice the first outcome counts
    keys = {(job.uid, job.revision) for job in found.values() if job.revision is not None}
    known = tx.load_plans(keys)
    ordinary: list[tuple[Finished, Outcome]] = []
    left: list[JobEnd] = []
    for end in ends:
        job = found.get(end.job_id)
        if job is not None and _is_fast(job, end, known):
            ordinary.append((_begun(job, end), storable_outcome(end.outcome)))
        else:
            left.append(end)
    if ordinary:
        jobs = [job for job, _ in ordinary]
        tx.end_jobs(ordinary, now)
        tx.count_successes(jobs, now)
        messages = [outcome.also for _, outcome in ordinary if isinstance(outcome.also, NewMessage)]
        if messages:
            insert_messages(tx, messages, now)
        add_shared(tx, shared, (), jobs)
        _give_places_back(jobs, shared)
    return left


def _is_fast(job: Finished, end: JobEnd, known: Plans) -> bool:
    """Return whether this is a success of a counted run (the clock's or another origin) with no job behind it."""
    if not is_held_by(job, end.fence) or job.status != "running" or job.origin not in OWN_ORIGINS:
        return False
    if job.outstanding != 1 or job.revision is None or job.breaker_key is not None:
        return False
    if job.cost_reserved is not None:
        return False
    return _is_plain(end.outcome) and not known[job.uid, job.revision].awaits_successes


def _is_plain(outcome: Outcome) -> bool:
    """Return whether this is a success with only a result and a message; fields added to outcomes later are covered."""
    if outcome is SUCCEEDED:
        return True
    also = outcome.also if isinstance(outcome.also, NewMessage) else None
    return outcome == Outcome("succeeded", result=outcome.result, also=also, is_json=outcome.is_json)


def _give_places_back(jobs: Sequence[Finished], shared: Shared) -> None:
    """Free the places of these jobs, once for each key."""
    outstanding: dict[str, int] = {}
    running: dict[str, int] = {}
    for job in jobs:
        if job.guard_key is not None and job.is_counted:
            outstanding[job.guard_key] = outstanding.get(job.guard_key, 0) + 1
        if job.capacity_key is not None:
            running[job.capacity_key] = running.get(job.capacity_key, 0) + 1
            outstanding[job.capacity_key] = outstanding.get(job.capacity_key, 0) + bool(job.is_counted)
    for key, count in outstanding.items():
        shared.move(key, outstanding=-count, running=-running.get(key, 0))


def _begun(job: T, end: JobEnd) -> T:
    """Return the job with the instant at which its target began, where that was later than the claim."""
    return job if end.started_at is None else job._replace(started_at=end.started_at)


def is_held_by(job: Job | Finished, fence: int) -> bool:
    return job.fence == fence and job.node is not None and job.released_at is None


def storable_outcome(outcome: Outcome) -> Outcome:
    texts = (outcome.error, outcome.error_type, outcome.result)
    error, error_type, result = stored = tuple(storable(text) if text else text for text in texts)
    if stored == texts:  # nearly always
        return outcome
    return outcome._replace(error=error, error_type=error_type, result=result)
