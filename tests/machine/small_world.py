"""The smallest world that folds `decide` over time: a few schedules, a heap, no store.

It goes from one instant at which something happens to the next, as a scheduler that sleeps well would. Outages
are stretches in which it does nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from everwhen.decide.check_ledger import LedgerReport, check_ledger
from everwhen.decide.edit import create
from everwhen.decide.settle import settle
from everwhen.decide.tick import tick
from everwhen.model.decision import Decision
from everwhen.model.events import Event
from everwhen.model.history import History, Life, Recorded, Revision
from everwhen.model.job import Job, NewJob
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Plan, Schedule, State
from everwhen.model.shared import Shared

NEVER = 1 << 62

Run = Callable[[Job], tuple[int, Outcome]]  # how long a run takes, and how it ends


@dataclass(slots=True)
class Row:
    """One schedule with its record."""

    state: State
    plan: Plan
    created_at: int
    wake_at: int = NEVER
    revisions: list[Revision] = field(default_factory=list)
    events: list[Recorded] = field(default_factory=list)
    outstanding: dict[str, Job] = field(default_factory=dict)
    ended: list[Job] = field(default_factory=list)


class SmallWorld:
    """Schedules, jobs, and what they share; `run` says what becomes of each job."""

    def __init__(self, now: int, run: Run, *, outages: Sequence[tuple[int, int]] = ()) -> None:
        self.now = now
        self._run = run
        self._outages = sorted(outages)
        self._rows: dict[str, Row] = {}
        self._shared = Shared()
        self._wakes: list[tuple[int, str]] = []
        self._ends: list[tuple[int, int, str, str, Outcome]] = []
        self._starts: list[tuple[int, str]] = []
        self._events = 0
        self._jobs = 0

    def create(self, uid: str, plan: Plan) -> None:
        state, events = create(plan, uid, self.now)
        row = self._rows[uid] = Row(state, plan, self.now, revisions=[Revision(1, self.now, plan)])
        self._record(row, events)
        self._schedule_wake(row)

    def change(self, uid: str, decide: Callable[[Schedule, int, Shared], Decision]) -> None:
        """A person does something to a schedule, now."""
        row = self._rows[uid]
        schedule = Schedule(row.state, row.plan, list(row.outstanding.values()))
        decision = decide(schedule, self.now, self._shared)
        self._commit(row, decision)
        if decision.after.revision != decision.before.revision:
            row.revisions.append(Revision(decision.after.revision, self.now, decision.plan))

    def state(self, uid: str) -> State:
        return self._rows[uid].state

    def go_to(self, instant: int) -> None:
        """Let everything happen that happens by then."""
        while True:
            at = (
                min(heap[0][0] for heap in (self._wakes, self._ends, self._starts) if heap)
                if self._busy
                else NEVER
            )
            at = self._after_outage(max(at, self.now))
            if at > instant:
                break
            self.now = at
            self._end_jobs()
            self._start_waiting()
            self._tick()
        self.now = max(self.now, instant)

    def check(self) -> LedgerReport:
        return check_ledger(History([self.life(uid) for uid in self._rows]), self.now)

    # -- inside --

    @property
    def _busy(self) -> bool:
        return bool(self._wakes or self._ends or self._starts)

    def _after_outage(self, at: int) -> int:
        for start, end in self._outages:
            if start <= at < end:
                return end
        return at

    def _tick(self) -> None:
        due: dict[str, Row] = {}
        while self._wakes and self._wakes[0][0] <= self.now:
            at, uid = heappop(self._wakes)
            row = self._rows[uid]
            if row.wake_at == at and row.state.status == "active":
                due[uid] = row
        if not due:
            return
        schedules = [Schedule(r.state, r.plan, list(r.outstanding.values())) for r in due.values()]
        for decision in tick(schedules, self.now, self._shared):
            self._commit(due[decision.after.uid], decision)

    def _commit(self, row: Row, decision: Decision) -> None:
        row.state, row.plan = decision.after, decision.plan
        self._record(row, decision.events)
        for job, reason in decision.cancelled:
            ended = row.outstanding.pop(job.job_id)
            row.ended.append(
                ended._replace(status="cancelled", reason=reason, ended_at=self.now, released_at=self.now)
            )
            if job.status == "running":  # its worker lets go at once
                row.state = row.state._replace(running_jobs=row.state.running_jobs - 1)
                self._shared.move(job.capacity_key, running=-1)
        for new in decision.jobs:
            self._enqueue(row, new)
        self._schedule_wake(row)
        self._start_ready(row)

    def _enqueue(self, row: Row, new: NewJob) -> None:
        self._jobs += 1
        row.outstanding[new.job_id] = _kept(self._jobs, new, row, self.now)
        if new.not_before is not None:
            heappush(self._starts, (new.not_before, row.state.uid))

    def _start_waiting(self) -> None:
        while self._starts and self._starts[0][0] <= self.now:
            self._start_ready(self._rows[heappop(self._starts)[1]])

    def _start_ready(self, row: Row) -> None:
        for job in sorted(row.outstanding.values(), key=lambda job: job.slot_at) if row.outstanding else ():
            if job.status != "queued" or (job.not_before is not None and job.not_before > self.now):
                continue
            if job.line == "own" and row.state.running_jobs:
                return
            self._start(row, job)

    def _start(self, row: Row, job: Job) -> None:
        was_waiting = job.not_before is not None
        row.state = row.state._replace(
            running_jobs=row.state.running_jobs + 1,
            waiting=row.state.waiting - was_waiting,
            retries_waiting=row.state.retries_waiting - (was_waiting and job.origin == "retry"),
            last_run_at=self.now,
        )
        if not job.is_counted:
            self._shared.move(job.guard_key, outstanding=1)
            self._shared.move(job.capacity_key, outstanding=1)
        self._shared.move(job.capacity_key, running=1)
        row.outstanding[job.job_id] = started = job._replace(
            status="running",
            attempt=1,
            fence=1,
            started_at=self.now,
            node="n",
            ready_at=None,
            is_counted=True,
        )
        duration, outcome = self._run(started)
        heappush(self._ends, (self.now + duration, job.row_id, row.state.uid, job.job_id, outcome))

    def _end_jobs(self) -> None:
        while self._ends and self._ends[0][0] <= self.now:
            _, _, uid, job_id, outcome = heappop(self._ends)
            row = self._rows[uid]
            job = row.outstanding.pop(job_id, None)
            if job is None:
                continue  # cancelled meanwhile
            schedule = Schedule(row.state, row.plan, list(row.outstanding.values()))
            decision = settle(job, outcome, schedule, self.now, self._shared).decision
            assert decision is not None
            row.ended.append(
                job._replace(
                    status=outcome.status, ended_at=self.now, released_at=self.now, error=outcome.error
                )
            )
            self._commit(row, decision)
            self._release_held()

    def _release_held(self) -> None:
        for row in self._rows.values():
            if row.state.held_key is not None and row.state.release_at is None:
                row.state = row.state._replace(release_at=self.now)
                self._schedule_wake(row)

    def _schedule_wake(self, row: Row) -> None:
        state = row.state
        wake_at = min(state.next_run_at or NEVER, state.release_at or NEVER)
        row.wake_at = wake_at if state.status == "active" else NEVER
        if row.wake_at != NEVER:
            heappush(self._wakes, (row.wake_at, state.uid))

    def _record(self, row: Row, events: Iterable[Event]) -> None:
        for event in events:
            self._events += 1
            row.events.append(Recorded(self._events, event))

    def life(self, uid: str) -> Life:
        """Everything recorded about one schedule."""
        row = self._rows[uid]
        jobs = sorted([*row.ended, *row.outstanding.values()])
        return Life(uid, row.state.schedule_id, row.revisions, row.events, jobs, row.state)


def _kept(row_id: int, new: NewJob, row: Row, now: int) -> Job:
    state, definition = row.state, row.plan.definition
    return Job(
        row_id=row_id,
        job_id=new.job_id,
        schedule_row=state.row_id,
        uid=state.uid,
        schedule_id=state.schedule_id,
        revision=state.revision,
        number=new.number,
        retry=new.retry,
        origin=new.origin,
        status="queued",
        slot_at=new.slot_at,
        due_at=new.due_at,
        not_before=new.not_before,
        is_ready=new.is_ready,
        is_counted=new.is_counted,
        is_probe=new.is_probe,
        attempt=0,
        rescues=0,
        payload=None,
        queue="default",
        guard_key=definition.guard.key if definition.guard else None,
        capacity_key=definition.capacity.key if definition.capacity else None,
        capacity_limit=definition.capacity.limit if definition.capacity else None,
        breaker_key=definition.breaker.key if definition.breaker else None,
        line=new.line,
        created_at=now,
        started_at=None,
        deadline_at=None,
        ended_at=None,
        released_at=None,
        node=None,
        fence=0,
        cancel_requested=False,
        reason=None,
        error=None,
        result=None,
        ready_at=(new.not_before or now) if new.is_ready else None,
    )
