"""Slots that wait: for the opening of closed times, for a place, and what ends the waiting (E3–E5)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide.tick import decide, tick
from everwhen.model.instants import DAY
from everwhen.model.limits import Breaker, Limit, Shared
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
    fired,
    quiet_hours,
    skips,
    span,
    with_jobs,
)
from tests.decide.world import World

NINE = at("09:00")
NIGHTS = quiet_hours("22:00-07:00", action="defer")
SEVEN = at("07:00", day=1)


def holding(reason: str = "at_capacity", **fields: Any) -> Schedule:
    """A schedule that holds its slot of 09:00; the next is at 10:00."""
    known: dict[str, Any] = {
        "capacity": a_capacity(1),
        "next_slot_at": at("10:00"),
        "held_slot_at": NINE,
        "held_due_at": NINE,
        "held_reason": reason,
        "held_since": NINE,
        "held_key": "capacity:agent" if reason == "at_capacity" else None,
    }
    return a_schedule(**{**known, **fields})


# -- deferred to the opening --


def test_a_deferred_slot_fires_at_the_opening_and_the_next_as_usual() -> None:
    """Case 6, `30 * * * *`."""
    world = World(at("21:00"))
    world.add(a_schedule(cron="30 * * * *", quiet=NIGHTS, next_slot_at=at("21:30"), if_running="queue"))
    world.go_to(at("06:59", day=1))
    assert (world.state().held_slot_at, world.state().held_reason) == (at("06:30", day=1), "quiet_hours")
    world.go_to(at("07:30", day=1))
    jobs = list(world.jobs.values())
    assert [(job.slot_at, job.created_at) for job in jobs] == [
        (at("21:30"), at("21:30")),
        (at("06:30", day=1), SEVEN),
        (at("07:30", day=1), at("07:30", day=1)),
    ]
    assert {reason for _, reason in skips(world.events)} == {"superseded"}
    assert [slot_at for slot_at, _ in skips(world.events)] == [
        at("22:30") + hour * span("1h") for hour in range(8)
    ]


def test_a_deferred_slot_is_superseded_when_a_regular_one_is_due_by_the_opening() -> None:
    """Case 6, `0 * * * *`."""
    world = World(at("05:30", day=1))
    world.add(a_schedule(cron="0 * * * *", quiet=NIGHTS, next_slot_at=at("06:00", day=1)))
    world.go_to(SEVEN)
    assert [(job.slot_at, job.created_at) for job in world.jobs.values()] == [(SEVEN, SEVEN)]
    assert skips(world.events) == [(at("06:00", day=1), "superseded")]
    assert world.events[-1].detail == {"held": "quiet_hours", "held_at": at("06:00", day=1)}


@pytest.mark.parametrize(
    ("fields", "reason", "opening"),
    [
        ({"only_between": "10:00-12:00"}, "outside_window", at("10:00")),
        ({"not_on": 0b10}, "excluded_day", at("00:00", day=1)),
    ],
)
def test_outside_window_defer_holds_for_window_and_days(
    fields: dict[str, Any], reason: str, opening: int
) -> None:
    schedule = a_schedule(every="7d", outside_window="defer", next_slot_at=NINE, **fields)
    after = decide(schedule, NINE, Shared()).after
    assert (after.held_slot_at, after.held_reason, after.release_at) == (NINE, reason, opening)
    assert (after.held_due_at, after.held_since, after.held_key) == (NINE, NINE, None)


def test_the_opening_is_when_nothing_closes_any_more() -> None:
    schedule = a_schedule(
        every="7d",
        only_between="10:00-12:00",
        outside_window="defer",
        quiet=quiet_hours("09:30-11:00"),
        next_slot_at=NINE,
    )
    assert decide(schedule, NINE, Shared()).after.release_at == at("11:00")


def test_without_an_opening_in_four_hundred_days_the_slot_is_skipped() -> None:
    today = (MONDAY.date().toordinal()) - 719_163
    for_ever = quiet_hours(action="defer", dates=[(today, today + 500)])
    decision = decide(a_schedule(quiet=for_ever, next_slot_at=NINE), NINE, Shared())
    assert skips(decision.events) == [(NINE, "quiet_hours")]


def test_a_policy_that_skips_does_not_hold_even_where_the_window_defers() -> None:
    schedule = a_schedule(quiet=quiet_hours("08:00-10:00"), outside_window="defer", next_slot_at=NINE)
    assert skips(decide(schedule, NINE, Shared()).events) == [(NINE, "quiet_hours")]


def test_the_opening_may_have_passed_when_a_late_slot_is_looked_at() -> None:
    world = World(at("06:00", day=1))
    world.add(a_schedule(cron="58 6 * * *", quiet=NIGHTS, next_slot_at=at("06:58", day=1)))
    world.jump_to(at("07:01", day=1))
    world.go_to(at("07:01", day=1))
    assert [job.slot_at for job in world.claimable()] == [at("06:58", day=1)]


# -- waiting for a place --


def test_a_slot_held_at_capacity_fires_when_the_run_ends() -> None:
    """Case 1: also after a restart at 09:05, which changes nothing on the row."""
    world = World(at("08:50"))
    world.add(
        a_one_shot(at("08:55"), schedule_id="long", uid="long", capacity=a_capacity(1)),
        a_schedule(cron="0 * * * *", capacity=a_capacity(1), next_slot_at=NINE),
    )
    world.go_to(at("08:55"))
    long_run = world.start()
    world.go_to(NINE)
    state = world.state()
    assert (state.held_slot_at, state.held_reason, state.next_run_at) == (NINE, "at_capacity", at("10:00"))
    world.jump_to(at("09:05"))
    assert world.state().held_slot_at == NINE
    world.jump_to(at("09:10"))
    world.finish(long_run)
    world.go_to(at("09:10"))
    (job,) = world.claimable()
    assert (job.slot_at, job.created_at, job.origin) == (NINE, at("09:10"), "schedule")
    assert world.state().held_slot_at is None
    assert skips(world.events) == []


def test_holding_costs_no_evaluation_until_it_is_released() -> None:
    schedule = holding()
    assert decide(schedule, at("09:30"), Shared()).after == schedule.state


def test_a_held_slot_is_superseded_when_the_next_comes_due_first() -> None:
    shared = Shared({"capacity:agent": Limit("capacity:agent", outstanding=1)})
    decision = decide(holding(), at("10:00"), shared)
    assert skips(decision.events) == [(NINE, "superseded")]
    assert decision.events[0].detail == {"held": "at_capacity", "held_at": NINE}
    after = decision.after
    assert (after.held_slot_at, after.held_since, after.next_slot_at) == (
        at("10:00"),
        at("10:00"),
        at("11:00"),
    )


def test_among_several_held_slots_the_oldest_due_goes_first() -> None:
    held = [
        holding(schedule_id=name, uid=name, held_slot_at=due_at, held_due_at=due_at, release_at=at("09:10"))
        for name, due_at in (("b", at("09:02")), ("a", at("09:01")))
    ]
    newer = a_schedule(schedule_id="n", uid="n", capacity=a_capacity(1), next_slot_at=at("09:05"))
    decided = tick([newer, *held], at("09:10"), Shared())
    assert [decision.after.uid for decision in decided] == ["a", "b", "n"]
    assert [decision.after.uid for decision in decided if decision.jobs] == ["a"]


def test_a_slot_held_again_remembers_since_when() -> None:
    shared = Shared({"capacity:agent": Limit("capacity:agent", outstanding=1)})
    decision = decide(holding(release_at=at("09:20")), at("09:20"), shared)
    after = decision.after
    assert (after.held_slot_at, after.held_since, after.release_at) == (NINE, NINE, None)
    assert decision.events == []


def test_lateness_does_not_apply_to_a_held_slot() -> None:
    decision = decide(holding(release_at=at("09:59")), at("09:59"), Shared())
    assert fired(decision) == [NINE]
    assert decision.jobs[0].due_at == NINE
    assert (decision.after.held_slot_at, decision.after.held_since) == (None, None)
    assert decision.after.next_slot_at == at("10:00")


def test_a_held_slot_released_in_a_closed_time_is_skipped_also_where_the_policy_defers() -> None:
    for quiet in (quiet_hours("09:05-10:00"), quiet_hours("09:05-10:00", action="defer")):
        decision = decide(holding(quiet=quiet, release_at=at("09:10")), at("09:10"), Shared())
        assert skips(decision.events) == [(NINE, "quiet_hours")]
        assert decision.after.held_slot_at is None


def test_a_released_slot_goes_through_all_lines_again() -> None:
    schedule = holding(release_at=at("09:10"))
    decision = decide(with_jobs(schedule, a_job(schedule)), at("09:10"), Shared())
    assert skips(decision.events) == [(NINE, "already_running")]


def a_deferred(**fields: Any) -> Schedule:
    """A schedule that quiet hours held at 09:00 until 09:10; the next slot is at 10:00."""
    return holding("quiet_hours", quiet=quiet_hours("08:55-09:10", action="defer"), **fields)


ENDS: dict[str, tuple[dict[str, Any], Shared]] = {
    "outside_window": ({"only_between": "08:00-09:10"}, Shared()),
    "circuit_open": (
        {"breaker": a_breaker_rule(key="b")},
        Shared(breakers={"b": Breaker("b", "open", 3, opened_at=at("09:30"))}),
    ),
    "budget": (
        {"budgets": (a_budget(per_day=1, key="b"),)},
        Shared({"b": Limit("b", day=at("00:00"), day_fires=1)}),
    ),
}


@pytest.mark.parametrize("reason", ENDS)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_hold_that_ends_without_firing_keeps_what_held_it_and_the_opening_that_passed(
    reason: str, is_late: bool
) -> None:
    fields, shared = ENDS[reason]
    now = at("09:50") if is_late else at("09:10")
    decision = decide(a_deferred(release_at=at("09:10"), **fields), now, shared)
    assert skips(decision.events) == [(NINE, reason)]
    opening = {"opening_at": at("09:10")} if is_late else {}
    assert decision.events[0].detail == {"held": "quiet_hours", "held_at": NINE} | opening


@pytest.mark.parametrize(("late", "is_named"), [("4m59s", False), ("5m", False), ("5m1s", True)])
def test_an_opening_has_passed_when_a_slot_of_that_instant_would_have_been_missed(
    late: str, is_named: bool
) -> None:
    schedule = a_deferred(release_at=at("09:10"), only_between="08:00-09:10")
    (event,) = decide(schedule, at("09:10") + span(late), Shared()).events
    assert ("opening_at" in event.detail) is is_named


def test_close_skips_are_gathered_only_with_those_that_were_held_for_the_same_reason() -> None:
    fields: dict[str, Any] = {"every": "10s", "skip_reason": "paused", "skip_held": "outstanding_limit"}
    world = World(NINE)
    world.add(holding(**fields))
    world.pause()
    assert [event.detail.get("held") for event in world.events] == ["at_capacity", None]


def test_an_edit_releases_no_slot_before_it_is_due_by_the_clock_by_which_it_was_held() -> None:
    world = World(NINE - span("10m"))  # the clock was put back since
    world.add(holding())
    world.edit(a_plan(every="1h", capacity=a_capacity(2)))
    assert world.state().release_at == NINE


def test_a_place_that_was_free_for_long_is_no_opening() -> None:
    schedule = holding(release_at=at("09:10"))
    (event,) = decide(with_jobs(schedule, a_job(schedule)), at("09:50"), Shared()).events
    assert event.detail == {"held": "at_capacity", "held_at": NINE}


def test_a_held_slot_whose_schedule_cannot_be_evaluated_keeps_what_held_it() -> None:
    schedule = a_deferred(release_at=at("09:10"))
    schedule.plan.fault = "unreadable"
    skipped, invalidated = tick([schedule], at("09:50"), Shared())[0].events
    assert (skipped.reason, invalidated.type) == ("paused", "schedule.invalidated")
    assert skipped.detail == {"held": "quiet_hours", "held_at": NINE, "opening_at": at("09:10")}


def test_skips_after_an_opening_that_passed_are_not_gathered_because_each_has_its_own() -> None:
    schedule = a_deferred(
        every="10s", next_slot_at=NINE + DAY, release_at=at("09:10"), only_between="08:00-09:10"
    )
    after = decide(schedule, at("09:50"), Shared()).after
    assert after.skip_reason is None


def test_a_hold_counts_no_failure() -> None:
    schedule = a_schedule(guard=a_guard(1), breaker=a_breaker_rule(), max_retries=1, next_slot_at=NINE)
    shared = Shared({"guard:withings:poll": Limit("guard:withings:poll", outstanding=1)})
    after = decide(schedule, NINE, shared).after
    assert (after.error_count, after.current_retry, shared.touched_breakers) == (0, 0, set())


def test_a_pause_ends_a_held_slot() -> None:
    world = World(at("09:10"))
    world.add(holding())
    world.pause()
    assert skips(world.events) == [(NINE, "paused")]
    assert world.state().held_slot_at is None


def test_a_trigger_edit_ends_a_held_slot() -> None:
    world = World(at("09:10"))
    world.add(holding())
    world.edit(a_plan(every="2h", capacity=a_capacity(1)))
    assert skips(world.events) == [(NINE, "edited")]
    assert world.state().held_slot_at is None


def test_a_wider_limit_lets_a_held_slot_go() -> None:
    world = World(at("09:10"))
    world.add(holding())
    world.limits["capacity:agent"] = Limit("capacity:agent", outstanding=1, running=1)
    world.edit(a_plan(every="1h", capacity=a_capacity(2)))
    world.go_to(at("09:10"))
    assert [job.slot_at for job in world.jobs.values()] == [NINE]


def test_an_edit_of_something_else_leaves_a_deferred_slot_waiting_for_the_opening() -> None:
    world = World(at("23:10"))
    world.add(
        a_schedule(
            every="1d",
            quiet=NIGHTS,
            next_slot_at=at("23:00", day=1),
            held_slot_at=at("23:00"),
            held_due_at=at("23:00"),
            held_reason="quiet_hours",
            held_since=at("23:00"),
            release_at=SEVEN,
        )
    )
    world.edit(a_plan(every="1d", quiet=NIGHTS, payload='{"a": 1}'))
    world.go_to(at("23:10"))
    assert skips(world.events) == []
    world.go_to(SEVEN)
    assert [(job.slot_at, job.created_at) for job in world.jobs.values()] == [(at("23:00"), SEVEN)]


def test_an_edit_of_something_else_in_a_closed_time_does_not_end_a_hold_for_capacity() -> None:
    world = World(at("22:10"))
    quiet = quiet_hours("22:00-07:00")
    world.add(
        holding(quiet=quiet, held_slot_at=at("21:00"), held_due_at=at("21:00"), next_slot_at=NINE + DAY)
    )
    world.edit(a_plan(every="1h", quiet=quiet, capacity=a_capacity(1), description="the nightly one"))
    world.go_to(at("22:10"))
    assert world.state().held_slot_at == at("21:00")


def test_a_window_that_changes_gives_a_deferred_slot_its_new_opening() -> None:
    world = World(at("09:10"))
    fields: dict[str, Any] = {"every": "1d", "outside_window": "defer"}
    world.add(
        a_schedule(
            **fields,
            only_between="18:00-20:00",
            next_slot_at=NINE + DAY,
            held_slot_at=NINE,
            held_due_at=NINE,
            held_reason="outside_window",
            held_since=NINE,
            release_at=at("18:00"),
        )
    )
    world.edit(a_plan(**fields, only_between="12:00-20:00"))
    world.go_to(at("12:00"))
    assert [(job.slot_at, job.created_at) for job in world.jobs.values()] == [(NINE, at("12:00"))]
