"""The ledger checker finds what is missing, doubled, invented or miscounted, and nothing in a record that is right.

Each test lets a schedule live, which leaves a clean record, and then tampers with it in one way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from everwhen.decide import status
from everwhen.decide.check_ledger import LedgerReport, check_ledger
from everwhen.decide.edit import edit
from everwhen.decide.ledger_entries import Kind
from everwhen.model.events import Event
from everwhen.model.history import History, Life, Recorded
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.policy import Guard
from everwhen.model.schedule import Definition, Plan, State, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, Trigger
from everwhen.timetable.windows import Window
from tests.machine.small_world import SmallWorld

UID = "a1b2c3d4e5f6"
START = 1_774_735_200 * SECOND
EVERY_MINUTE = Every(60, "1m")


def a_second(job: Job) -> tuple[int, Outcome]:
    return SECOND, SUCCEEDED


def three_minutes(job: Job) -> tuple[int, Outcome]:
    return 3 * MINUTE, SUCCEEDED


def a_plan(trigger: Trigger = EVERY_MINUTE, **fields: Any) -> Plan:
    return Plan("s", Definition(trigger, zone("UTC"), Target("command"), **fields), None)


def a_world(
    plan: Plan | None = None,
    *,
    run: Callable[[Job], tuple[int, Outcome]] = a_second,
    outages: Sequence[tuple[int, int]] = (),
) -> SmallWorld:
    world = SmallWorld(START, run, outages=outages)
    world.create(UID, plan or a_plan())
    return world


def an_hour(plan: Plan | None = None, **options: Any) -> Life:
    """The record of a schedule's first hour."""
    world = a_world(plan, **options)
    world.go_to(START + HOUR)
    return world.life(UID)


def check(
    life: Life, *, now: int = START + HOUR, system: Sequence[Recorded] = (), limits: Any = None
) -> LedgerReport:
    return check_ledger(History([life], system, limits), now)


def only(report: LedgerReport, kind: Kind) -> list[int | None]:
    """The slots of the faults, which are all of that kind."""
    assert report.faults and {fault.kind for fault in report.faults} == {kind}, str(report)
    return [fault.slot_at for fault in report.faults]


def jobs_of(life: Life) -> list[Job]:
    return list(life.jobs)


def with_state(life: Life, **changes: Any) -> Life:
    assert life.state is not None
    return replace(life, state=life.state._replace(**changes))


def with_event(life: Life, event: Event) -> Life:
    return replace(life, events=[*life.events, Recorded(1_000_000, event)])


def skipped(slot_at: int, **fields: Any) -> Event:
    return Event("schedule.skipped", START + HOUR, "s", UID, slot_at=slot_at, reason="paused", **fields)


# -- records that are right --


