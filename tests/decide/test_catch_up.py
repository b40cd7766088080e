"""Slots whose time passed while nobody could fire them (C1–C9)."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from everwhen.decide.tick import decide, tick
from everwhen.model.changes import Decision
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.limits import Breaker, Coverage, Limit, Shared
from everwhen.model.policy import IfRunning
from everwhen.model.schedule import Schedule
from tests.decide.builders import (
    MONDAY,
    a_breaker_rule,
    a_budget,
    a_capacity,
    a_guard,
    a_job,
    a_one_shot,
    a_plan,
    a_schedule,
    at,
    cancelled,
    entries,
    fired,
    misses,
    quiet_hours,
    skips,
    span,
    types,
    with_jobs,
)
from tests.decide.world import World

NINE = at("09:00")
NIGHTS = quiet_hours("22:00-07:00")
DEFERRED_NIGHTS = quiet_hours("22:00-07:00", action="defer")


def behind(first: int = NINE, **fields: Any) -> Schedule:
    """A schedule whose next slot is long past."""
    return a_schedule(**{"every": "1h", "anchor_at": first, "next_slot_at": first, **fields})


def hours(first: int, count: int) -> list[int]:
    return [first + hour * HOUR for hour in range(count)]


# -- live or missed --


@pytest.mark.parametrize(
    ("every", "grace"),
    [("1s", "2s"), ("10s", "5s"), ("1m", "30s"), ("10m", "5m"), ("1h", "5m"), ("30d", "5m")],
)
def test_a_slot_is_live_while_it_is_nearer_to_its_own_time_than_to_the_next(every: str, grace: str) -> None:
    plan = a_plan(every=every)
    assert plan.grace_of(NINE, NINE + span(every)) == span(grace)


def test_a_one_shot_and_the_last_slot_have_five_minutes() -> None:
    assert a_plan(at_instant=NINE).grace_of(NINE, None) == 5 * MINUTE
    assert a_plan(every="1s").grace_of(NINE, None) == 5 * MINUTE


def test_a_grace_that_is_set_is_taken_as_it_is() -> None:
    schedule = behind(misfire_grace=HOUR // 2)
    assert fired(decide(schedule, at("09:30"), Shared())) == [NINE]
    assert misses(decide(schedule, at("09:30") + 1, Shared()).events) == [(NINE, "down")]


def test_a_stall_that_ends_soon_after_the_last_slot_loses_only_the_others() -> None:
    """Case 2, four seconds after."""
    schedule = behind(every="10s")
    alive = Shared(coverage=Coverage(((at("08:00"), at("10:00")),)))
    decision = decide(schedule, at("09:00:24"), alive)
    assert fired(decision) == [at("09:00:20")]
    assert misses(decision.events) == [(NINE, "late"), (at("09:00:10"), "late")]
    assert decision.after.next_slot_at == at("09:00:30")


def test_a_stall_that_ends_later_loses_all() -> None:
    """Case 2, six seconds after."""
    alive = Shared(coverage=Coverage(((at("08:00"), at("10:00")),)))
    decision = decide(behind(every="10s"), at("09:00:26"), alive)
    assert fired(decision) == []
    assert misses(decision.events) == [(at(f"09:00:{second}"), "late") for second in ("00", "10", "20")]


def test_the_grace_is_kept_to_the_microsecond() -> None:
    assert fired(decide(behind(), NINE + 5 * MINUTE, Shared())) == [NINE]
    assert fired(decide(behind(), NINE + 5 * MINUTE + 1, Shared())) == []


# -- skip --


def test_missed_slots_are_down_or_late_by_who_was_alive_at_their_due_at() -> None:
    alive = Coverage(((at("08:00"), at("10:30")), (at("12:45"), at("14:00"))))
    decision = decide(behind(), at("13:30"), Shared(coverage=alive))
    assert misses(decision.events) == [
        (NINE, "late"),
        (at("10:00"), "late"),
        (at("11:00"), "down"),
        (at("12:00"), "down"),
        (at("13:00"), "late"),
    ]
    assert decision.after.next_slot_at == at("14:00")


def test_with_jitter_each_missed_slot_is_judged_at_its_own_due_at() -> None:
    schedule = behind(jitter_ms=3_000_000)
    calendar = schedule.plan.calendar(schedule.state.anchor_at)
    alive = Coverage(((at("08:00"), at("11:20")),))
    decision = decide(schedule, at("19:50"), Shared(coverage=alive))
    for slot_at, reason in misses(decision.events):
        assert slot_at is not None
        assert reason == ("late" if alive.covers(calendar.due_at(slot_at)) else "down")


def test_a_heartbeat_covers_its_ends() -> None:
    coverage = Coverage(((10, 20), (30, 40)))
    assert [coverage.covers(instant) for instant in (9, 10, 20, 21, 29, 30, 41)] == [
        False,
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    assert [coverage.steady_until(instant) for instant in (9, 10, 21)] == [10, 21, 30]
    assert coverage.steady_until(41) > 10**18
    assert not Coverage().covers(0)


# -- run_once --


def test_one_job_stands_for_a_missed_day() -> None:
    """Case 4, back at 14:00."""
    world = World(at("08:00"))
    world.add(a_schedule(cron="0 9 * * *", catch_up="run_once", next_slot_at=NINE))
    world.jump_to(at("14:00"))
    (job,) = world.claimable()
    assert (job.slot_at, job.origin, job.created_at) == (NINE, "catch_up", at("14:00"))
    (event,) = world.events
    assert (event.type, event.slot_count, event.job_id) == ("schedule.caught_up", 1, job.job_id)
    assert event.detail == {"first": NINE, "last": NINE}


def test_back_within_the_grace_it_is_no_catch_up_at_all() -> None:
    """Case 4, back at 09:00:10."""
    world = World(at("08:00"))
    world.add(a_schedule(cron="0 9 * * *", catch_up="run_once", next_slot_at=NINE))
    world.jump_to(at("09:00:10"))
    (job,) = world.claimable()
    assert (job.slot_at, job.origin) == (NINE, "schedule")
    assert world.events == []


def test_a_live_slot_stands_for_the_window_behind_it() -> None:
    decision = decide(behind(catch_up="run_once"), at("12:01"), Shared())
    (job,) = decision.jobs
    assert (job.slot_at, job.origin, job.stands_for) == (at("12:00"), "schedule", 4)
    (event,) = decision.events
    assert (event.type, event.slot_count, event.job_id) == ("schedule.caught_up", 3, job.job_id)
    assert event.detail == {"first": NINE, "last": at("11:00")}


def test_a_live_slot_that_stands_for_a_window_passes_overlap_guard_and_capacity() -> None:
    schedule = behind(catch_up="run_once", guard=a_guard(1), capacity=a_capacity(1))
    full = {key: Limit(key, outstanding=1) for key in ("guard:withings:poll", "capacity:agent")}
    decision = decide(with_jobs(schedule, a_job(schedule)), at("12:01"), Shared(full))
    assert fired(decision) == [at("12:00")]
    assert not decision.jobs[0].is_ready


def test_a_quiet_night_and_a_downtime_leave_one_job_for_the_evening() -> None:
    """Case 5."""
    world = World(at("19:30"))
    world.add(behind(at("20:00"), catch_up="run_once", quiet=NIGHTS))
    world.jump_to(at("03:00", day=1))
    (job,) = world.jobs.values()
    assert (job.slot_at, job.origin, job.not_before) == (at("21:00"), "catch_up", at("07:00", day=1))
    caught_up = next(event for event in world.events if event.type == "schedule.caught_up")
    assert (caught_up.slot_count, caught_up.detail) == (2, {"first": at("20:00"), "last": at("21:00")})
    world.go_to(at("06:30", day=1))
    assert skips(world.events) == [(slot_at, "quiet_hours") for slot_at in hours(at("22:00"), 9)]
    assert world.claimable() == []
    world.go_to(at("07:00", day=1))
    assert [job.slot_at for job in world.claimable()][:1] == [at("21:00")]


def test_a_live_slot_in_a_closed_time_stands_for_nothing() -> None:
    decision = decide(behind(catch_up="run_once", quiet=quiet_hours("12:00-13:00")), at("12:01"), Shared())
    (job,) = decision.jobs
    assert (job.slot_at, job.origin, job.not_before, job.stands_for) == (
        at("11:00"),
        "catch_up",
        at("13:00"),
        3,
    )
    assert skips(decision.events) == [(at("12:00"), "quiet_hours")]


@pytest.mark.parametrize("policy", ["run_once", "run_all"])
def test_a_late_live_slot_behind_a_window_does_not_begin_in_a_closed_time(policy: str) -> None:
    schedule = behind(catch_up=policy, quiet=quiet_hours("12:01-13:00"))
    decision = decide(schedule, at("12:02"), Shared())
    assert {job.origin for job in decision.jobs} == {"catch_up"}
    assert {job.not_before for job in decision.jobs} == {at("13:00")}
    assert skips(decision.events) == [(at("12:00"), "quiet_hours")]


def test_a_catch_up_job_that_waits_takes_no_place() -> None:
    schedule = behind(catch_up="run_once", guard=a_guard(1), quiet=quiet_hours("12:00-13:00"))
    shared = Shared()
    decision = decide(schedule, at("12:30"), shared)
    assert not decision.jobs[0].is_counted
    assert shared.limit("guard:withings:poll").outstanding == 0
    assert (decision.after.outstanding, decision.after.waiting, decision.after.retries_waiting) == (1, 1, 0)


def test_one_shots_and_chains_are_caught_up_by_default_the_rest_is_not() -> None:
    assert a_plan(at_instant=NINE).definition.catch_up_policy == "run_once"
    assert a_plan(every="5m", interval_from="completion").definition.catch_up_policy == "run_once"
    assert a_plan(every="5m").definition.catch_up_policy == "skip"
    assert a_plan(cron="0 9 * * *").definition.catch_up_policy == "skip"


def test_a_one_shot_missed_while_down_fires_once_and_is_done() -> None:
    decision = decide(a_one_shot(NINE), at("12:00"), Shared())
    assert [(job.slot_at, job.origin) for job in decision.jobs] == [(NINE, "catch_up")]
    assert decision.after.status == "done"


def test_a_one_shot_that_must_not_be_caught_up_is_missed_and_done() -> None:
    decision = decide(a_one_shot(NINE, catch_up="skip"), at("12:00"), Shared())
    assert misses(decision.events) == [(NINE, "down")]
    assert decision.after.status == "done"


# -- run_all --


def test_every_missed_slot_gets_a_job_oldest_first_and_the_live_one_queues_behind() -> None:
    decision = decide(behind(catch_up="run_all"), at("12:01"), Shared())
    assert [(job.slot_at, job.origin) for job in decision.jobs] == [
        (NINE, "catch_up"),
        (at("10:00"), "catch_up"),
        (at("11:00"), "catch_up"),
        (at("12:00"), "schedule"),
    ]
    assert [job.is_ready for job in decision.jobs] == [True, False, False, False]
    assert [job.number for job in decision.jobs] == [1, 2, 3, 4]
    assert decision.events == []


@pytest.mark.parametrize("if_running", ["skip", "queue", "cancel"])
def test_catch_up_jobs_run_one_after_another(if_running: IfRunning) -> None:
    world = World(at("08:00"))
    world.add(behind(catch_up="run_all", if_running=if_running))
    world.jump_to(at("11:30"))
    order = []
    while world.claimable():
        assert len(world.claimable()) == 1
        order.append(world.run().slot_at)
    assert order == hours(NINE, 3)


def test_the_newest_up_to_the_limit_are_caught_up_the_older_are_missed() -> None:
    decision = decide(behind(catch_up="run_all", catch_up_limit=2), at("12:30"), Shared())
    assert fired(decision) == [at("11:00"), at("12:00")]
    assert misses(decision.events) == [(NINE, "catch_up_limit"), (at("10:00"), "catch_up_limit")]


def test_catch_up_jobs_ignore_skip_and_the_guard_and_cancel_nothing() -> None:
    schedule = behind(catch_up="run_all", if_running="skip", guard=a_guard(1))
    shared = Shared({"guard:withings:poll": Limit("guard:withings:poll", outstanding=1)})
    decision = decide(with_jobs(schedule, a_job(schedule, 7)), at("10:30"), shared)
    assert fired(decision) == [NINE, at("10:00")]
    assert cancelled(decision) == []


# -- breaker and budget --


@pytest.mark.parametrize("policy", ["run_once", "run_all"])
@pytest.mark.parametrize(
    "breaker",
    [
        Breaker("withings:poll", "open", 3, opened_at=at("11:59")),
        Breaker("withings:poll", "half_open", 3, opened_at=at("08:00"), probe_job_id="other"),
    ],
)
def test_with_the_breaker_not_closed_nothing_is_caught_up(policy: str, breaker: Breaker) -> None:
    schedule = behind(catch_up=policy, breaker=a_breaker_rule())
    decision = decide(schedule, at("10:30"), Shared(breakers={"withings:poll": breaker}))
    assert misses(decision.events) == [(NINE, "circuit_open"), (at("10:00"), "circuit_open")]
    assert decision.jobs == []


@pytest.mark.parametrize("policy", ["run_once", "run_all"])
@pytest.mark.parametrize("alive", [False, True])
def test_what_cannot_be_caught_up_because_nothing_opens_again_is_down_or_late_by_who_was_alive(
    policy: str, alive: bool
) -> None:
    today = MONDAY.date().toordinal() - 719_163
    for_ever = quiet_hours(dates=[(today + 1, today + 500)])
    schedule = behind(every="1d", catch_up=policy, quiet=for_ever)
    coverage = Coverage(((at("08:00"), at("12:00")),) if alive else ())
    decision = decide(schedule, at("01:00", day=1), Shared(coverage=coverage))
    assert misses(decision.events) == [(NINE, "late" if alive else "down")]


def test_behind_a_cooled_breaker_the_window_is_missed_and_the_live_slot_probes() -> None:
    schedule = behind(catch_up="run_all", breaker=a_breaker_rule())
    cooled = Breaker("withings:poll", "open", 3, opened_at=at("08:00"))
    decision = decide(schedule, at("10:01"), Shared(breakers={"withings:poll": cooled}))
    assert misses(decision.events) == [(NINE, "circuit_open")]
    assert [(job.slot_at, job.is_probe) for job in decision.jobs] == [(at("10:00"), True)]


@pytest.mark.parametrize("policy", ["run_once", "run_all"])
def test_with_the_budget_spent_nothing_is_caught_up(policy: str) -> None:
    schedule = behind(catch_up=policy, budgets=(a_budget(per_day=1),))
    shared = Shared({"budget:agent": Limit("budget:agent").fired(at("10:30"))})
    decision = decide(schedule, at("10:30"), shared)
    assert misses(decision.events) == [(NINE, "budget"), (at("10:00"), "budget")]


def test_run_all_goes_on_until_the_budget_is_spent_and_the_live_slot_is_skipped_for_it() -> None:
    schedule = behind(catch_up="run_all", budgets=(a_budget(per_day=1),))
    decision = decide(schedule, at("11:01"), Shared())
    assert fired(decision) == [NINE]
    assert misses(decision.events) == [(at("10:00"), "budget")]
    assert skips(decision.events) == [(at("11:00"), "budget")]


# -- closed times --


def test_missed_slots_in_closed_times_are_skipped_each_for_its_reason() -> None:
    schedule = behind(at("06:00"), quiet=NIGHTS, only_between="00:00-09:00")
    decision = decide(schedule, at("10:30"), Shared())
    assert skips(decision.events) == [
        (at("06:00"), "quiet_hours"),
        (NINE, "outside_window"),
        (at("10:00"), "outside_window"),
    ]
    assert misses(decision.events) == [(at("07:00"), "down"), (at("08:00"), "down")]


def test_of_deferred_slots_the_newest_counts_as_one_missed_slot() -> None:
    schedule = a_schedule(
        cron="30 * * * *", quiet=DEFERRED_NIGHTS, catch_up="run_all", next_slot_at=at("21:30")
    )
    decision = decide(schedule, at("07:20", day=1), Shared())
    assert fired(decision) == [at("21:30"), at("06:30", day=1)]
    assert skips(decision.events) == [(slot_at, "superseded") for slot_at in hours(at("22:30"), 8)]


def test_a_deferred_slot_is_superseded_when_a_regular_one_was_due_by_its_opening() -> None:
    schedule = behind(at("06:00", day=1), quiet=DEFERRED_NIGHTS, catch_up="run_all")
    decision = decide(schedule, at("07:30", day=1), Shared())
    assert skips(decision.events) == [(at("06:00", day=1), "superseded")]
    assert fired(decision) == [at("07:00", day=1)]


def test_a_live_slot_due_by_the_opening_supersedes_the_deferred_one_too() -> None:
    schedule = behind(at("06:00", day=1), quiet=DEFERRED_NIGHTS, catch_up="run_all")
    decision = decide(schedule, at("07:01", day=1), Shared())
    assert skips(decision.events) == [(at("06:00", day=1), "superseded")]
    assert fired(decision) == [at("07:00", day=1)]


def test_a_deferred_slot_whose_opening_is_still_to_come_is_held_until_then() -> None:
    world = World(at("21:00"))
    world.add(a_schedule(cron="30 23,11 * * *", quiet=DEFERRED_NIGHTS, next_slot_at=at("23:30")))
    world.jump_to(at("03:00", day=1))
    assert (world.state().held_slot_at, world.state().release_at) == (at("23:30"), at("07:00", day=1))
    world.go_to(at("07:00", day=1))
    assert [(job.slot_at, job.origin) for job in world.claimable()] == [(at("23:30"), "schedule")]


def a_closed_year(first_day: int = 0, **fields: Any) -> Schedule:
    """Closed for five hundred days from some day on."""
    today = MONDAY.date().toordinal() - 719_163 + first_day
    return behind(
        quiet=quiet_hours(dates=[(today, today + 500)], action=fields.pop("action", "skip")), **fields
    )


def test_a_deferred_slot_that_never_opens_is_skipped() -> None:
    decision = decide(a_closed_year(action="defer"), at("09:30"), Shared())
    assert skips(decision.events) == [(NINE, "quiet_hours")]


@pytest.mark.parametrize("policy", ["run_once", "run_all"])
def test_what_could_only_be_caught_up_in_a_closed_time_is_missed(policy: str) -> None:
    schedule = a_closed_year(first_day=1, catch_up=policy, end_at=at("10:30"))
    decision = decide(schedule, at("09:00", day=1), Shared())
    assert [slot_at for slot_at, _ in misses(decision.events)] == [NINE, at("10:00")]
    assert decision.jobs == []


def test_every_slot_of_a_window_is_in_the_ledger_once() -> None:
    for policy in ("skip", "run_once", "run_all"):
        for quiet in (NIGHTS, DEFERRED_NIGHTS):
            schedule = behind(catch_up=policy, quiet=quiet, catch_up_limit=3)
            decision = decide(schedule, at("12:01", day=1), Shared())
            assert places(decision) == hours(NINE, 28)


def places(decision: Decision) -> list[int]:
    """Every slot with an entry, as often as it has one; the window of a caught_up event counts as one entry."""
    found = [job.slot_at for job in decision.jobs]
    for event in decision.events:
        if event.slot_at is not None and event.slot_count == 1 and event.type != "schedule.caught_up":
            found.append(event.slot_at)
        elif event.type == "schedule.caught_up":
            first, last = event.detail["first"], event.detail["last"]
            assert isinstance(first, int) and isinstance(last, int)
            window = [s for s in hours(first, (last - first) // HOUR + 1) if s not in found]
            found.extend(window)
            assert len(window) in (event.slot_count, event.slot_count - 1)
    return sorted(found)


def test_the_last_decided_slot_is_the_newest_whatever_became_of_it() -> None:
    decision = decide(behind(at("20:00"), catch_up="run_once", quiet=NIGHTS), at("03:30", day=1), Shared())
    assert decision.after.last_slot_at == at("03:00", day=1)


# -- bounds --


def test_past_a_hundred_missed_slots_one_event_holds_the_rest() -> None:
    decision = decide(behind(every="1m"), at("12:00:40"), Shared())
    *single, rest = decision.events
    assert [event.slot_count for event in single] == [1] * 100
    assert (rest.type, rest.reason, rest.slot_count) == ("schedule.missed", "down", 81)
    assert rest.detail == {"first": at("10:40"), "last": at("12:00")}


def test_a_long_window_with_closed_times_is_bounded_as_well() -> None:
    decision = decide(behind(quiet=NIGHTS), NINE + 60 * DAY + HOUR // 2, Shared())
    kinds = {(event.type, event.reason) for event in decision.events}
    assert sum(event.slot_count for event in decision.events) == 60 * 24 + 1
    assert len(decision.events) <= 100 + len(kinds)


def test_a_month_of_seconds_is_missed_without_a_month_of_work() -> None:
    tracemalloc.start()
    decision = decide(behind(every="1s"), NINE + 30 * DAY, Shared())
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fired(decision) == [NINE + 30 * DAY]
    assert decision.events[-1].slot_count == 30 * 86_400 - 100
    assert most_bytes < 1_000_000


def test_run_all_over_a_long_window_has_jobs_for_the_newest_and_a_count_for_the_rest() -> None:
    decision = decide(behind(every="1m", catch_up="run_all", catch_up_limit=5), at("18:00:40"), Shared())
    assert len(decision.jobs) == 5
    assert len(misses(decision.events)) == 101


# -- stagger --


def test_catch_up_jobs_of_one_evaluation_are_spaced_over_all_schedules() -> None:
    schedules = [behind(uid=uid, schedule_id=uid, catch_up="run_all") for uid in "ab"]
    now = at("10:30")
    decided = tick(schedules, now, Shared(stagger=10 * SECOND))
    begins = [job.not_before or now for decision in decided for job in decision.jobs]
    assert begins == [now, now + 10 * SECOND, now + 20 * SECOND, now + 30 * SECOND]


def test_catch_up_jobs_that_wait_for_the_opening_are_spaced_there() -> None:
    schedule = behind(at("20:00"), catch_up="run_all", quiet=NIGHTS)
    decision = decide(schedule, at("23:30"), Shared(stagger=10 * SECOND))
    seven = at("07:00", day=1)
    assert [job.not_before for job in decision.jobs] == [seven, seven + 10 * SECOND]


def test_slots_that_fire_on_time_are_not_staggered() -> None:
    schedules = [a_schedule(uid=uid, next_slot_at=NINE) for uid in "ab"]
    decided = tick(schedules, NINE, Shared(stagger=10 * SECOND))
    assert [decision.jobs[0].not_before for decision in decided] == [None, None]


def test_a_missed_slot_has_one_entry_also_when_its_schedule_is_caught_up_in_part() -> None:
    decision = decide(behind(catch_up="run_all", catch_up_limit=1), at("11:30"), Shared())
    assert [entries(decision, slot_at) for slot_at in hours(NINE, 3)] == [1, 1, 1]
    assert types(decision.events) == ["schedule.missed", "schedule.missed"]
