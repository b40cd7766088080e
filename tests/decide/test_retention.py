"""What may be forgotten: an event when everything that it speaks of is over, and nothing that a proof needs."""

from __future__ import annotations

import pytest

from everwhen.decide.retention import is_over, may_go
from everwhen.model.events import Event

BEFORE = 1_000


@pytest.mark.parametrize(
    ("event", "over"),
    [
        (Event("job.lost", 999, slot_at=900), True),
        (Event("job.lost", 1_000, slot_at=900), False),
        (Event("schedule.skipped", 999, slot_at=1_000), False),
        (Event("schedule.missed", 999, slot_at=1, slot_count=9, detail={"first": 1, "last": 999}), True),
        (Event("schedule.missed", 999, slot_at=1, slot_count=9, detail={"first": 1, "last": 1_000}), False),
        (Event("scheduler.clock_stepped", 999, detail={"from": 2_000, "to": 999}), False),
        (Event("scheduler.clock_stepped", 999, detail={"from": 1, "to": 999}), True),
    ],
)
def test_an_event_is_over_when_all_it_names_is(event: Event, over: bool) -> None:
    assert is_over(event, BEFORE) == over


@pytest.mark.parametrize(
    ("event", "last_slot_at", "may"),
    [
        (Event("schedule.created", 1), None, False),
        (Event("system.paused", 1), None, False),
        (Event("job.lost", 2_000), None, False),
        (Event("job.lost", 1), 5, True),
        (Event("schedule.skipped", 1, slot_at=5), None, True),
        (Event("schedule.skipped", 1, slot_at=5), 5, False),
        (Event("schedule.skipped", 1, slot_at=5), 6, True),
        (Event("schedule.missed", 1, slot_at=2, slot_count=3, detail={"first": 2, "last": 5}), 5, False),
    ],
)
def test_what_a_proof_needs_stays(event: Event, last_slot_at: int | None, may: bool) -> None:
    assert may_go(event, BEFORE, last_slot_at=last_slot_at) == may
