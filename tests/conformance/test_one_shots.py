"""One-shots fire at their instant, to the microsecond, and that instant decides what lies before and after (T6)."""

from __future__ import annotations

import pytest

from everwhen.errors import TimetableError
from everwhen.operations.why import why
from everwhen.store.tick import TickReport
from tests.conformance.tenant import Tenant, at

DAY = "2026-01-05T"
DUE = "2026-01-05T08:00:10.7Z"  # `runtime` begins at 08:00:00
SLOT_AT, DUE_AT = at("08:00:10"), at("08:00:10") + 700_000


def go_to(runtime: Tenant, clock: str) -> None:
    runtime.clock.set(f"{DAY}{clock}Z")
    runtime.beat()


def test_a_one_shot_fires_at_its_instant_and_not_before(runtime: Tenant) -> None:
    state = runtime.add("a", at=DUE)
    assert (state.next_slot_at, state.next_run_at) == (SLOT_AT, DUE_AT)
    assert runtime.runtime.slots.tick(DUE_AT - 1, limit=10, behind=False) == TickReport()
    assert runtime.runtime.slots.tick(DUE_AT, limit=10, behind=False).fired == 1
    runtime.clock.set(f"{DAY}08:00:11Z")
    (job,) = runtime.jobs("a")
    assert (job.slot_at, job.due_at, job.created_at) == (SLOT_AT, DUE_AT, DUE_AT)
    assert runtime.state("a").status == "done"


def test_a_delay_counts_from_the_instant_of_its_creation(runtime: Tenant) -> None:
    go_to(runtime, "08:00:00.300001")
    state = runtime.add("a", after="2s")
    assert (state.next_slot_at, state.next_run_at) == (at("08:00:02"), at("08:00:02") + 300_001)
    go_to(runtime, "08:00:02.300001")
    assert runtime.step() == 1


def test_an_instant_later_in_the_second_of_its_creation_is_to_come(runtime: Tenant) -> None:
    go_to(runtime, "08:00:10.3")
    assert runtime.add("a", at=DUE).next_run_at == DUE_AT
    with pytest.raises(TimetableError):
        runtime.add("b", at="2026-01-05T08:00:10.3Z")
    go_to(runtime, "08:00:10.7")
    assert runtime.step() == 1


def test_one_that_is_not_due_yet_in_its_second_can_be_edited_without_an_entry(runtime: Tenant) -> None:
    runtime.add("a", at=DUE)
    go_to(runtime, "08:00:10.3")
    assert runtime.edit("a", at="2026-01-05T08:00:10.9Z").next_run_at == DUE_AT + 200_000
    go_to(runtime, "08:00:10.9")
    assert (runtime.step(), runtime.reasons("a")) == (1, [])


def test_one_that_is_not_due_yet_in_its_second_fires_after_a_pause_in_it(runtime: Tenant) -> None:
    runtime.add("a", at=DUE)
    go_to(runtime, "08:00:10.3")
    runtime.pause("a")
    go_to(runtime, "08:00:10.5")
    assert runtime.resume("a").next_run_at == DUE_AT
    go_to(runtime, "08:00:10.7")
    assert (runtime.step(), runtime.reasons("a")) == (1, [])


def test_one_that_is_due_in_a_pause_is_done_after_it_and_has_no_entry(runtime: Tenant) -> None:
    runtime.add("a", at=DUE)
    go_to(runtime, "08:00:10.3")
    runtime.pause("a")
    go_to(runtime, "08:00:10.8")
    assert runtime.resume("a").status == "done"
    assert (runtime.step(), runtime.reasons("a")) == (0, [])
    assert why(runtime.stack.runtime, "a", SLOT_AT).reason == "paused"


def test_one_that_is_due_is_skipped_by_a_pause_in_its_second(runtime: Tenant) -> None:
    runtime.add("a", at=DUE)
    go_to(runtime, "08:00:10.8")
    runtime.pause("a")
    assert runtime.reasons("a") == ["paused"]


def test_a_pause_of_the_system_is_judged_by_the_instant(runtime: Tenant) -> None:
    runtime.add("fires", at=DUE)
    runtime.add("lies-in-it", at="2026-01-05T08:00:10.4Z")
    go_to(runtime, "08:00:10.3")
    runtime.pause_system()
    go_to(runtime, "08:00:10.5")
    runtime.resume_system()
    assert (runtime.state("fires").next_run_at, runtime.state("lies-in-it").status) == (DUE_AT, "done")
    go_to(runtime, "08:00:10.7")
    assert runtime.step() == 1
    assert runtime.jobs("lies-in-it") == []


def test_a_second_that_has_an_entry_takes_no_other(runtime: Tenant) -> None:
    runtime.add("a", at="2026-01-05T08:00:10.2Z")
    go_to(runtime, "08:00:10.2")
    assert runtime.step() == 1
    runtime.run()
    go_to(runtime, "08:00:10.3")
    with pytest.raises(TimetableError, match="at is already past"):
        runtime.edit("a", at=DUE)
    assert runtime.edit("a", at="2026-01-05T08:00:11.0Z").next_run_at == at("08:00:11")
    go_to(runtime, "08:00:11")
    assert runtime.step() == 1
    assert runtime.slots("a") == ["08:00:10", "08:00:11"]


def test_a_paused_one_takes_no_instant_in_a_second_that_has_an_entry(runtime: Tenant) -> None:
    runtime.add("a", at="2026-01-05T08:00:10.2Z")
    go_to(runtime, "08:00:10.3")
    runtime.pause("a")  # which gives the slot its entry
    with pytest.raises(TimetableError, match="at is already past"):
        runtime.edit("a", at=DUE)


def test_lateness_counts_from_the_instant(runtime: Tenant) -> None:
    runtime.add("late", at=DUE, misfire_grace="1s", catch_up="skip")
    runtime.add("on-time", at="2026-01-05T08:00:10.8Z", misfire_grace="1s", catch_up="skip")
    go_to(runtime, "08:00:11.75")
    assert runtime.step() == 1
    assert [job.schedule_id for job in runtime.jobs()] == ["on-time"]
    assert runtime.reasons("late", "schedule.missed") == ["late"]


def test_a_definition_is_read_with_the_fraction_with_which_it_was_written(runtime: Tenant) -> None:
    runtime.add("a", at=DUE)
    go_to(runtime, "08:00:05")
    runtime.edit("a", at=DUE, name="renamed")  # the times are the same
    neighbour = runtime.neighbour()
    assert neighbour.state("a").next_run_at == DUE_AT
    go_to(runtime, "08:00:10.7")
    assert neighbour.step() == 1
    assert neighbour.jobs("a")[0].due_at == DUE_AT
