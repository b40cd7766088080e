"""What is said of one-shots agrees on their instant: why, upcoming, preview, the time line, simulate, backfill."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.instants import HOUR, SECOND, to_datetime
from everwhen.model.schedule import Definition
from everwhen.model.serialize import definition_of, fields_of
from everwhen.operations.jobs import backfill
from everwhen.operations.schedules import get_schedule
from everwhen.operations.simulate import simulate
from everwhen.operations.upcoming import upcoming
from everwhen.operations.why import why
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.timetable.civil_time import zone
from everwhen.timetable.describe import describe
from everwhen.timetable.trigger import Once
from tests.operations.test_simulate import START, declared

NOON = 1_767_614_400 * SECOND  # 2026-01-05
DUE = "2026-01-05T12:00:00.7Z"
DUE_AT = NOON + 700_000


@pytest.fixture
def scheduler() -> ManualScheduler:
    found = manual_scheduler("2026-01-05T11:00:00Z")
    found.add("a", at=DUE, timezone="Europe/Berlin")
    return found


def said(scheduler: ManualScheduler, at: int | None = None) -> str:
    return why(scheduler.runtime, "a", at).sentence


def test_a_sentence_names_the_instant_with_its_fraction(scheduler: ManualScheduler) -> None:
    text = "Mon 2026-01-05 13:00:00.7 CET +01:00"
    assert said(scheduler) == f"No slot has come yet. {text} will fire."
    trigger = get_schedule(scheduler.runtime, "a").definition.trigger
    assert describe(trigger, zone("Europe/Berlin")) == f"once, at {text}"
    scheduler.advance("1h")
    assert said(scheduler).startswith(f"No slot has come yet. {text} will fire")  # it is 12:00:00
    scheduler.advance("1s")
    assert said(scheduler).startswith(f"{text} fired")


@pytest.mark.parametrize("at", [NOON, NOON + SECOND, DUE_AT])
def test_the_instant_finds_its_slot_as_it_is_shown_cut_or_rounded(
    scheduler: ManualScheduler, at: int
) -> None:
    scheduler.advance("2h")
    assert why(scheduler.runtime, "a", at).slot_at == NOON


def test_a_slot_belongs_to_the_revision_in_force_at_its_instant(scheduler: ManualScheduler) -> None:
    scheduler.clock.set("2026-01-05T12:00:00.3Z")
    scheduler.edit("a", at="2026-01-05T12:00:00.9Z", timezone="Europe/Berlin")
    scheduler.advance("1m")
    found = why(scheduler.runtime, "a", NOON)
    assert found.evidence is not None
    assert (found.fate, found.evidence.revision.revision, found.evidence.due_at) == (
        "fired",
        2,
        NOON + 900_000,
    )


def test_what_comes_is_due_at_its_instant(scheduler: ManualScheduler) -> None:
    (slot,) = upcoming(scheduler.runtime, "a", 5)
    assert (slot.slot_at, slot.due_at) == (NOON, DUE_AT)
    scheduler.clock.set("2026-01-05T12:00:00.5Z")
    (slot,) = upcoming(scheduler.runtime, "a", 5)
    assert slot.due_at == DUE_AT


def test_a_backfill_takes_slots_by_their_instant(scheduler: ManualScheduler) -> None:
    scheduler.pause("a")
    scheduler.advance("2h")
    first, due_at, after = (to_datetime(instant) for instant in (NOON, DUE_AT, DUE_AT + 1))
    assert backfill(scheduler.runtime, "a", first, due_at, dry_run=True).slots == ()
    assert backfill(scheduler.runtime, "a", first, after, dry_run=True).slots == (NOON,)


def test_a_simulation_fires_it_at_its_instant() -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = declared(Path(directory), {"id": "a", "at": "2026-01-05T06:00:00.7Z"})
    lines = simulate(found, START, START + 6 * HOUR + 700_000).counts.lines
    assert lines["a"].fired == 0
    lines = simulate(found, START, START + 6 * HOUR + 700_001).counts.lines
    assert (lines["a"].fired, lines["a"].missed) == (1, {})


def a_definition(scheduler: ManualScheduler, **fields: Any) -> Definition:
    scheduler.add("b", **fields)
    return get_schedule(scheduler.runtime, "b").definition


@pytest.mark.parametrize("fields", [{"at": DUE}, {"after": "5m"}, {"at": "2026-01-05T12:00:00Z"}])
def test_a_stored_definition_keeps_its_fraction(scheduler: ManualScheduler, fields: dict[str, str]) -> None:
    scheduler.clock.set("2026-01-05T11:00:00.123456Z")
    definition = a_definition(scheduler, **fields)
    stored = fields_of(definition)
    assert definition_of(stored).trigger == definition.trigger
    assert ("fraction" in str(stored)) == (definition.trigger.fraction > 0)  # type: ignore[union-attr]


def test_an_instant_that_release_0_2_rounded_up_stays_as_it_is(scheduler: ManualScheduler) -> None:
    """A file that is loaded again says the same words; neither the slot nor what became of it moves."""
    from everwhen.decide.reconcile import settled
    from everwhen.model.fast_values import replaced

    new = get_schedule(scheduler.runtime, "a").definition
    old = replaced(new, trigger=Once(NOON // SECOND + 1, "at", DUE))
    assert settled(new, old).trigger == old.trigger
    moved = replaced(new, trigger=Once(NOON // SECOND + 1, "at", "2026-01-05T13:00:00.7Z"))
    assert settled(new, moved).trigger == new.trigger


def test_a_datetime_keeps_its_microseconds() -> None:
    found = manual_scheduler("2026-01-05T11:00:00Z")
    found.add("a", at=datetime(2026, 1, 5, 12, 0, 0, 1, UTC))
    assert found.state("a").next_run_at == NOON + 1
    found.advance("1h")
    assert found.jobs("a") == []
    found.advance("1s")
    assert [(job.slot_at, job.due_at) for job in found.jobs("a")] == [(NOON, NOON + 1)]