@pytest.mark.parametrize(
    "plan",
    [
        a_plan(),
        a_plan(jitter_ms=50_000),
        a_plan(Every(7, "7s"), only_between=Window(0, 60)),
        a_plan(Cron(parse_cron("*/7 * * * *")), only_between=Window(60, 120), outside_window="defer"),
        a_plan(interval_from="completion"),
        a_plan(interval_from="completion", end_at=START // SECOND + 1_800),
        a_plan(total_repeats=3),
        a_plan(if_running="queue", queue_limit=2),
        a_plan(if_running="cancel", max_retries=2),
    ],
    ids=["plain", "jitter", "window", "deferred", "chain", "chain-end", "repeats", "queue", "cancel"],
)
@pytest.mark.parametrize("run", [a_second, three_minutes])
@pytest.mark.parametrize("catch_up", ["skip", "run_once", "run_all"])
def test_a_record_that_is_right_is_clean(
    plan: Plan, run: Callable[[Job], tuple[int, Outcome]], catch_up: Any
) -> None:
    definition = replace(plan.definition, catch_up=catch_up)
    outage = (START + 10 * MINUTE, START + 40 * MINUTE)
    life = an_hour(Plan("s", definition, None), run=run, outages=[outage])
    report = check(life)
    assert report.is_clean, str(report)


def test_a_pause_is_itself_the_entry_of_what_lies_in_it() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.change(UID, partial(status.pause, by="anna"))
    world.go_to(START + 50 * MINUTE)
    world.change(UID, status.resume)
    world.go_to(START + HOUR)
    report = check(world.life(UID))
    assert report.is_clean, str(report)
    assert report.slots == 11 + 10


def test_an_edit_ends_one_grid_and_begins_another() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    new = a_plan(Cron(parse_cron("*/5 * * * *")))
    world.change(UID, lambda schedule, now, shared: edit(schedule, new, now, shared))
    world.go_to(START + HOUR)
    report = check(world.life(UID))
    assert report.is_clean, str(report)
    assert report.slots == 11 + 10


def test_a_deleted_schedule_is_checked_until_its_deletion() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.change(UID, partial(status.end, cancel_running=False, by="anna"))
    life = replace(world.life(UID), state=None)
    assert check(life).is_clean
    assert only(check(replace(life, jobs=jobs_of(life)[:-1])), "lost") == [START + 10 * MINUTE]


def test_a_year_of_seconds_is_checked_by_its_ranges() -> None:
    world = a_world(a_plan(Every(1, "1s"), catch_up="skip"), outages=[(START + 1, START + 365 * DAY)])
    world.go_to(START + 365 * DAY)
    report = check(world.life(UID), now=world.now)
    assert report.is_clean, str(report)
    assert report.slots == 365 * 86_400 + 1


# -- slots --


def test_a_job_that_is_gone_leaves_its_slot_lost() -> None:
    life = an_hour()
    kept = [job for job in life.jobs if job.slot_at != START + 5 * MINUTE]
    assert only(check(replace(life, jobs=kept)), "lost") == [START + 5 * MINUTE]


def test_a_skip_that_is_gone_leaves_its_slot_lost() -> None:
    life = an_hour(run=three_minutes)
    skips = [r for r in life.events if r.event.type == "schedule.skipped"]
    kept = [r for r in life.events if r is not skips[3]]
    assert only(check(replace(life, events=kept)), "lost") == [skips[3].event.slot_at]


def test_a_row_that_jumped_ahead_lost_what_it_jumped_over() -> None:
    life = an_hour()
    assert life.state is not None and life.state.next_slot_at is not None
    ahead = life.state.next_slot_at + 2 * MINUTE
    report = check(with_state(life, next_slot_at=ahead, next_run_at=ahead))
    assert only(report, "lost") == [START + 61 * MINUTE, START + 62 * MINUTE]


def test_many_lost_slots_are_told_by_examples_and_a_number() -> None:
    life = an_hour()
    lost = check(replace(life, jobs=[])).of("lost")
    assert len(lost) == 20 + 1
    assert "and 41 more" in lost[20].sentence


def test_two_jobs_of_one_slot_are_a_double() -> None:
    life = an_hour()
    jobs = jobs_of(life)
    twin = jobs[5]._replace(row_id=999, job_id="sched-twin")
    assert only(check(replace(life, jobs=[*jobs, twin])), "doubled") == [START + 5 * MINUTE]


def test_a_job_and_a_skip_of_one_slot_are_a_double() -> None:
    life = with_event(an_hour(), skipped(START + 5 * MINUTE))
    assert only(check(life), "doubled") == [START + 5 * MINUTE]


def test_a_held_slot_that_has_an_entry_is_a_double() -> None:
    life = with_state(an_hour(), held_slot_at=START + 5 * MINUTE)
    assert "doubled" in {fault.kind for fault in check(life).faults}


def test_an_entry_beside_the_grid_is_extra() -> None:
    life = with_event(an_hour(), skipped(START + 5 * MINUTE + SECOND))
    assert only(check(life), "extra") == [START + 5 * MINUTE + SECOND]


def test_a_job_inside_a_pause_is_extra() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.change(UID, partial(status.pause, by="anna"))
    life = world.life(UID)
    inside = jobs_of(life)[0]._replace(
        row_id=99, job_id="x", slot_at=START + 15 * MINUTE, due_at=START + 15 * MINUTE
    )
    inside = inside._replace(created_at=START + 15 * MINUTE)
    assert only(check(replace(life, jobs=[*life.jobs, inside])), "extra") == [START + 15 * MINUTE]


def test_a_job_inside_a_span_of_the_system_switch_is_extra() -> None:
    life = an_hour()
    system = [
        Recorded(50, Event("system.paused", START + 10 * MINUTE + SECOND)),
        Recorded(51, Event("system.resumed", START + 12 * MINUTE)),
    ]
    assert only(check(life, system=system), "extra") == [START + 11 * MINUTE, START + 12 * MINUTE]


def test_slots_inside_a_span_of_the_system_switch_need_no_entry() -> None:
    life = an_hour()
    kept = [job for job in life.jobs if not START + 10 * MINUTE < job.slot_at <= START + 12 * MINUTE]
    system = [
        Recorded(50, Event("system.paused", START + 10 * MINUTE + SECOND)),
        Recorded(51, Event("system.resumed", START + 12 * MINUTE)),
    ]
    assert check(replace(life, jobs=kept), system=system).is_clean


def test_slots_decided_before_the_clock_was_put_back_belong_to_the_stretch_that_it_ended() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.now = START + 5 * MINUTE + SECOND
    world.change(UID, partial(status.pause, by="anna"))
    life = world.life(UID)
    back = Event("scheduler.clock_stepped", world.now, detail={"from": START + 10 * MINUTE, "to": world.now})
    before_the_pause = life.events[-1].id - 0.5
    system = [Recorded(before_the_pause, back)]  # type: ignore[arg-type]
    assert check(life, system=system).is_clean
    forward = back._replace(detail={"from": world.now, "to": START + 10 * MINUTE})
    system = [Recorded(before_the_pause, forward)]  # type: ignore[arg-type]
    assert "extra" in {fault.kind for fault in check(life, system=system).faults}


# -- ranges --


def a_missed_night() -> Life:
    outage = (START + 5 * SECOND, START + 6 * HOUR)
    world = a_world(a_plan(catch_up="skip"), outages=[outage])
    world.go_to(START + 6 * HOUR)
    return world.life(UID)


def tampered(life: Life, **changes: Any) -> Life:
    """The range event of a life, changed."""
    events = [
        Recorded(r.id, r.event._replace(**changes)) if r.event.slot_count > 1 else r for r in life.events
    ]
    assert events != life.events
    return replace(life, events=events)


def test_a_range_that_counts_too_few_leaves_slots_lost() -> None:
    life = a_missed_night()
    assert check(life, now=START + 6 * HOUR).is_clean
    count = max(r.event.slot_count for r in life.events)
    assert len(only(check(tampered(life, slot_count=count - 2), now=START + 6 * HOUR), "lost")) == 2


def test_a_range_that_counts_too_many_does_not_add_up() -> None:
    life = a_missed_night()
    count = max(r.event.slot_count for r in life.events)
    assert only(check(tampered(life, slot_count=count + 2), now=START + 6 * HOUR), "range")


def test_ranges_within_each_other_share_the_slots_between_them() -> None:
    plan = a_plan(catch_up="skip", only_between=Window(0, 120))  # 22:00 to 04:00, closed until midnight
    world = a_world(plan, outages=[(START + 5 * SECOND, START + 40 * HOUR)])
    world.go_to(START + 40 * HOUR)
    life = world.life(UID)
    ranges = [r.event.detail for r in life.events if r.event.slot_count > 1]
    assert len(ranges) == 2  # the open slots lie on both sides of the closed ones
    assert check(life, now=world.now).is_clean


# -- chains --


def test_a_chain_whose_slot_does_not_follow_from_its_end_is_found() -> None:
    life = an_hour(a_plan(interval_from="completion"))
    jobs = jobs_of(life)
    late = jobs[7]._replace(ended_at=(jobs[7].ended_at or 0) + 10 * SECOND)
    report = check(replace(life, jobs=[*jobs[:7], late, *jobs[8:]]))
    assert only(report, "extra") == [jobs[8].slot_at]


def test_a_chain_that_has_stopped_is_found() -> None:
    life = with_state(an_hour(a_plan(interval_from="completion")), next_slot_at=None, next_run_at=None)
    assert any("the chain has stopped" in fault.sentence for fault in check(life).faults)


# -- rows, counters, jobs --


def test_a_row_whose_status_does_not_follow_from_its_events_is_found() -> None:
    life = with_state(an_hour(), status="paused", next_slot_at=None, next_run_at=None)
    assert "state" in {fault.kind for fault in check(life).faults}


def test_a_row_that_is_gone_without_a_deletion_is_found() -> None:
    assert "state" in {fault.kind for fault in check(replace(an_hour(), state=None)).faults}


@pytest.mark.parametrize("column", ["outstanding", "running_jobs", "waiting", "retries_waiting"])
def test_a_counter_that_does_not_follow_from_the_jobs_is_found(column: str) -> None:
    life = an_hour()
    assert life.state is not None
    wrong = with_state(life, **{column: getattr(life.state, column) + 1})
    assert only(check(wrong), "counter") == [None]


def test_limits_are_recounted_from_the_jobs_of_all() -> None:
    life = an_hour(a_plan(guard=Guard("g", 1)), run=three_minutes)
    assert check(life, limits=[Limit("g", outstanding=1)]).is_clean
    assert only(check(life, limits=[Limit("g", outstanding=2)]), "counter") == [None]
    assert only(check(life, limits=[]), "counter") == [None]


@pytest.mark.parametrize(
    "changes",
    [
        {"created_at": START},
        {"ended_at": None},
        {"attempt": 0},
    ],
    ids=repr,
)
def test_a_job_that_cannot_be_is_found(changes: dict[str, Any]) -> None:
    life = an_hour()
    jobs = jobs_of(life)
    wrong = [*jobs[:5], jobs[5]._replace(**changes), *jobs[6:]]
    assert START + 5 * MINUTE in only(check(replace(life, jobs=wrong)), "job")


def test_jobs_that_stand_behind_nobody_are_found() -> None:
    life = an_hour()
    state: State | None = life.state
    assert state is not None
    job = jobs_of(life)[-1]
    stuck = job._replace(
        status="queued", is_ready=False, ended_at=None, released_at=None, node=None, attempt=0
    )
    wrong = replace(with_state(life, outstanding=state.outstanding + 1), jobs=[*jobs_of(life)[:-1], stuck])
    assert any("behind nobody" in fault.sentence for fault in check(wrong).faults)
