"""A simulation that counts ordinary slots in bulk finds what one that decides slot by slot finds."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.model.events import Event
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.operations.simulate import Behaviour, Scenario, simulate
from everwhen.operations.simulated_rows import AnyJob
from everwhen.operations.simulated_world import SimulationCounts
from tests.operations.test_simulate import START, declared

TRIGGERS: list[dict[str, Any]] = [
    {"every": "1h"},
    {"every": "25s"},
    {"every": "7m", "first_run": "after_interval"},
    {"every": "7m", "interval_from": "completion"},
    {"every": "90s", "jitter": "40s"},
    {"cron": "0 * * * *"},
    {"cron": "*/10 * * * *", "jitter": "8m"},
    {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
    {"every": "monthly"},
    {"after": "3h"},
]
POLICIES: dict[str, list[Any]] = {
    "if_running": ["skip", "queue", "cancel", "allow"],
    "catch_up": ["skip", "run_once", "run_all"],
    "only_between": ["08:00-18:00", "22:00-03:00"],
    "outside_window": ["skip", "defer"],
    "not_on": [["monday"], ["tuesday"]],
    "timeout": ["1m", "1h"],
    "max_retries": [1, 3],
    "on_exhausted": ["continue", "stop"],
    "total_repeats": [3],
    "max_outstanding": [1],
    "misfire_grace": ["1s", "2h"],
    "end_at": ["2026-01-05T20:00:00Z"],
    "start_at": ["2026-01-05T04:00:00Z"],
}


@st.composite
def some_schedules(draw: st.DrawFn) -> list[dict[str, Any]]:
    schedules = []
    for number in range(draw(st.integers(1, 5))):
        fields = {"id": f"s{number}", **draw(st.sampled_from(TRIGGERS))}
        for key in draw(st.lists(st.sampled_from(sorted(POLICIES)), max_size=3, unique=True)):
            fields[key] = draw(st.sampled_from(POLICIES[key]))
        schedules.append(_consistent(fields))
    return schedules


def _consistent(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is refused together."""
    if "start_at" in fields:
        fields.pop("first_run", None)
    if "after" in fields:
        fields.pop("start_at", None)
        fields.pop("end_at", None)
        fields.pop("total_repeats", None)
    if "outside_window" in fields and "only_between" not in fields:
        fields["only_between"] = "08:00-18:00"
    if "on_exhausted" in fields:
        fields.setdefault("max_retries", 1)
    return fields


durations = st.sampled_from([0, SECOND, 20 * SECOND, 2 * MINUTE, 50 * MINUTE, 3 * HOUR])
behaviours = st.builds(
    lambda one, other, failing: Behaviour(min(one, other), max(one, other), failing),
    durations,
    durations,
    st.sampled_from([0.0, 0.0, 0.1, 1.0]),
)
outages = st.lists(
    st.builds(
        lambda first, length: (START + first, START + first + length),
        st.integers(0, 23 * HOUR),
        st.sampled_from([1, 1_500_000, 90 * SECOND, 5 * HOUR]),
    ),
    max_size=2,
)


class Record(SimulationCounts):
    """Keeps what happened in its order, without the order among what happens at one instant."""

    def __init__(self) -> None:
        super().__init__(START, START + DAY)
        self.seen: list[tuple[object, ...]] = []

    def record(self, event: Event) -> None:
        super().record(event)
        self.seen.append(("event", event.type, event.schedule_id, event.at, event.slot_at, event.reason))

    def fired(self, job: AnyJob) -> None:
        super().fired(job)
        self.seen.append(("fired", job.job_id, job.slot_at, job.due_at, job.created_at, job.origin))

    def started(self, job: AnyJob, running: int, waited: int) -> None:
        super().started(job, running, waited)
        self.seen.append(("started", job.job_id, running, waited, job.started_at))

    def ended(self, job: AnyJob, status: str, now: int) -> None:
        super().ended(job, status, now)
        self.seen.append(("ended", job.job_id, status, now))


@given(some_schedules(), behaviours, behaviours, outages, st.sampled_from([1, 2, 8]))
@settings(max_examples=60, deadline=None)
def test_slots_counted_in_bulk_are_those_that_are_decided_one_by_one(
    schedules: list[dict[str, Any]],
    usual: Behaviour,
    of_the_first: Behaviour,
    away: list[tuple[int, int]],
    workers: int,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = declared(Path(directory), *schedules)
    scenario = Scenario(usual, {"s0": of_the_first}, away)
    records = []
    for slot_by_slot in (False, True):
        record = Record()
        simulate(
            found,
            START,
            START + DAY,
            scenario=scenario,
            max_workers=workers,
            counts=record,
            slot_by_slot=slot_by_slot,
        )
        records.append(record)
    in_bulk, one_by_one = records
    assert in_bulk.seen == one_by_one.seen
    assert in_bulk.lines == one_by_one.lines
    assert (in_bulk.peak_running, in_bulk.peak_at) == (one_by_one.peak_running, one_by_one.peak_at)
