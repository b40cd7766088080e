"""The simulation of declared schedules over a span, with given behaviour of runs; the result is its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from zlib import crc32

from everwhen.model.declare import Declarations
from everwhen.model.events import Event
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import JobFilter
from everwhen.model.schedule import Plan
from everwhen.operations.apply import counted_from
from everwhen.operations.simulated_world import Runs, VirtualWorld
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.describe import describe

MOST_REMEMBERED = 200
_REPORT_EVERY = 2_000  # instants between two reports of progress


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation."""

    counts: SimulationCounts
    max_workers: int

    @property
    def slots(self) -> int:
        return sum(line.slots for line in self.counts.lines.values())


def simulate(
    declared: Declarations,
    start: int,
    end: int,
    *,
    scenario: Scenario | None = None,
    runs: Runs | None = None,
    max_workers: int = 8,
    progress: Callable[[float], None] = lambda share: None,
) -> Simulation:
    """Simulate declared schedules over a span, as if they were created at its start.

    `runs` decides how each run goes; without it the scenario does.
    """
    scenario = scenario or Scenario()
    counts = SimulationCounts(start, end)
    world = VirtualWorld(
        start,
        _with_messages(runs or _by(scenario), declared),
        counts,
        max_workers=max_workers,
        outages=scenario.outages,
    )
    _create(world, counts, declared)
    for number, at in enumerate(world.instants(end)):
        if number % _REPORT_EVERY == 0:
            progress((at - start) / max(end - start, 1))
    for event in world.gathered():
        counts.record(event)
    return Simulation(counts, max_workers)


def recorded_runs(runtime: Runtime, scenario: Scenario) -> Runs:
    """Repeat recorded runs: each run copies one of the last of its schedule, chosen by its job id.

    A schedule without recorded runs follows the scenario.
    """
    remembered: dict[str, list[tuple[int, Outcome]]] = {}

    def run(job: Job) -> tuple[int, Outcome]:
        if job.schedule_id not in remembered:
            remembered[job.schedule_id] = _last_runs(runtime, job.schedule_id)
        known = remembered[job.schedule_id]
        if not known:
            return scenario.behaviour(job.schedule_id).of(job)
        return known[crc32(job.job_id.encode()) % len(known)]

    return run


def _last_runs(runtime: Runtime, schedule_id: str) -> list[tuple[int, Outcome]]:
    store = store_of(runtime)
    uid = store.ledger.uid_of(schedule_id)
    if uid is None:
        return []
    wanted = JobFilter(uid=uid, statuses=("succeeded", "failed", "timed_out"))
    return [
        (job.ended_at - job.started_at, _outcome(job))
        for job in store.ledger.jobs(wanted, limit=MOST_REMEMBERED)
        if job.ended_at is not None and job.started_at is not None
    ]


def _outcome(job: Job) -> Outcome:
    return SUCCEEDED if job.status == "succeeded" else Outcome("failed", error=job.error or job.status)


def _by(scenario: Scenario) -> Runs:
    return lambda job: scenario.behaviour(job.schedule_id).of(job)


def _with_messages(runs: Runs, declared: Declarations) -> Runs:
    """Let messages take no time and never fail: a message is written when it fires."""
    messages = {one.schedule_id for one in declared.schedules if one.definition.target.kind == "message"}
    return lambda job: (0, SUCCEEDED) if job.schedule_id in messages else runs(job)


def _create(world: VirtualWorld, counts: SimulationCounts, declared: Declarations) -> None:
    policies = {policy.policy_id: policy for policy in declared.policies}
    for one in declared.schedules:
        definition = counted_from(world.now, one.definition)
        counts.add(one.schedule_id, describe(definition.trigger, definition.zone))
        if one.is_enabled:
            uid = sha256(one.schedule_id.encode()).hexdigest()[:12]
            quiet = policies.get(definition.quiet_hours_id or "")
            world.create(uid, Plan(one.schedule_id, definition, quiet))


# Scenarios: the behaviour of runs in a simulation.


_WHOLE = 1 << 32
_FAILED = Outcome("failed", error="so the scenario says")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The duration of a run, from the shortest to the longest, and the share of runs that fail."""

    shortest: int = SECOND
    longest: int = SECOND
    failing: float = 0.0

    def of(self, job: Job) -> tuple[int, Outcome]:
        """Return the duration and the outcome of a job. They are derived from its id, so every simulation agrees."""
        chance = crc32(job.job_id.encode())
        duration = self.shortest + (self.longest - self.shortest) * chance // _WHOLE
        return duration, _FAILED if crc32(b"fails", chance) < self.failing * _WHOLE else SUCCEEDED


@dataclass(frozen=True, slots=True)
class Scenario:
    """Behaviour by schedule id or pattern, where the first match wins, and outages in which nothing runs."""

    default: Behaviour = field(default_factory=Behaviour)
    patterns: Mapping[str, Behaviour] = field(default_factory=dict)
    outages: Sequence[tuple[int, int]] = ()

    def behaviour(self, schedule_id: str) -> Behaviour:
        fitting = (b for pattern, b in self.patterns.items() if fnmatchcase(schedule_id, pattern))
        return next(fitting, self.default)


# The counts of a simulation: a time line and totals for each schedule, and the peak of running jobs.


COLUMNS = 60


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
    longest_wait: int = 0  # from due to start
    fired_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)
    passed_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)
    failed_in: list[int] = field(default_factory=lambda: [0] * COLUMNS)

    @property
    def slots(self) -> int:
        return self.fired + self.skipped.total() + self.missed.total() + self.caught_up


class SimulationCounts:
    """Counts what happens in a span; a `Watcher` of the world."""

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

    def fired(self, job: Job) -> None:
        """Count a slot that has its job, whether or not a worker takes the job within the span."""
        if job.origin == "retry":
            return
        line = self.lines[job.schedule_id]
        line.fired += 1
        line.fired_in[self._column(job.slot_at)] += 1
        line.first_at = job.slot_at if line.first_at is None else line.first_at
        line.last_at = job.slot_at

    def started(self, job: Job, running: int) -> None:
        line, now = self.lines[job.schedule_id], job.started_at or 0
        line.longest_wait = max(line.longest_wait, now - max(job.due_at, job.not_before or 0))
        if running > self.peak_running:
            self.peak_running, self.peak_at = running, now

    def ended(self, job: Job, status: str, now: int) -> None:
        line = self.lines[job.schedule_id]
        line.ended[status] += 1
        if status in ("failed", "timed_out"):
            line.failed_in[self._column(job.slot_at)] += 1
        if job.started_at is not None:
            line.busy += now - job.started_at

    def _column(self, at: int) -> int:
        share = (at - self.start) * COLUMNS // max(self.end - self.start, 1)
        return min(max(share, 0), COLUMNS - 1)
