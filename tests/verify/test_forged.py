"""Forged records that only one rule of the checker refuses: each fails without that rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from everwhen.model.events import Event
from everwhen.model.history import History, Recorded, ScheduleHistory
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.policy import Budget
from everwhen.model.schedule import Plan
from everwhen.model.spending import Spending
from everwhen.timetable.trigger import EveryMonth
from everwhen.timetable.windows import Window
from everwhen.verify.budgets import BudgetCounts, WindowSum
from everwhen.verify.ledger import LedgerReport, check_ledger
from tests.verify.test_ledger import (
    START,
    UID,
    a_plan,
    a_second,
    a_world,
    an_hour,
    check,
    jobs_of,
    only,
    three_minutes,
    with_state,
)

CHAIN = a_plan(interval_from="completion")


def a_range(first: int, last: int, count: int) -> Recorded:
    detail = {"first": first, "last": last}
    return Recorded(
        1_000,
        Event("schedule.missed", START + HOUR, "s", UID, slot_at=first, slot_count=count, detail=detail),
    )


def without(history: ScheduleHistory, *minutes: int) -> ScheduleHistory:
    """The history without the jobs of some minutes."""
    gone = {START + minute * MINUTE for minute in minutes}
    return replace(history, jobs=[job for job in jobs_of(history) if job.slot_at not in gone])


def with_range(history: ScheduleHistory, first: int, last: int, count: int) -> ScheduleHistory:
    event = a_range(START + first * MINUTE, START + last * MINUTE, count)
    return replace(history, events=[*history.events, event])


# -- ranges --


@pytest.mark.parametrize("minute", [9, 21])
def test_a_range_covers_no_slot_before_its_beginning_or_behind_its_end(minute: int) -> None:
    history = with_range(without(an_hour(), 11, 12, minute), 10, 20, 3)
    assert [fault.slot_at for fault in check(history).of("lost")] == [START + minute * MINUTE]
    (fault,) = check(history).of("range")
    assert "1 of them are not there" in fault.sentence


def test_a_range_covers_the_slots_at_both_of_its_ends() -> None:
    history = with_range(without(an_hour(), 10, 20), 10, 20, 2)
    assert (check(history).of("lost"), check(history).of("range")) == ([], [])


def test_a_range_that_ends_first_takes_the_slots_that_no_other_can_count() -> None:
    history = with_range(without(an_hour(), 10, 11, 25), 10, 30, 2)
    event = a_range(START + 10 * MINUTE, START + 12 * MINUTE, 1)._replace(id=1_001)
    report = check(replace(history, events=[*history.events, event]))
    assert (report.of("lost"), report.of("range")) == ([], [])


# -- chains --


def switched(begins: int, ends: int) -> list[Recorded]:
    return [Recorded(50, Event("system.paused", begins)), Recorded(51, Event("system.resumed", ends))]


@pytest.mark.parametrize(("begins", "is_found"), [(-20, True), (-1, False), (3, True)])
def test_only_a_pause_of_the_system_in_the_gap_explains_a_chain_that_went_on_elsewhere(
    begins: int, is_found: bool
) -> None:
    """Minutes from the missing slot; a pause before its predecessor or behind its successor explains nothing."""
    world = a_world(CHAIN)
    world.go_to(START + HOUR)
    jobs = jobs_of(world.history(UID))
    gap = jobs[30].slot_at
    history = replace(world.history(UID), jobs=[*jobs[:30], *jobs[31:]])
    begins_at = gap + begins * MINUTE
    lost = check(history, system=switched(begins_at, begins_at + 30 * SECOND)).of("lost")
    assert [fault.slot_at for fault in lost] == ([gap] if is_found else [])


def test_the_next_slot_of_a_chain_follows_from_its_last_end_also_behind_a_pause_of_the_system() -> None:
    world = a_world(CHAIN)
    world.go_to(START + HOUR)
    history = world.history(UID)
    assert history.state is not None and history.state.next_slot_at is not None
    wrong = history.state.next_slot_at + MINUTE
    forged = with_state(history, next_slot_at=wrong, next_run_at=wrong)
    earlier = switched(START + 10 * MINUTE + 2 * SECOND, START + 10 * MINUTE + 3 * SECOND)
    assert only(check(forged, system=earlier), "state") == [wrong]


# -- jobs --


def test_own_jobs_behind_a_backfill_are_stuck() -> None:
    """A backfill runs in a line of its own, and its end makes no other job ready."""
    history = an_hour(a_plan(if_running="queue"), run=three_minutes)
    jobs = jobs_of(history)
    running = next(number for number, job in enumerate(jobs) if job.status == "running")
    for origin, line, is_stuck in (("schedule", "own", False), ("backfill", "backfill", True)):
        forged = jobs[running]._replace(origin=origin, line=line)  # type: ignore[arg-type]
        waiting = jobs[running + 1]._replace(status="queued", ready_at=None, started_at=None)
        report = check(replace(history, jobs=[*jobs[:running], forged, waiting]))
        assert any("behind nobody" in fault.sentence for fault in report.of("job")) is is_stuck


@pytest.mark.parametrize("origin", ["schedule", "catch_up"])
def test_a_job_of_the_clock_that_was_created_before_it_was_due_is_found(origin: Any) -> None:
    history = an_hour()
    jobs = jobs_of(history)
    jobs[5] = jobs[5]._replace(origin=origin, created_at=jobs[5].due_at - 1)
    (fault,) = check(replace(history, jobs=jobs)).of("job")
    assert "fired before it was due" in fault.sentence
    jobs[5] = jobs[5]._replace(created_at=jobs[5].due_at)
    assert check(replace(history, jobs=jobs)).of("job") == []


@pytest.mark.parametrize("origin", ["webhook", "manual"])
def test_a_job_that_was_asked_for_may_have_been_created_at_any_time(origin: Any) -> None:
    history = an_hour()
    (job, *_) = jobs_of(history)
    asked = job._replace(origin=origin, job_id="x", slot_at=START + DAY, due_at=START + DAY)
    assert check(replace(history, jobs=[*jobs_of(history), asked])).of("job") == []


# -- budgets --

BUDGET = Budget("budget:agent:a", per_hour=99, per_day=999, cost_per_day=9_000_000, unit="USD")


def a_budgeted_hour() -> ScheduleHistory:
    """Each of its runs cost 5, by an estimate in the first ten minutes. The world does not apply the budget, which
    refuses nothing."""
    history = an_hour()
    cost: dict[str, Any] = {"cost_amount": 5, "cost_unit": "USD"}
    reserved = f'{{"{BUDGET.key}": [5, "USD"]}}'
    jobs = [
        job._replace(**cost, cost_source="estimated" if number < 10 else "reported", cost_reserved=reserved)
        for number, job in enumerate(jobs_of(history))
    ]
    (revision,) = history.revisions
    return replace(history, jobs=jobs, revisions=[revision._replace(plan=a_plan(budgets=(BUDGET,)))])


def check_budget(**wrong: int) -> LedgerReport:
    """The hour of START has 60 slots, and the following one has begun with one, whose run is in flight."""
    now = START + HOUR
    day, hour = now - now % DAY, now - now % HOUR
    limit = Limit(BUDGET.key, 0, 0, hour, 1, day, 61)
    row = Spending(BUDGET.key)._replace(
        unit="USD",
        reserved=5,
        day=day,
        day_cost=300,
        month=day - 27 * DAY,
        month_cost=300,
        total_cost=300,
        estimated_day_cost=50,
        estimated_month_cost=50,
    )
    limit = limit._replace(
        **{key: value + wrong[key] for key, value in limit._asdict().items() if key in wrong}
    )
    row = row._replace(**{key: value + wrong[key] for key, value in row._asdict().items() if key in wrong})
    return check_ledger(History([a_budgeted_hour()], limits=[limit], spendings=[row]), now)


@pytest.mark.parametrize(
    ("column", "difference"),
    [
        *(("hour_fires", -1), ("hour_fires", 2)),  # the run in flight may have begun in the hour before
        *(("day_fires", -1), ("day_fires", 1), ("reserved", -1), ("reserved", 1), ("caught_up_reserved", 1)),
        *(("day_cost", -1), ("day_cost", 1), ("month_cost", -1), ("month_cost", 1)),
        *(("estimated_day_cost", -1), ("estimated_day_cost", 1)),
        *(("estimated_month_cost", -1), ("estimated_month_cost", 1)),
    ],
)
def test_a_budget_that_counts_other_than_the_jobs_is_found_in_both_directions(
    column: str, difference: int
) -> None:
    assert check_budget().of("counter") == []
    assert check_budget(**{column: difference}).of("counter")


# -- edges: what lies exactly on them --


def test_a_slot_at_the_very_instant_of_a_pause_of_the_system_needs_its_entry() -> None:
    history = without(an_hour(), 10, 11, 12)
    lost = check(history, system=switched(START + 10 * MINUTE, START + 12 * MINUTE)).of("lost")
    assert [fault.slot_at for fault in lost] == [START + 10 * MINUTE]


def test_a_slot_at_the_very_instant_from_which_on_the_record_is_whole_is_judged() -> None:
    history = without(an_hour(), 10, 11)
    for minute, lost in ((10, [10, 11]), (11, [11]), (12, [])):
        report = check_ledger(History([history], retained_from=START + minute * MINUTE), START + HOUR)
        assert [fault.slot_at for fault in report.of("lost")] == [START + n * MINUTE for n in lost]


def failing_at_first(job: Job) -> tuple[int, Outcome]:
    return SECOND, SUCCEEDED if job.retry else Outcome("failed", error="no luck")


@pytest.mark.parametrize(
    ("plan", "run"),
    [
        (a_plan(interval_from="completion", max_retries=2, retry_delay=5 * MINUTE), failing_at_first),
        (a_plan(interval_from="completion", end_at=START // SECOND + 122), a_second),
        (a_plan(interval_from="completion", only_between=Window(60, 120), outside_window="defer"), a_second),
        (a_plan(EveryMonth(), first_run="after_interval"), a_second),
    ],
    ids=["a chain with retries", "a chain up to its end", "a chain that holds its slot", "a month"],
)
def test_a_record_at_the_edge_of_a_rule_is_clean(plan: Plan, run: Any) -> None:
    world = a_world(plan, run=run)
    world.go_to(START + HOUR)
    report = check_ledger(History([world.history(UID)]), world.now, tolerance=0)
    assert report.is_clean, str(report)


def test_a_run_that_is_over_and_keeps_its_worker_counts_as_running() -> None:
    history = an_hour()
    *jobs, last, running = jobs_of(history)
    held = last._replace(status="timed_out", released_at=None)
    state = history.state
    assert state is not None
    for counted, is_clean in ((state.running_jobs, False), (state.running_jobs + 1, True)):
        forged = with_state(replace(history, jobs=[*jobs, held, running]), running_jobs=counted)
        words = [fault.sentence for fault in check(forged).of("counter")]
        assert any(word.startswith("running_jobs") for word in words) is not is_clean


def test_a_retry_that_was_claimed_before_is_not_counted_as_waiting() -> None:
    history = an_hour()
    *jobs, running = jobs_of(history)
    for fence, waiting in ((0, 1), (3, 0)):
        changes: dict[str, Any] = {"status": "queued", "origin": "retry", "not_before": START, "node": None}
        retry = running._replace(**changes, fence=fence, ready_at=START)
        forged = with_state(replace(history, jobs=[*jobs, retry]), waiting=waiting, retries_waiting=waiting)
        words = [fault.sentence for fault in check(forged).of("counter")]
        assert not any("waiting" in word for word in words)


def test_a_death_of_before_the_rule_is_not_held_against_it() -> None:
    died = Event("schedule.died", START + MINUTE, "s", UID)
    history = replace(an_hour(), events=[*an_hour().events, Recorded(1_000, died)])
    for ruled_from, is_found in ((START + MINUTE, True), (START + MINUTE + 1, False)):
        report = check_ledger(History([history], ruled_from=ruled_from), START + HOUR)
        assert any("on_exhausted" in fault.sentence for fault in report.faults) is is_found


def test_a_skipped_request_is_no_slot() -> None:
    history = an_hour()
    request = Event(
        "schedule.skipped", START, "s", UID, slot_at=START + 1, reason="paused", detail={"origin": "chat"}
    )
    forged = replace(history, events=[*history.events, Recorded(1_000, request)])
    assert (check(forged).of("extra"), check(forged).of("doubled")) == ([], [])


def test_a_retry_counts_in_the_hour_in_which_it_began() -> None:
    history = a_budgeted_hour()
    retry = jobs_of(history)[-1]._replace(
        origin="retry", retry=1, created_at=START + 30 * MINUTE, job_id="r", started_at=START + HOUR
    )
    counts = BudgetCounts(START + HOUR)
    counts.begin(history)
    counts.add(retry)
    hour = START + HOUR - (START + HOUR) % HOUR
    assert counts.fires_by_hour.of(BUDGET.key, hour) == WindowSum(1, 0)
    assert counts.fires_by_hour.of(BUDGET.key, hour - HOUR) == WindowSum(0, 0)


def test_what_a_lost_attempt_has_spent_is_not_counted_again_at_the_end_of_its_job() -> None:
    history = a_budgeted_hour()
    job = jobs_of(history)[0]._replace(cost_amount=12)
    spent = {"spent": {BUDGET.key: 7}}
    rescued = Event("job.rescued", START + 1, "s", UID, job_id=job.job_id, detail=spent)
    counts = BudgetCounts(START + HOUR)
    counts.begin(replace(history, events=[*history.events, Recorded(1_000, rescued)]))
    counts.add(job)
    assert counts.by_day.of(BUDGET.key, START - START % DAY) == WindowSum(12, 0)
