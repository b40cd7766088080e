"""The simulation of declared schedules over a span, with given behaviour of runs; the result is its counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from zlib import crc32

from everwhen.model.declared import Declarations
from everwhen.model.job import Job
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import JobFilter
from everwhen.model.scenario import Scenario
from everwhen.model.schedule import Plan
from everwhen.operations.apply import counted_from
from everwhen.operations.simulate.tally import SimulationCounts
from everwhen.operations.simulate.world import Runs, VirtualWorld
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of
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
