"""The simulation of declared schedules over a span, with given behaviour of runs; the result is its counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from zlib import crc32

from everwhen.model.declare import Declarations
from everwhen.model.instants import SECOND
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import JobFilter
from everwhen.model.schedule import Plan
from everwhen.operations.apply import counted_from
from everwhen.operations.simulated_rows import AnyJob
from everwhen.operations.simulated_world import Line as Line
from everwhen.operations.simulated_world import Runs, SimulationCounts, VirtualWorld
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.describe import describe

MOST_REMEMBERED = 200
_REPORTS = 500  # of progress


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
    counts: SimulationCounts | None = None,
    slot_by_slot: bool = False,
) -> Simulation:
    """Simulate declared schedules over a span, as if they were created at its start.

    `runs` decides how each run goes; without it the scenario does. `counts` records all that happens; one of a subclass
    may keep more than numbers. `slot_by_slot`: every slot is decided in full; the result is the same.
    """
    scenario = scenario or Scenario()
    counts = counts or SimulationCounts(start, end)
    world = VirtualWorld(
        start,
        _with_messages(runs or scenario.run, declared),
        counts,
        max_workers=max_workers,
        outages=scenario.outages,
        slot_by_slot=slot_by_slot,
    )
    _create(world, counts, declared)
    step, reported_at = (end - start) // _REPORTS, start
    for at in world.instants(end):
        if at >= reported_at + step:
            reported_at = at
            progress((at - start) / max(end - start, 1))
    for event in world.gathered():
        counts.record(event)
    return Simulation(counts, max_workers)


def recorded_runs(runtime: Runtime, scenario: Scenario) -> Runs:
    """Repeat recorded runs: each run copies one of the last of its schedule, chosen by its job id.

    A schedule without recorded runs follows the scenario.
    """
    remembered: dict[str, list[tuple[int, Outcome]]] = {}

    def run(job: AnyJob) -> tuple[int, Outcome]:
        if job.schedule_id not in remembered:
            remembered[job.schedule_id] = _last_runs(runtime, job.schedule_id)
        known = remembered[job.schedule_id]
        return known[crc32(job.job_id.encode()) % len(known)] if known else scenario.run(job)

    return run


def _last_runs(runtime: Runtime, schedule_id: str) -> list[tuple[int, Outcome]]:
    store = store_of(runtime)
    uid = store.ledger.uid_of(schedule_id)
    if uid is None:
        return []
    wanted = JobFilter(uid=uid, statuses=("succeeded", "failed", "timed_out"))
    found: list[tuple[int, Outcome]] = []
    for job in store.ledger.jobs(wanted, limit=MOST_REMEMBERED):
        is_success = job.status == "succeeded"
        outcome = SUCCEEDED if is_success else Outcome("failed", error=job.error or job.status)
        if job.ended_at is not None and job.started_at is not None:
            found.append((job.ended_at - job.started_at, outcome))
    return found


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


_WHOLE = 1 << 32
_FAILED = Outcome("failed", error="so the scenario says")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The duration of a run, from the shortest to the longest, and the share of runs that fail."""

    shortest: int = SECOND
    longest: int = SECOND
    failing: float = 0.0

    def of(self, job: AnyJob) -> tuple[int, Outcome]:
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
        if not self.patterns:
            return self.default
        fitting = (b for pattern, b in self.patterns.items() if fnmatchcase(schedule_id, pattern))
        return next(fitting, self.default)

    def run(self, job: AnyJob) -> tuple[int, Outcome]:
        return self.behaviour(job.schedule_id).of(job)
