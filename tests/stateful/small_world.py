"""The smallest world that applies `decide` over time: a few schedules, a heap, no store.

It goes from one instant at which something happens to the next, as a scheduler with exact sleeps would. During an
outage it does nothing at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from everwhen.decide.edit import create
from everwhen.decide.settle import settle
from everwhen.decide.tick import tick
from everwhen.model.changes import Decision
from everwhen.model.claim import ORDINARY
from everwhen.model.events import Event
from everwhen.model.history import History, Recorded, Revision, ScheduleHistory
from everwhen.model.job import Job, NewJob
from everwhen.model.limits import Shared
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.row_changes import start_job
from everwhen.model.schedule import Plan, Schedule, State
from everwhen.verify.ledger import LedgerReport, check_ledger
from tests.keeping import kept

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
    """Schedules, jobs, and what they share; `run` decides the outcome of each job."""

    def __init__(self, now: int, run: Run, *, outages: Sequence[tuple[int, int]] = ()) -> None:
        self.now = now
        self._run = run
        self._outages = deque(sorted(outages))
        self._rows: dict[str, Row] = {}
        self._shared = Shared()
        # Each ends with an entry that never happens, so that there is always a first.
        self._wakes: list[tuple[int, str]] = [(NEVER, "")]
        self._ends: list[tuple[int, int, str, str, Outcome]] = [(NEVER, 0, "", "", SUCCEEDED)]
        self._starts: list[tuple[int, str]] = [(NEVER, "")]
        self._held: dict[str, Row] = {}
        self._events = 0
        self._jobs = 0

    def create(self, uid: str, plan: Plan) -> None:
        state, events = create(plan, uid, self.now)
        row = self._rows[uid] = Row(state, plan, self.now, revisions=[Revision(1, self.now, plan)])
        self._record(row, events)
        self._schedule_wake(row)

    def change(self, uid: str, decide: Callable[[Schedule, int, Shared], Decision]) -> None:
        """Apply a person's change to a schedule, now."""
        row = self._rows[uid]
        schedule = Schedule(row.state, row.plan, list(row.outstanding.values()))
        decision = decide(schedule, self.now, self._shared)
        self._commit(row, decision)
        if decision.after.revision != decision.before.revision:
            row.revisions.append(Revision(decision.after.revision, self.now, decision.plan))

    def state(self, uid: str) -> State:
        return self._rows[uid].state

    def go_to(self, instant: int) -> None:
        """Process everything that happens by then."""
        while True:
            at = self._after_outage(
                max(min(self._wakes[0][0], self._ends[0][0], self._starts[0][0]), self.now)
            )
            if at > instant:
                break
            self.now = at
            self._end_jobs()
            self._start_waiting()
            self._tick()
        self.now = max(self.now, instant)

    def check(self) -> LedgerReport:
        return check_ledger(History([self.history(uid) for uid in self._rows]), self.now, tolerance=0)

    # -- inside --

    def _after_outage(self, at: int) -> int:
        while self._outages and self._outages[0][1] <= at:
            self._outages.popleft()
        return self._outages[0][1] if self._outages and self._outages[0][0] <= at else at

    def _tick(self) -> None:
        if self._wakes[0][0] > self.now:
            return
        due: dict[str, Row] = {}
        while self._wakes[0][0] <= self.now:
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
            if job.status == "running":  # its worker releases it at once
                row.state = row.state._replace(running_jobs=row.state.running_jobs - 1)
                self._shared.move(job.capacity_key, running=-1)
        for new in decision.jobs:
            self._enqueue(row, new)
        self._schedule_wake(row)
        self._start_ready(row)

    def _enqueue(self, row: Row, new: NewJob) -> None:
        self._jobs += 1
        row.outstanding[new.job_id] = kept(new, self._jobs, row.state, row.plan, self.now)
        if new.not_before is not None:
            heappush(self._starts, (new.not_before, row.state.uid))

    def _start_waiting(self) -> None:
        while self._starts[0][0] <= self.now:
            self._start_ready(self._rows[heappop(self._starts)[1]])

    def _start_ready(self, row: Row) -> None:
        if not row.outstanding:
            return
        jobs: Iterable[Job] = list(row.outstanding.values())
        if len(row.outstanding) > 1:
            jobs = sorted(jobs, key=lambda job: job.slot_at)
        for job in jobs:
            if job.status != "queued" or (job.not_before is not None and job.not_before > self.now):
                continue
            if job.line == "own" and row.state.running_jobs:
                return
            self._start(row, job)

    def _start(self, row: Row, job: Job) -> None:
        row.state = ORDINARY.added_to(row.state, self.now)
        if job.not_before is not None:
            row.state = row.state._replace(
                waiting=row.state.waiting - 1,
                retries_waiting=row.state.retries_waiting - (job.origin == "retry"),
            )
        started = start_job(job, self.now, None, "n", job.is_probe)
        if not job.is_counted:
            self._shared.move(job.guard_key, outstanding=1)
            self._shared.move(job.capacity_key, outstanding=1)
        if job.capacity_key is not None:
            self._shared.move(job.capacity_key, running=1)
        row.outstanding[job.job_id] = started
        duration, outcome = self._run(started)
        heappush(self._ends, (self.now + duration, job.row_id, row.state.uid, job.job_id, outcome))

    def _end_jobs(self) -> None:
        while self._ends[0][0] <= self.now:
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
        for row in list(self._held.values()):
            if row.state.held_key is not None and row.state.release_at is None:
                row.state = row.state._replace(release_at=self.now)
                self._schedule_wake(row)

    def _schedule_wake(self, row: Row) -> None:
        state = row.state
        if state.held_key is not None:
            self._held[state.uid] = row
        else:
            self._held.pop(state.uid, None)
        wake_at = min(state.next_run_at or NEVER, state.release_at or NEVER)
        row.wake_at = wake_at if state.status == "active" else NEVER
        if row.wake_at != NEVER:
            heappush(self._wakes, (row.wake_at, state.uid))

    def _record(self, row: Row, events: Iterable[Event]) -> None:
        for event in events:
            self._events += 1
            row.events.append(Recorded(self._events, event))

    def history(self, uid: str) -> ScheduleHistory:
        """Everything recorded about one schedule."""
        row = self._rows[uid]
        jobs = sorted([*row.ended, *row.outstanding.values()])
        return ScheduleHistory(uid, row.state.schedule_id, row.revisions, row.events, jobs, row.state)
