"""Creating and editing: first slots, anchors, and what an edit does to what was open (T3, T4, T6, X6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.decide.edit import create, edit
from everwhen.decide.slots import first_slot, next_slot
from everwhen.errors import TimetableError
from everwhen.model.changes import Creation, Decision
from everwhen.model.instants import DAY, SECOND
from everwhen.model.limits import Shared
from everwhen.model.schedule import Schedule
from everwhen.timetable.civil_time import zone
from everwhen.timetable.occurrences import FirstRun
from tests.decide.builders import (
    a_breaker_rule,
    a_chain,
    a_guard,
    a_job,
    a_one_shot,
    a_plan,
    a_schedule,
    at,
    skips,
    types,
    with_jobs,
)
from tests.decide.world import World

NINE = at("09:00")
NOW = at("09:30:00.5")


def created(now: int = NOW, **fields: Any) -> Creation:
    keys = ("default_first_run", "is_enabled", "may_be_past", "actor")
    options = {key: fields.pop(key) for key in keys if key in fields}
    return create(a_plan(**fields), "a1b2c3d4e5f6", now, **options)


def edited(schedule: Schedule, now: int = NOW, *, may_be_past: bool = False, **fields: Any) -> Decision:
    return edit(schedule, a_plan(**fields), now, Shared(), may_be_past=may_be_past, actor="anna")


# -- creating --


def test_immediately_is_cut_to_the_second() -> None:
    state = created(every="1h").state
    assert (state.anchor_at, state.next_slot_at, state.next_run_at) == (at("09:30"),) * 3


def test_after_interval_is_rounded_up() -> None:
    state = created(every="1h", first_run="after_interval").state
    assert (state.anchor_at, state.next_slot_at) == (at("10:30:01"), at("10:30:01"))


def test_the_section_gives_the_first_run_where_the_schedule_does_not() -> None:
    assert created(every="1h", default_first_run="after_interval").state.next_slot_at == at("10:30:01")
    kept = created(every="1h", first_run="immediately", default_first_run="after_interval")
    assert kept.state.next_slot_at == at("09:30")


def test_start_at_is_the_first_slot_and_the_anchor() -> None:
    state = created(every="1h", start_at=at("12:15")).state
    assert (state.anchor_at, state.next_slot_at) == (at("12:15"), at("12:15"))


def test_a_start_at_that_is_past_gives_the_first_grid_point_after_creation() -> None:
    state = created(every="1h", start_at=at("08:15")).state
    assert (state.anchor_at, state.next_slot_at) == (at("08:15"), at("10:15"))


def test_first_run_beside_start_at_is_refused() -> None:
    with pytest.raises(TimetableError, match="first_run beside start_at"):
        created(every="1h", start_at=NINE, first_run="immediately")


def test_a_month_begins_at_once_or_a_month_later() -> None:
    assert created(every="monthly").state.next_slot_at == at("09:30")
    later = created(every="monthly", first_run="after_interval").state
    assert later.next_slot_at == at("09:30:01", day=31)


def test_a_cron_schedule_begins_with_its_next_match() -> None:
    state = created(cron="0 * * * *").state
    assert (state.anchor_at, state.next_slot_at) == (None, at("10:00"))


def test_the_first_slot_knows_its_jitter() -> None:
    plan = a_plan(cron="0 * * * *", jitter_ms=60_000)
    found = first_slot(plan, NOW)
    assert found.due_at == plan.calendar(None).due_at(at("10:00"))


def test_a_new_schedule_is_on_record_with_its_revision_and_anchor() -> None:
    state, (event,) = created(every="1h", owner="anna", actor="anna")
    assert (state.status, state.revision, state.schedule_id, state.owner) == ("active", 1, "reports", "anna")
    assert (event.type, event.uid, event.actor) == ("schedule.created", "a1b2c3d4e5f6", "anna")
    assert event.detail == {"revision": 1, "anchor_at": at("09:30")}


def test_a_schedule_that_is_not_enabled_is_paused_by_the_configuration() -> None:
    state, events = created(every="1h", is_enabled=False)
    assert (state.status, state.paused_by, state.next_slot_at) == ("paused", "config", None)
    assert types(events) == ["schedule.created", "schedule.paused"]


@pytest.mark.parametrize(
    ("fields", "key"), [({"at_instant": NINE}, "at"), ({"every": "1h", "end_at": NINE}, "end_at")]
)
def test_what_could_never_fire_is_refused(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(TimetableError, match=f"{key} is already past") as refused:
        created(**fields)
    assert refused.value.key == key


def test_in_a_file_an_instant_already_past_makes_the_schedule_done() -> None:
    state, events = created(at_instant=NINE, may_be_past=True)
    assert (state.status, state.status_reason, state.next_slot_at) == ("done", "in_the_past", None)
    assert [(event.type, event.reason) for event in events] == [
        ("schedule.created", None),
        ("schedule.done", "in_the_past"),
    ]


@pytest.mark.parametrize("on", ["webhook", "chat"])
def test_a_schedule_that_waits_for_requests_is_active_without_a_slot(on: str) -> None:
    state = created(on=on).state
    assert (state.status, state.next_slot_at) == ("active", None)


# -- a change of when --


def test_a_new_interval_keeps_the_anchor() -> None:
    schedule = a_schedule(every="1h", anchor_at=at("08:15"), next_slot_at=at("10:15"))
    after = edited(schedule, every="20m").after
    assert (after.anchor_at, after.next_slot_at, after.revision) == (at("08:15"), at("09:35"), 2)


def test_without_an_anchor_an_interval_begins_one_interval_from_now() -> None:
    schedule = a_schedule(cron="0 * * * *", next_slot_at=at("10:00"))
    after = edited(schedule, every="20m").after
    assert (after.anchor_at, after.next_slot_at) == (at("09:50:01"), at("09:50:01"))


def test_without_an_anchor_a_start_at_becomes_it() -> None:
    schedule = a_schedule(cron="0 * * * *", next_slot_at=at("10:00"))
    after = edited(schedule, every="20m", start_at=at("08:15")).after
    assert (after.anchor_at, after.next_slot_at) == (at("08:15"), at("09:35"))


def test_without_an_anchor_a_month_begins_a_month_from_now() -> None:
    schedule = a_schedule(cron="0 * * * *", next_slot_at=at("10:00"))
    found = edited(schedule, every="monthly").after.next_slot_at
    assert found is not None and at("09:30", day=31) <= found <= at("09:30:01", day=31)


@pytest.mark.parametrize(
    "fields",
    [
        {"cron": "15 * * * *"},
        {"cron": "0 * * * *", "zone": zone("Asia/Kolkata")},
        {"cron": "0 * * * *", "gap": "skip"},
        {"cron": "0 * * * *", "fold": "both"},
        {"cron": "0 * * * *", "jitter_ms": 60_000},
        {"cron": "0 * * * *", "start_at": at("12:00")},
        {"cron": "0 * * * *", "end_at": at("12:00")},
    ],
)
def test_every_change_of_when_ends_what_was_open(fields: dict[str, Any]) -> None:
    schedule = a_schedule(cron="0 * * * *", next_slot_at=NINE)
    decision = edited(schedule, at("09:00:00.4"), **fields)
    assert skips(decision.events) == [(NINE, "edited")]
    assert (decision.after.next_slot_at or 0) > NINE


def test_slots_reached_but_undecided_end_as_a_range() -> None:
    schedule = a_schedule(every="10m", anchor_at=NINE, next_slot_at=NINE)
    decision = edited(schedule, every="1h")
    assert (decision.events[0].slot_count, decision.events[0].reason) == (4, "edited")
    assert decision.after.next_slot_at == at("10:00")


def test_a_slot_waiting_for_its_jitter_ends() -> None:
    schedule = a_schedule(every="1h", jitter_ms=1_800_000, next_slot_at=NINE)
    assert (schedule.state.next_run_at or 0) > NINE + SECOND
    assert skips(edited(schedule, NINE + SECOND, every="1h").events) == [(NINE, "edited")]


def test_the_next_slot_is_after_the_last_decided_one_also_when_the_clock_went_back() -> None:
    schedule = a_schedule(cron="0 * * * *", next_slot_at=at("12:00"), last_slot_at=at("11:00"))
    assert edited(schedule, cron="0,30 * * * *").after.next_slot_at == at("11:30")


def test_an_edit_is_on_record() -> None:
    schedule = a_schedule(every="1h", anchor_at=NINE, next_slot_at=at("10:00"))
    event = edited(schedule, every="2h").events[-1]
    assert (event.type, event.actor) == ("schedule.updated", "anna")
    assert event.detail == {"revision": 2, "anchor_at": NINE}


# -- any other change --


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": '{"a": 1}'},
        {"name": "Reports"},
        {"guard": a_guard()},
        {"breaker": a_breaker_rule()},
        {"max_retries": 3},
        {"catch_up": "run_all"},
        {"if_running": "queue"},
        {"only_between": "08:00-18:00"},
    ],
)
def test_any_other_change_leaves_the_next_slot_alone(fields: dict[str, Any]) -> None:
    schedule = a_schedule(every="1h", jitter_ms=1_000, next_slot_at=NINE)
    decision = edited(schedule, NINE, every="1h", jitter_ms=1_000, **fields)
    assert (decision.after.next_slot_at, decision.after.next_run_at) == (NINE, schedule.state.next_run_at)
    assert types(decision.events) == ["schedule.updated"]
    assert decision.events[0].detail == {"revision": 2}


def test_jobs_that_exist_are_left_alone() -> None:
    schedule = a_schedule(every="1h", next_slot_at=at("10:00"))
    decision = edited(with_jobs(schedule, a_job(schedule, status="queued")), every="2h")
    assert (decision.cancelled, decision.after.outstanding) == ([], 1)


def test_gathered_skips_are_written_under_the_old_revision() -> None:
    schedule = a_schedule(
        every="10s",
        next_slot_at=at("10:00"),
        skip_reason="already_running",
        skip_first_at=NINE,
        skip_last_at=at("09:00:10"),
        skip_count=2,
    )
    decision = edited(schedule, every="10s", payload="[]")
    assert types(decision.events) == ["schedule.skipped", "schedule.updated"]
    assert decision.after.skip_reason is None


# -- one-shots --


def test_an_edit_to_an_instant_already_past_is_refused() -> None:
    with pytest.raises(TimetableError, match="at is already past"):
        edited(a_one_shot(at("12:00")), at_instant=NINE)


@pytest.mark.parametrize("status", ["paused", "invalid", "done", "dead"])
def test_it_is_refused_whatever_the_status(status: str) -> None:
    schedule = a_one_shot(at("12:00"), status=status, next_slot_at=None)
    with pytest.raises(TimetableError, match="at is already past"):
        edited(schedule, at_instant=NINE)


def test_a_paused_one_shot_takes_a_new_instant_and_stays_paused() -> None:
    schedule = a_one_shot(at("12:00"), status="paused", next_slot_at=None)
    after = edited(schedule, at_instant=at("13:00")).after
    assert (after.status, after.next_slot_at, after.revision) == ("paused", None, 2)


def test_in_a_file_it_makes_the_schedule_done() -> None:
    decision = edited(a_one_shot(at("12:00")), at_instant=NINE, may_be_past=True)
    assert (decision.after.status, decision.after.status_reason) == ("done", "in_the_past")
    assert types(decision.events) == ["schedule.done", "schedule.updated"]


@pytest.mark.parametrize("status", ["done", "dead"])
def test_a_new_instant_re_arms_a_one_shot(status: str) -> None:
    schedule = a_one_shot(NINE, status=status, next_slot_at=None)
    decision = edited(schedule, at_instant=at("12:00"))
    assert (decision.after.status, decision.after.next_slot_at) == ("active", at("12:00"))
    assert types(decision.events) == ["schedule.revived", "schedule.updated"]


def test_a_re_armed_one_shot_has_all_its_retries_again() -> None:
    schedule = a_one_shot(NINE, status="dead", next_slot_at=None, max_retries=2, current_retry=3)
    after = edited(schedule, at_instant=at("12:00"), max_retries=2).after
    assert after.current_retry == 0


def test_another_change_re_arms_nothing() -> None:
    schedule = a_one_shot(NINE, status="done", next_slot_at=None)
    decision = edited(schedule, at_instant=NINE, payload="[]")
    assert (decision.after.status, decision.after.next_slot_at) == ("done", None)


# -- schedules that are not active --


@pytest.mark.parametrize("status", ["paused", "invalid", "done", "dead"])
def test_an_edit_wakes_nothing(status: str) -> None:
    schedule = a_schedule(every="1h", anchor_at=NINE, status=status, next_slot_at=None)
    decision = edited(schedule, every="2h")
    assert (decision.after.status, decision.after.next_slot_at, decision.after.anchor_at) == (
        status,
        None,
        NINE,
    )
    assert types(decision.events) == ["schedule.updated"]


def test_an_interval_without_an_anchor_gets_one_while_paused() -> None:
    schedule = a_schedule(cron="0 * * * *", status="paused", next_slot_at=None)
    after = edited(schedule, every="1h").after
    assert (after.anchor_at, after.next_slot_at) == (at("10:30:01"), None)


# -- other kinds --


def test_an_interval_becomes_a_webhook_and_stays_active() -> None:
    schedule = a_schedule(every="1h", next_slot_at=at("10:00"))
    after = edited(schedule, on="webhook").after
    assert (after.status, after.next_slot_at, after.next_run_at) == ("active", None, None)


def test_an_end_at_before_the_next_slot_is_refused_or_ends_the_schedule() -> None:
    schedule = a_schedule(every="1h", anchor_at=NINE, next_slot_at=at("10:00"))
    with pytest.raises(TimetableError, match="end_at is already past"):
        edited(schedule, every="1h", end_at=at("09:45"))
    assert edited(schedule, every="1h", end_at=at("09:45"), may_be_past=True).after.status == "done"


def test_a_chain_that_a_file_ends_is_done_once() -> None:
    schedule = a_chain("5m", next_slot_at=at("10:00"), last_slot_at=NINE, last_completed_at=at("09:10"))
    decision = edited(schedule, every="5m", interval_from="completion", end_at=at("09:12"), may_be_past=True)
    assert decision.after.status == "done"
    assert types(decision.events).count("schedule.done") == 1


def test_a_day_of_edits_never_brings_a_slot_back() -> None:
    world = World(at("08:00"))
    world.create(a_plan(every="1h"), "a1b2c3d4e5f6")
    for number in range(24):
        world.go_to(at("08:00") + number * DAY // 24 + 7 * SECOND)
        for _ in world.claimable():
            world.run()
        world.edit(a_plan(every="1h" if number % 2 else "30m", jitter_ms=number * 1_000))
    slots = [job.slot_at for job in world.jobs.values()]
    assert slots == sorted(set(slots))


@given(
    seconds=st.integers(1, 10**6),
    now=st.integers(0, 2**33).map(lambda second: second * SECOND) | st.integers(0, 2**53),
    first_run=st.sampled_from(["immediately", "after_interval"]),
)
def test_an_interval_begins_where_its_calendar_begins(seconds: int, now: int, first_run: FirstRun) -> None:
    plan = a_plan(every=f"{seconds}s")
    found = first_slot(plan, now, first_run)
    assert found.anchor_at is not None
    assert found == next_slot(plan, found.anchor_at, found.anchor_at - 1)


def test_a_new_grid_never_goes_back_to_a_slot_that_was_decided() -> None:
    """The clock went back: the last slot lies beyond the first of the new grid (E9)."""
    schedule = a_schedule(cron="0 * * * *", last_slot_at=at("12:00"), next_slot_at=at("13:00"))
    decision = edited(schedule, every="1h")
    assert decision.after.next_slot_at == at("12:30:01")
