"""What becomes of a schedule when a backup of it is restored (R5)."""

from __future__ import annotations

from everwhen.decide.status import NUMBERS_SKIPPED, renumber_restored
from everwhen.model.changes import Decision
from everwhen.model.limits import Shared
from everwhen.model.schedule import Schedule
from tests.decide.builders import a_job, a_one_shot, a_schedule, at, with_jobs

BACKED_UP_AT, NOW = at("09:00"), at("12:00")


def restored(schedule: Schedule, *, now: int = NOW, catch_up: bool = False) -> Decision:
    return renumber_restored(schedule, BACKED_UP_AT, now, Shared(), catch_up=catch_up)


def test_numbers_go_on_a_million_higher_and_firings_where_they_were() -> None:
    after = restored(
        a_schedule(every="1h", anchor_at=at("08:15"), next_slot_at=at("09:15"), fire_count=7)
    ).after
    assert (after.fire_count, after.firings) == (NUMBERS_SKIPPED + 7, 7)


def test_slots_reached_by_the_backup_are_skipped_and_those_behind_it_have_no_entry() -> None:
    decision = restored(a_schedule(every="15m", anchor_at=at("08:00"), next_slot_at=at("08:45")))
    assert [(event.reason, event.slot_count) for event in decision.events] == [("paused", 2)]
    assert (decision.jobs, decision.after.next_slot_at) == ([], at("12:15"))


def test_with_catch_up_the_next_slot_stays_where_it_was() -> None:
    schedule = a_schedule(every="15m", anchor_at=at("08:00"), next_slot_at=at("08:45"))
    decision = restored(schedule, catch_up=True)
    assert (decision.events, decision.after.next_slot_at) == ([], at("08:45"))


def test_a_chain_is_never_counted_back_to_a_slot_that_was_decided() -> None:
    """The clock was put back between the slot and the backup."""
    schedule = a_schedule(
        every="10m", interval_from="completion", next_slot_at=None, last_slot_at=at("12:30")
    )
    after = restored(schedule).after
    assert after.next_slot_at is not None and after.next_slot_at > at("12:30")


def test_a_schedule_that_is_paused_stays_so() -> None:
    after = restored(a_schedule(every="1h", status="paused", next_slot_at=None, paused_by="person")).after
    assert (after.status, after.next_slot_at, after.paused_by) == ("paused", None, "person")


def test_jobs_that_were_outstanding_are_cancelled_unless_they_are_to_be_caught_up() -> None:
    schedule = a_schedule(every="1h", anchor_at=at("08:15"), next_slot_at=at("12:15"))
    schedule = with_jobs(schedule, a_job(schedule, status="queued", started_at=None))
    assert [reason for _, reason in restored(schedule).cancelled] == ["person"]
    assert restored(schedule, catch_up=True).cancelled == []


def test_a_next_slot_to_come_stays_and_a_webhook_has_none() -> None:
    coming = a_schedule(every="1h", anchor_at=at("08:15"), next_slot_at=at("12:15"))
    assert restored(coming).after.next_slot_at == at("12:15")
    assert restored(a_schedule(on="webhook")).after.next_slot_at is None


def test_a_one_shot_between_the_backup_and_now_is_done() -> None:
    decision = restored(a_one_shot(at("10:00")))
    assert (decision.after.status, decision.after.status_reason) == ("done", "in_the_past")
