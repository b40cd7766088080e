"""From due slot to job: the order of E2, the fold of E1, and what one bad schedule does to the others (E7)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide.tick import decide, tick
from everwhen.model.calendar import Calendar
from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.job import Job
from everwhen.model.limits import Breaker, Limit, Shared
from everwhen.model.schedule import Plan, Schedule, broken_plan
from tests.decide.builders import (
    a_breaker_rule,
    a_budget,
    a_capacity,
    a_chain,
    a_guard,
    a_job,
    a_one_shot,
    a_plan,
    a_schedule,
    at,
    entries,
    fired,
    misses,
    quiet_hours,
    skips,
    span,
    state_of,
    types,
    with_jobs,
)
from tests.decide.world import World

NINE = at("09:00")
TEN = at("10:00")


def test_a_due_slot_fires_and_the_row_shows_the_next() -> None:
    decision = decide(a_schedule(every="1h", next_slot_at=NINE), NINE + 5, Shared())
    (job,) = decision.jobs
    assert (job.slot_at, job.due_at, job.origin, job.not_before) == (NINE, NINE, "schedule", None)
    after = decision.after
    assert (after.next_slot_at, after.next_run_at) == (TEN, TEN)
    assert (after.last_fired_at, after.last_slot_at) == (NINE + 5, NINE)
    assert (after.fire_count, after.outstanding) == (1, 1)
    assert decision.events == []


def test_jobs_are_named_by_uid_and_number() -> None:
    decision = decide(a_schedule(next_slot_at=NINE, fire_count=4), NINE, Shared())
    assert decision.jobs[0].job_id == "sched-a1b2c3d4e5f6-n5-rc0"


@pytest.mark.parametrize("status", ["paused", "invalid", "done", "dead"])
def test_a_schedule_that_is_not_active_is_left_alone(status: str) -> None:
    schedule = a_schedule(next_slot_at=NINE, status=status)
    decision = decide(schedule, NINE, Shared())
    assert decision.after == decision.before == schedule.state
    assert not decision.jobs and not decision.events


def test_a_schedule_that_is_not_due_is_left_alone() -> None:
    schedule = a_schedule(next_slot_at=NINE)
    assert decide(schedule, NINE - 1, Shared()).after == schedule.state


def test_a_slot_waits_for_its_jitter() -> None:
    schedule = a_schedule(every="1h", jitter_ms=300_000, next_slot_at=NINE)
    due_at = schedule.state.next_run_at
    assert due_at is not None and NINE < due_at < at("09:05")
    assert decide(schedule, due_at - 1, Shared()).after == schedule.state
    (job,) = decide(schedule, due_at, Shared()).jobs
    assert (job.slot_at, job.due_at) == (NINE, due_at)


def test_a_slot_due_by_its_jitter_four_minutes_later_is_not_late() -> None:
    """Case 3."""
    candidates = (
        a_schedule(schedule_id=f"s{number}", jitter_ms=300_000, next_slot_at=NINE) for number in range(1_000)
    )
    schedule = next(found for found in candidates if (found.state.next_run_at or 0) >= at("09:04"))
    decision = decide(schedule, (schedule.state.next_run_at or 0) + span("4m"), Shared())
    assert fired(decision) == [NINE]
    assert misses(decision.events) == []


def test_a_webhook_schedule_is_never_fired_by_the_clock() -> None:
    schedule = a_schedule(on="webhook")
    assert schedule.state.next_run_at is None
    assert decide(schedule, NINE, Shared()).jobs == []


# -- the order of E2 --


FULL = {key: Limit(key, outstanding=9, running=9) for key in ("guard:withings:poll", "capacity:agent")}


def everything_against_it(**fields: Any) -> tuple[Schedule, Shared]:
    """A schedule for which every line of E2 applies at 09:00; words take the reasons away one by one."""
    known: dict[str, Any] = {
        "not_on": 0b10,  # Monday
        "breaker": a_breaker_rule(),
        "budgets": (a_budget(per_hour=1),),
        "guard": a_guard(1),
        "capacity": a_capacity(1),
        "next_slot_at": NINE,
    }
    is_running = fields.pop("is_running", True)
    schedule = a_schedule(**{**known, **fields})
    if is_running:
        schedule = with_jobs(schedule, a_job(schedule))
    breakers = {"withings:poll": Breaker("withings:poll", "open", 3, opened_at=NINE - 1)}
    return schedule, Shared({**FULL, "budget:agent": Limit("budget:agent").fired(NINE)}, breakers)


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        ({}, "excluded_day"),
        ({"not_on": 0}, "circuit_open"),
        ({"not_on": 0, "breaker": None}, "already_running"),
        ({"not_on": 0, "breaker": None, "is_running": False}, "budget"),
    ],
)
def test_the_first_line_that_applies_skips(gone: dict[str, Any], reason: str) -> None:
    schedule, shared = everything_against_it(**gone)
    decision = decide(schedule, NINE, shared)
    assert skips(decision.events) == [(NINE, reason)]
    assert decision.jobs == []


def test_guard_and_capacity_come_last_and_hold() -> None:
    gone: dict[str, Any] = {"not_on": 0, "breaker": None, "is_running": False, "budgets": ()}
    schedule, shared = everything_against_it(**gone)
    assert decide(schedule, NINE, shared).after.held_reason == "outstanding_limit"
    schedule, shared = everything_against_it(**gone, guard=None)
    assert decide(schedule, NINE, shared).after.held_reason == "at_capacity"
    schedule, shared = everything_against_it(**gone, guard=None, capacity=None)
    assert fired(decide(schedule, NINE, shared)) == [NINE]


def test_each_closed_time_is_named() -> None:
    excluded = a_schedule(not_on=0b10, next_slot_at=NINE)
    outside = a_schedule(only_between="10:00-18:00", next_slot_at=NINE)
    quiet = a_schedule(quiet=quiet_hours("08:30-09:30"), next_slot_at=NINE)
    reasons = [
        skips(decide(schedule, NINE, Shared()).events)[0][1] for schedule in (excluded, outside, quiet)
    ]
    assert reasons == ["excluded_day", "outside_window", "quiet_hours"]


def test_a_window_is_half_open() -> None:
    def is_fired(slot_at: int) -> bool:
        schedule = a_schedule(only_between="09:00-10:00", next_slot_at=slot_at)
        return bool(decide(schedule, slot_at, Shared()).jobs)

    assert [is_fired(at(clock)) for clock in ("08:00", "09:00", "10:00")] == [False, True, False]


def test_a_slot_that_was_due_in_a_closed_time_is_skipped_when_it_is_looked_at_later() -> None:
    schedule = a_schedule(quiet=quiet_hours("08:30-09:01"), next_slot_at=NINE)
    assert skips(decide(schedule, at("09:01"), Shared()).events) == [(NINE, "quiet_hours")]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"quiet": quiet_hours("09:01-10:00")}, "quiet_hours"),
        ({"only_between": "08:00-09:01"}, "outside_window"),
        ({"every": "24h", "next_slot_at": at("23:58"), "not_on": 0b100}, "excluded_day"),
    ],
)
def test_a_late_slot_does_not_begin_in_a_closed_time(fields: dict[str, Any], reason: str) -> None:
    schedule = a_schedule(**{"next_slot_at": NINE, **fields})
    slot_at = schedule.state.next_slot_at or 0
    assert fired(decide(schedule, slot_at + 59 * SECOND, Shared())) == [slot_at]
    late = decide(schedule, slot_at + 2 * MINUTE, Shared())
    assert (fired(late), skips(late.events)) == ([], [(slot_at, reason)])


def test_a_late_slot_is_held_until_the_opening_after_now_where_the_policy_defers() -> None:
    schedule = a_schedule(quiet=quiet_hours("09:01-09:30", action="defer"), next_slot_at=NINE)
    world = World(at("09:02"))
    world.add(schedule)
    world.tick()
    held = world.state()
    assert (held.held_slot_at, held.held_reason, held.release_at) == (NINE, "quiet_hours", at("09:30"))
    world.go_to(at("09:30"))
    assert [job.slot_at for job in world.claimable()] == [NINE]


def test_a_late_slot_of_a_chain_in_a_closed_time_is_over_at_its_due_at() -> None:
    schedule = a_chain(every="1h", quiet=quiet_hours("09:01-10:00"), next_slot_at=NINE)
    late = decide(schedule, at("09:02"), Shared())
    assert (fired(late), late.after.next_slot_at) == ([], TEN)


def test_a_skip_is_recorded_and_the_next_run_moves_on_in_the_same_decision() -> None:
    decision = decide(a_schedule(not_on=0b10, next_slot_at=NINE), NINE, Shared())
    (event,) = decision.events
    assert (event.type, event.at, event.slot_at, event.schedule_id, event.uid) == (
        "schedule.skipped",
        NINE,
        NINE,
        "reports",
        "a1b2c3d4e5f6",
    )
    assert (decision.after.next_run_at, decision.after.last_slot_at) == (TEN, NINE)


# -- the fold --


def test_the_oldest_due_slot_is_decided_first() -> None:
    schedules = [
        a_schedule(schedule_id=name, uid=name, next_slot_at=NINE + second * SECOND)
        for name, second in (("c", 2), ("a", 0), ("b", 1))
    ]
    decided = tick(schedules, NINE + 5 * SECOND, Shared())
    assert [decision.after.uid for decision in decided] == ["a", "b", "c"]


def test_a_superseded_slot_lends_its_age_to_nobody() -> None:
    """The slot that is decided counts: a hold that is over does not put its successor before older slots."""
    holds = a_schedule(
        schedule_id="h",
        uid="h",
        guard=a_guard(1),
        next_slot_at=NINE + 2 * SECOND,
        held_slot_at=at("08:00"),
        held_due_at=at("08:00"),
        held_reason="outstanding_limit",
        held_key="guard:withings:poll",
        release_at=NINE,
    )
    older = a_schedule(schedule_id="o", uid="o", guard=a_guard(1), next_slot_at=NINE)
    decided = tick([holds, older], NINE + 3 * SECOND, Shared())
    assert [decision.after.uid for decision in decided if decision.jobs] == ["o"]


def test_a_schedule_without_anything_due_changes_nothing_in_a_batch() -> None:
    idle = a_schedule(on="chat", uid="idle")
    (decision,) = tick([idle], NINE, Shared())
    assert decision.after == idle.state


# -- the end of the last slot --


def test_a_one_shot_that_fires_is_done() -> None:
    decision = decide(a_one_shot(NINE), NINE, Shared())
    assert fired(decision) == [NINE]
    assert (decision.after.status, decision.after.next_slot_at) == ("done", None)
    assert types(decision.events) == ["schedule.done"]


def test_a_one_shot_that_is_skipped_is_done() -> None:
    decision = decide(a_one_shot(NINE, not_on=0b10), NINE, Shared())
    assert skips(decision.events) == [(NINE, "excluded_day")]
    assert decision.after.status == "done"


def test_a_one_shot_that_is_held_is_not_done_until_it_fires() -> None:
    world = World(at("08:00"))
    world.add(a_one_shot(NINE, guard=a_guard(1)))
    world.limits["guard:withings:poll"] = Limit("guard:withings:poll", outstanding=1)
    world.go_to(NINE)
    assert (world.state().status, world.state().held_slot_at) == ("active", NINE)
    world.limits["guard:withings:poll"] = Limit("guard:withings:poll")
    world.add(state_of(world.schedule(), release_at=NINE))
    world.go_to(NINE)
    assert world.state().status == "done"
    assert [job.slot_at for job in world.claimable()] == [NINE]


def test_the_last_slot_before_end_at_makes_the_schedule_done() -> None:
    world = World(at("08:00"))
    world.add(a_schedule(every="1h", end_at=at("10:00"), next_slot_at=NINE))
    world.go_to(NINE)
    assert world.state().status == "done"
    assert [job.slot_at for job in world.claimable()] == [NINE]


# -- one bad schedule --


class BrokenPlan(Plan):
    """A plan whose calendar raises from its nth use on."""

    def __init__(self, plan: Plan, error: Exception, good_uses: int = 0) -> None:
        super().__init__(plan.schedule_id, plan.definition, None)
        self.error = error
        self.good_uses = good_uses

    def calendar(self, anchor_at: int | None) -> Calendar:
        self.good_uses -= 1
        if self.good_uses < 0:
            raise self.error
        return super().calendar(anchor_at)


class TornShared(Shared):
    """Raises at the second catch-up job of an evaluation."""

    def next_stagger(self, opening: int) -> int:
        if self.stagger_offset:
            raise OverflowError("beyond the end of the calendar")
        self.stagger_offset += 1
        return opening


def broken(error: Exception, *, good_uses: int = 0, **state: Any) -> Schedule:
    good = a_schedule(uid="bad", next_slot_at=NINE, guard=a_guard(5), **state)
    return Schedule(good.state, BrokenPlan(good.plan, error, good_uses))


@pytest.mark.parametrize(
    "error",
    [ValueError("no such day"), KeyError("Mars/Base"), OverflowError("too far"), RuntimeError("what?")],
)
def test_a_schedule_whose_evaluation_raises_becomes_invalid_and_the_others_go_on(error: Exception) -> None:
    good = a_schedule(uid="good", next_slot_at=NINE + SECOND)
    bad, other = tick([broken(error), good], NINE + SECOND, Shared())
    assert (bad.after.status, bad.after.next_run_at) == ("invalid", None)
    assert types(bad.events)[-1] == "schedule.invalidated"
    assert str(error) in (bad.after.status_reason or "")
    assert fired(other) == [NINE + SECOND]


def test_a_row_that_contradicts_itself_invalidates_its_schedule_only() -> None:
    torn = a_schedule(uid="torn", next_slot_at=None, next_run_at=NINE)
    good = a_schedule(uid="good", next_slot_at=NINE)
    bad, other = tick([torn, good], NINE, Shared())
    assert bad.after.status == "invalid"
    assert fired(other) == [NINE]


def test_an_evaluation_that_raises_takes_no_places_and_no_budget() -> None:
    schedule = a_schedule(
        uid="bad",
        every="1h",
        catch_up="run_all",
        guard=a_guard(5),
        budgets=(a_budget(per_day=9),),
        next_slot_at=at("06:00"),
    )
    shared = TornShared()
    (decision,) = tick([schedule], at("09:30"), shared)
    assert decision.after.status == "invalid"
    assert decision.jobs == []
    assert shared.limit("guard:withings:poll").outstanding == 0
    assert shared.limit("budget:agent").day_fires == 0


def test_a_slot_held_or_due_when_its_schedule_turns_out_invalid_is_in_the_ledger_once() -> None:
    held: dict[str, Any] = {
        "held_slot_at": at("08:00"),
        "held_due_at": at("08:00"),
        "held_reason": "at_capacity",
    }
    (decision,) = tick([broken(ValueError("no"), **held)], NINE, Shared())
    assert decision.after.held_slot_at is None
    assert entries(decision, at("08:00")) == 1
    assert entries(decision, NINE) == 1


def test_a_planned_slot_that_newer_zone_data_moved_does_not_stop_the_schedule() -> None:
    schedule = a_schedule(cron="0 9 * * *", next_slot_at=at("08:30"))
    decision = decide(schedule, at("08:30"), Shared())
    assert (decision.after.next_run_at or 0) > at("08:30")


# -- close slots that are skipped in a row --


def every_ten_seconds(*jobs: Job, **fields: Any) -> Schedule:
    schedule = a_schedule(every="10s", anchor_at=NINE, next_slot_at=NINE, **fields)
    return with_jobs(schedule, *(jobs or [a_job(schedule)]))


def test_close_slots_skipped_in_a_row_are_gathered_and_written_when_the_run_ends() -> None:
    world = World(at("08:59"))
    world.add(every_ten_seconds())
    world.go_to(at("09:00:40"))
    assert skips(world.events) == [(NINE, "already_running")]  # the first at once, the others gathered
    state = world.state()
    assert (state.skip_reason, state.skip_first_at, state.skip_last_at, state.skip_count) == (
        "already_running",
        at("09:00:10"),
        at("09:00:40"),
        4,
    )
    world.finish(next(iter(world.jobs.values())))
    world.go_to(at("09:00:50"))
    gathered = world.events[-1]
    assert (gathered.slot_at, gathered.slot_count) == (at("09:00:10"), 4)
    assert gathered.detail == {"first": at("09:00:10"), "last": at("09:00:40")}
    assert (world.state().skip_reason, world.state().skip_count) == (None, 0)


def test_a_gathered_run_of_one_has_its_ends_too_because_it_was_not_decided_when_it_is_written() -> None:
    world = World(at("08:59"))
    world.add(every_ten_seconds())
    world.go_to(at("09:00:10"))
    world.pause()
    gathered = next(event for event in world.events if event.slot_at == at("09:00:10"))
    ends = {"first": at("09:00:10"), "last": at("09:00:10")}
    assert (gathered.slot_count, dict(gathered.detail)) == (1, ends)


def test_a_single_skip_among_close_slots_is_one_event() -> None:
    world = World(at("08:59"))
    world.add(every_ten_seconds())
    world.go_to(NINE)
    world.finish(next(iter(world.jobs.values())))
    world.go_to(at("09:00:10"))
    assert skips(world.events) == [(NINE, "already_running")]
    assert world.state().skip_reason is None


def test_another_reason_ends_the_run() -> None:
    world = World(at("08:59"))
    world.add(every_ten_seconds(quiet=quiet_hours("09:01-10:00")))
    world.go_to(at("09:01"))
    assert [(event.slot_at, event.slot_count, event.reason) for event in world.events] == [
        (NINE, 1, "already_running"),
        (at("09:00:10"), 5, "already_running"),
        (at("09:01"), 1, "quiet_hours"),
    ]


def test_a_gathered_run_is_written_after_a_thousand_slots() -> None:
    world = World(at("08:59"))
    schedule = a_schedule(every="1s", anchor_at=NINE, next_slot_at=NINE)
    world.add(with_jobs(schedule, a_job(schedule)))
    world.go_to(NINE + 1_500 * SECOND)
    assert [event.slot_count for event in world.events] == [1, 1_000]
    assert world.state().skip_count == 500


def test_a_gathered_run_is_written_after_an_hour() -> None:
    world = World(at("08:59"))
    world.add(every_ten_seconds())
    world.go_to(at("10:30"))
    assert [event.slot_count for event in world.events] == [1, 361]
    assert world.events[-1].detail["last"] == at("10:00:10")


def test_slots_a_minute_apart_are_recorded_one_by_one() -> None:
    world = World(at("08:59"))
    schedule = a_schedule(every="1m", anchor_at=NINE, next_slot_at=NINE)
    world.add(with_jobs(schedule, a_job(schedule)))
    world.go_to(at("09:03"))
    assert [event.slot_count for event in world.events] == [1, 1, 1, 1]


def test_the_last_of_close_slots_is_recorded_by_itself() -> None:
    schedule = every_ten_seconds(end_at=at("09:00:10"))
    decision = decide(schedule, NINE, Shared())
    assert types(decision.events) == ["schedule.skipped", "schedule.done"]
    assert decision.after.skip_reason is None


def test_close_slots_superseded_in_a_row_are_gathered_too() -> None:
    world = World(at("08:59"))
    world.add(a_schedule(every="10s", anchor_at=NINE, next_slot_at=NINE, capacity=a_capacity(1)))
    world.limits["capacity:agent"] = Limit("capacity:agent", outstanding=1, running=1)
    world.go_to(at("09:10"))
    assert len(world.events) <= 2


def test_a_plan_can_be_made_without_quiet_hours() -> None:
    assert a_plan(every="1h").defers == frozenset()


def test_a_schedule_that_cannot_be_read_becomes_invalid_and_its_open_slots_get_their_entries() -> None:
    state = a_schedule(every="1h", next_slot_at=NINE).state
    (decision,) = tick([Schedule(state, broken_plan("reports", "unreadable row"))], NINE, Shared())
    assert decision.after.status == "invalid"
    assert [event.type for event in decision.events] == ["schedule.skipped", "schedule.invalidated"]
    assert "unreadable row" in (decision.after.status_reason or "")
