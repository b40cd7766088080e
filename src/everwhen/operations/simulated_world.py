"""A simulated scheduler in memory, which goes from one instant at which something happens to the next.

The decisions are those of `decide`. What a store does with them happens here on dictionaries: new jobs are queued, a
limited call executor takes them, ended ones are settled. The real clock is never read. What is ordinary about the
schedules that share no limit is counted without a decision (`simulated_rows`); a property test compares the results.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from everwhen.decide.budgets import Refusal
from everwhen.decide.claim import claim
from everwhen.decide.edit import create
from everwhen.decide.settle import put_off_retry, settle
from everwhen.decide.status import end_pause
from everwhen.decide.tick import due_first, tick
from everwhen.model import row_changes
from everwhen.model.changes import Decision
from everwhen.model.claim import counters_of
from everwhen.model.events import Event
from everwhen.model.job import Job, NewJob
from everwhen.model.limits import FOR_EVER, Coverage, Shared
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Plan
from everwhen.operations.simulated_rows import NODE, AnyJob, SimulatedRow

Runs = Callable[[AnyJob], tuple[int, Outcome]]  # how long a run takes, and how it ends
COLUMNS = 60


class VirtualWorld:
    """Schedules, their jobs, a call executor of `max_workers`, and outages in which nothing happens."""

    def __init__(
        self,
        now: int,
        runs: Runs,
        watcher: SimulationCounts,
        *,
        max_workers: int,
        outages: Sequence[tuple[int, int]] = (),
        slot_by_slot: bool = False,
    ) -> None:
        self.now = now
        self._slot_by_slot = slot_by_slot
        self._runs = runs
        self._watcher = watcher
        self._free = max_workers
        self._max_workers = max_workers
        self._outages = deque(sorted(outages))
        self._rows: dict[str, SimulatedRow] = {}
        # Alive all the time except in the outages, including the instant at which one begins.
        alive = Coverage(((now, FOR_EVER),)).without((first - 1, last) for first, last in outages)
        self._shared = Shared(coverage=alive)
        self._wakes: list[tuple[int, str]] = []
        self._begins: list[tuple[int, int, str, str]] = []  # jobs that may not start before an instant
        self._ends: list[tuple[int, int, str, str, Outcome]] = []
        self._ready: deque[tuple[str, str, int]] = (
            deque()
        )  # jobs that only a worker keeps waiting, and since when
        self._crowd: dict[str, list[tuple[str, str]]] = {}  # jobs that wait for capacity
        self._held: dict[str, SimulatedRow] = {}
        self._jobs = 0

    def create(self, uid: str, plan: Plan) -> None:
        state, events = create(plan, uid, self.now, may_be_past=True)
        row = self._rows[uid] = SimulatedRow(state, plan, may_be_brief=not self._slot_by_slot)
        self._pass_on(events)
        self._set_wake(row)

    def instants(self, until: int) -> Iterator[int]:
        """Simulate everything before `until`; yield each instant when it is finished."""
        while True:
            queues = (self._wakes, self._begins, self._ends)
            following = min(queue[0][0] if queue else FOR_EVER for queue in queues)
            at = self._after_outage(max(following, self.now))
            if at >= until:
                break
            self.now = at
            self._end_jobs()
            while self._begins and self._begins[0][0] <= at:
                _, _, uid, job_id = heappop(self._begins)
                self._ready.append((uid, job_id, at))
            self._tick()
            self._take_jobs()
            yield at
        self.now = until

    def gathered(self) -> Iterator[Event]:
        """Yield skips that are still counted on their rows."""
        for row in self._rows.values():
            state = row.state
            if state.skip_count:
                yield Event(
                    "schedule.skipped",
                    self.now,
                    state.schedule_id,
                    state.uid,
                    slot_at=state.skip_first_at,
                    reason=state.skip_reason,
                    slot_count=state.skip_count,
                    detail={"first": state.skip_first_at, "last": state.skip_last_at},
                )

    # -- time --

    def _after_outage(self, at: int) -> int:
        while self._outages and self._outages[0][1] <= at:
            self._outages.popleft()
        return self._outages[0][1] if self._outages and self._outages[0][0] <= at else at

    # -- deciding --

    def _tick(self) -> None:
        due: dict[str, SimulatedRow] = {}
        is_any_full = False
        while self._wakes and self._wakes[0][0] <= self.now:
            at, uid = heappop(self._wakes)
            row = self._rows[uid]
            if row.wake_at != at:
                continue
            if row.is_brief:
                due[uid] = row
            elif row.state.status == "active":
                due[uid] = row
                is_any_full = True
            else:  # a pause by a budget ends by itself
                self._commit(row, end_pause(row.schedule, self.now, self._shared))
        ordered: Iterable[SimulatedRow] = due.values()
        if is_any_full:
            ordered = sorted(ordered, key=self._due_first)
        decisions = self._decide([row for row in ordered if not (row.is_brief and row.may_fire(self.now))])
        for row in ordered:
            if row.is_brief:
                self._fire_brief(row)
            else:
                self._commit(row, decisions[row.uid])

    def _due_first(self, row: SimulatedRow) -> int:
        return row.wake_at if row.is_brief else due_first(row.schedule, self.now)

    def _decide(self, rows: Sequence[SimulatedRow]) -> dict[str, Decision]:
        for row in rows:
            if row.is_brief:
                row.expand()
        if not rows:
            return {}
        decided = tick([row.schedule for row in rows], self.now, self._shared)
        return {decision.after.uid: decision for decision in decided}

    def _fire_brief(self, row: SimulatedRow) -> None:
        self._jobs += 1
        job = row.fire(self.now, self._jobs)
        self._watcher.fired(job)
        self._ready.append((row.uid, job.job_id, self.now))
        heappush(self._wakes, (row.wake_at, row.uid))

    def _commit(self, row: SimulatedRow, decision: Decision) -> None:
        row.state, row.plan = decision.after, decision.plan
        self._shared.undo.clear()  # nothing is ever rolled back here
        self._shared.transitions.clear()
        self._shared.events.clear()
        self._pass_on(decision.events)
        for job, _ in decision.cancelled:
            self._cancel(row, job)
        for new in decision.jobs:
            self._enqueue(row, new)
        self._set_wake(row)

    def _cancel(self, row: SimulatedRow, job: Job) -> None:
        if row.outstanding.pop(job.job_id, None) is None:
            return
        if job.status == "running":  # its worker releases it at once
            if job.origin != "backfill":
                row.state = row_changes.release(row.state)
            self._shared.move(job.capacity_key, running=-1)
            self._free += 1
            self._call_others(row, job)
        self._watcher.ended(job, "cancelled", self.now)

    def _enqueue(self, row: SimulatedRow, new: NewJob) -> None:
        self._jobs += 1
        job = row.outstanding[new.job_id] = row_changes.queue_job(
            row_changes.job_row(new, row.state, row.plan, self.now), self._jobs
        )
        self._watcher.fired(job)
        if new.not_before is not None:
            heappush(self._begins, (new.not_before, job.row_id, job.uid, job.job_id))
        else:
            self._ready.append((job.uid, job.job_id, self.now))

    def _set_wake(self, row: SimulatedRow) -> None:
        state = row.state
        if state.held_key is not None:
            self._held[state.uid] = row
        else:
            self._held.pop(state.uid, None)
        if state.status != "active":
            row.wake_at = state.resume_at or FOR_EVER
        else:
            row.wake_at = min(state.next_run_at or FOR_EVER, state.release_at or FOR_EVER)
        if row.wake_at != FOR_EVER:
            heappush(self._wakes, (row.wake_at, state.uid))
        row.abridge()

    def _pass_on(self, events: Iterable[Event]) -> None:
        for event in events:
            self._watcher.record(event)

    # -- running --

    def _take_jobs(self) -> None:
        while self._free and self._ready:
            uid, job_id, ready_at = self._ready.popleft()
            row = self._rows[uid]
            brief = row.brief_job
            if brief is not None and brief.job_id == job_id:
                brief.started_at = self.now
                self._start(row, brief, ready_at)
                continue
            job = row.outstanding.get(job_id)
            if job is not None and job.status == "queued":
                self._take(row, job, ready_at)

    def _take(self, row: SimulatedRow, job: Job, ready_at: int) -> None:
        others = row.outstanding.values()
        if job.line not in (None, "own") and any(
            o.line == job.line and o.status == "running" for o in others
        ):
            return  # queued again when the job before it ends
        counters = {job.uid: counters_of(row.state)}
        plans = {(job.uid, job.revision): row.plan}
        taken, postponed, starts, refused, _ = claim(
            [job], plans, counters, self._shared, node=NODE, limit=1, now=self.now
        )
        for waiting, until in postponed:
            heappush(self._begins, (until, waiting.row_id, waiting.uid, waiting.job_id))
        for waiting, refusal in refused:
            self._put_off(row, waiting, refusal)
        if taken:
            row.state = starts[0][1].added_to(row.state, self.now)
            started = row.outstanding[job.job_id] = taken[0].job
            self._start(row, started, ready_at)
        elif not postponed and not refused and not (job.line == "own" and row.state.running_jobs):
            self._crowd.setdefault(job.capacity_key or "", []).append((job.uid, job.job_id))

    def _put_off(self, row: SimulatedRow, job: Job, refusal: Refusal) -> None:
        decided = put_off_retry(row.schedule, job, refusal, self.now, self._shared)
        if isinstance(decided, int):
            heappush(self._begins, (decided, job.row_id, job.uid, job.job_id))
        else:
            self._commit(row, decided)

    def _start(self, row: SimulatedRow, job: AnyJob, ready_at: int) -> None:
        self._free -= 1
        duration, outcome = self._runs(job)
        timeout = row.plan.definition.timeout
        if timeout is not None and duration > timeout:
            duration, outcome = timeout, Outcome("timed_out", error="timed out")
        heappush(self._ends, (self.now + duration, job.row_id, job.uid, job.job_id, outcome))
        self._watcher.started(job, self._max_workers - self._free, self.now - ready_at)

    def _end_jobs(self) -> None:
        while self._ends and self._ends[0][0] <= self.now:
            _, _, uid, job_id, outcome = heappop(self._ends)
            row = self._rows[uid]
            brief = row.brief_job
            if brief is not None and brief.job_id == job_id:
                if outcome.status == "succeeded":
                    self._free += 1
                    self._watcher.ended(brief, "succeeded", self.now)
                    row.brief_job = None
                    continue
                row.expand()
            job = row.outstanding.pop(job_id, None)
            if job is None:
                continue  # cancelled meanwhile
            decision = settle(job, outcome, row.schedule, self.now, self._shared).decision
            assert decision is not None
            self._free += 1
            self._watcher.ended(job, outcome.status, self.now)
            self._commit(row, decision)
            self._call_others(row, job)

    def _call_others(self, row: SimulatedRow, job: Job) -> None:
        """Queue again the jobs that waited for the schedule, the capacity or the guard of a released job."""
        self._ready.extend(
            (other.uid, other.job_id, self.now)
            for other in sorted(row.outstanding.values(), key=lambda other: (other.slot_at, other.row_id))
            if other.status == "queued" and (other.not_before is None or other.not_before <= self.now)
        )
        if job.capacity_key in self._crowd:
            self._ready.extend((*waiting, self.now) for waiting in self._crowd.pop(job.capacity_key))
        for held in list(self._held.values()):
            if held.state.release_at is None and held.state.held_key in (job.guard_key, job.capacity_key):
                held.state = held.state._replace(release_at=self.now)
                self._set_wake(held)


@dataclass(slots=True)
class Line:
    """The counts of one schedule. The columns of its time line count what fired, was skipped or missed, and failed."""

    schedule_id: str
    text: str
    fired: int = 0
    first_at: int | None = None
    last_at: int | None = None
    ended: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    caught_up: int = 0  # slots that were merged into another job
    busy: int = 0  # microseconds of runs
    longest_wait: int = 0  # of a job that only a worker kept waiting
    fired_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)
    passed_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)
    failed_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)

    @property
    def slots(self) -> int:
        return self.fired + self.skipped.total() + self.missed.total() + self.caught_up


class SimulationCounts:
    """Counts what happens in a span."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.lines: dict[str, Line] = {}
        self.peak_running = 0
        self.peak_at: int | None = None

    def add(self, schedule_id: str, text: str) -> None:
        self.lines[schedule_id] = Line(schedule_id, text)

    def record(self, event: Event) -> None:
        if event.slot_at is None or event.schedule_id is None:
            return
        line = self.lines[event.schedule_id]
        if event.type == "schedule.skipped" and event.reason is not None:
            line.skipped[event.reason] += event.slot_count
        elif event.type == "schedule.missed" and event.reason is not None:
            line.missed[event.reason] += event.slot_count
        elif event.type == "schedule.caught_up":
            line.caught_up += event.slot_count - 1
        else:
            return
        self._spread(line.passed_in, event)

    def _spread(self, columns: list[int], event: Event) -> None:
        """Distribute a range of slots evenly over the columns from its first to its last."""
        first, last = (event.detail.get(end, event.slot_at) for end in ("first", "last"))
        assert isinstance(first, int) and isinstance(last, int)
        left, right = self._column(first), self._column(last)
        share, rest = divmod(event.slot_count, right - left + 1)
        for column in range(left, right + 1):
            columns[column] += share + (column - left < rest)

    def fired(self, job: AnyJob) -> None:
        """Count a slot that has its job, whether or not a worker takes the job within the span."""
        if job.origin == "retry":
            return
        line = self.lines[job.schedule_id]
        line.fired += 1
        line.fired_in[self._column(job.slot_at)] += 1
        line.first_at = job.slot_at if line.first_at is None else line.first_at
        line.last_at = job.slot_at

    def started(self, job: AnyJob, running: int, waited: int) -> None:
        line = self.lines[job.schedule_id]
        line.longest_wait = max(line.longest_wait, waited)
        if running > self.peak_running:
            self.peak_running, self.peak_at = running, job.started_at

    def ended(self, job: AnyJob, status: str, now: int) -> None:
        line = self.lines[job.schedule_id]
        line.ended[status] += 1
        if status in ("failed", "timed_out"):
            line.failed_in[self._column(job.slot_at)] += 1
        if job.started_at is not None:
            line.busy += now - job.started_at

    def _column(self, at: int) -> int:
        share = (at - self.start) * COLUMNS // max(self.end - self.start, 1)
        return min(max(share, 0), COLUMNS - 1)
