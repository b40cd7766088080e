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
from everwhen.decide.edit import edit
from everwhen.model.events import Event
from everwhen.model.history import Breakers, History, Recorded, ScheduleHistory
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.job import Job, JobStatus, Line, Origin
from everwhen.model.limits import Breaker, BreakerState, Limit, Transition
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.policy import Guard, OnExhausted
from everwhen.model.schedule import Definition, Plan, State, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, Trigger
from everwhen.timetable.windows import Window
from everwhen.verify.entries import Kind
from everwhen.verify.ledger import LedgerReport, check_ledger
from everwhen.verify.outcomes import NumberRange, Outcomes
from tests.stateful.small_world import SmallWorld

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


def an_hour(plan: Plan | None = None, **options: Any) -> ScheduleHistory:
    """The record of a schedule's first hour."""
    world = a_world(plan, **options)
    world.go_to(START + HOUR)
    return world.history(UID)


def check(
    history: ScheduleHistory, *, now: int = START + HOUR, system: Sequence[Recorded] = (), limits: Any = None
) -> LedgerReport:
    return check_ledger(History([history], system, limits), now)


def only(report: LedgerReport, kind: Kind) -> list[int | None]:
    """The slots of the faults, which are all of that kind.

    A job that is gone is missing in the counts, too, and an entry that was put in has no true reason.
    """
    kinds = {fault.kind for fault in report.faults}
    assert report.faults and kinds - {"counter", "reason"} <= {kind}, str(report)
    return [fault.slot_at for fault in report.faults if fault.kind == kind]


def jobs_of(history: ScheduleHistory) -> list[Job]:
    return list(history.jobs)


def with_state(history: ScheduleHistory, **changes: Any) -> ScheduleHistory:
    assert history.state is not None
    return replace(history, state=history.state._replace(**changes))


def with_event(history: ScheduleHistory, event: Event) -> ScheduleHistory:
    return replace(history, events=[*history.events, Recorded(1_000_000, event)])


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
    history = an_hour(Plan("s", definition, None), run=run, outages=[outage])
    report = check(history)
    assert report.is_clean, str(report)


def test_a_pause_is_itself_the_entry_of_what_lies_in_it() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.change(UID, partial(status.pause, by="anna"))
    world.go_to(START + 50 * MINUTE)
    world.change(UID, status.resume)
    world.go_to(START + HOUR)
    report = check(world.history(UID))
    assert report.is_clean, str(report)
    assert report.slots == 11 + 10


def test_an_edit_ends_one_grid_and_begins_another() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    new = a_plan(Cron(parse_cron("*/5 * * * *")))
    world.change(UID, lambda schedule, now, shared: edit(schedule, new, now, shared))
    world.go_to(START + HOUR)
    report = check(world.history(UID))
    assert report.is_clean, str(report)
    assert report.slots == 11 + 10


def test_a_deleted_schedule_is_checked_until_its_deletion() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.change(UID, partial(status.delete, cancel_running=False, by="anna"))
    history = replace(world.history(UID), state=None)
    assert check(history).is_clean
    assert only(check(replace(history, jobs=jobs_of(history)[:-1])), "lost") == [START + 10 * MINUTE]


def test_a_year_of_seconds_is_checked_by_its_ranges() -> None:
    world = a_world(a_plan(Every(1, "1s"), catch_up="skip"), outages=[(START + 1, START + 365 * DAY)])
    world.go_to(START + 365 * DAY)
    report = check(world.history(UID), now=world.now)
    assert report.is_clean, str(report)
    assert report.slots == 365 * 86_400 + 1


# -- slots --


def test_a_job_that_is_gone_leaves_its_slot_lost() -> None:
    history = an_hour()
    kept = [job for job in history.jobs if job.slot_at != START + 5 * MINUTE]
    assert only(check(replace(history, jobs=kept)), "lost") == [START + 5 * MINUTE]


def test_a_skip_that_is_gone_leaves_its_slot_lost() -> None:
    history = an_hour(run=three_minutes)
    skips = [r for r in history.events if r.event.type == "schedule.skipped"]
    kept = [r for r in history.events if r is not skips[3]]
    assert only(check(replace(history, events=kept)), "lost") == [skips[3].event.slot_at]


def test_a_row_that_jumped_ahead_lost_what_it_jumped_over() -> None:
    history = an_hour()
    assert history.state is not None and history.state.next_slot_at is not None
    ahead = history.state.next_slot_at + 2 * MINUTE
    report = check(with_state(history, next_slot_at=ahead, next_run_at=ahead))
    assert only(report, "lost") == [START + 61 * MINUTE, START + 62 * MINUTE]


def test_many_lost_slots_are_reported_by_examples_and_a_number() -> None:
    history = an_hour()
    lost = check(replace(history, jobs=[])).of("lost")
    assert len(lost) == 20 + 1
    assert "and 41 more" in lost[20].sentence


def test_two_jobs_of_one_slot_are_a_double() -> None:
    history = an_hour()
    jobs = jobs_of(history)
    twin = jobs[5]._replace(row_id=999, job_id="sched-twin")
    assert only(check(replace(history, jobs=[*jobs, twin])), "doubled") == [START + 5 * MINUTE]


def test_a_job_and_a_skip_of_one_slot_are_a_double() -> None:
    history = with_event(an_hour(), skipped(START + 5 * MINUTE))
    assert only(check(history), "doubled") == [START + 5 * MINUTE]


def test_a_held_slot_that_has_an_entry_is_a_double() -> None:
    history = with_state(an_hour(), held_slot_at=START + 5 * MINUTE)
    assert "doubled" in {fault.kind for fault in check(history).faults}


def test_an_entry_beside_the_grid_is_extra() -> None:
    history = with_event(an_hour(), skipped(START + 5 * MINUTE + SECOND))
    assert only(check(history), "extra") == [START + 5 * MINUTE + SECOND]


def test_a_job_inside_a_pause_is_extra() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.change(UID, partial(status.pause, by="anna"))
    history = world.history(UID)
    inside = jobs_of(history)[0]._replace(
        row_id=99, job_id="x", slot_at=START + 15 * MINUTE, due_at=START + 15 * MINUTE
    )
    inside = inside._replace(created_at=START + 15 * MINUTE)
    assert only(check(replace(history, jobs=[*history.jobs, inside])), "extra") == [START + 15 * MINUTE]


def test_a_job_inside_a_span_of_the_system_switch_is_extra() -> None:
    history = an_hour()
    system = [
        Recorded(50, Event("system.paused", START + 10 * MINUTE + SECOND)),
        Recorded(51, Event("system.resumed", START + 12 * MINUTE)),
    ]
    assert only(check(history, system=system), "extra") == [START + 11 * MINUTE, START + 12 * MINUTE]


def test_slots_inside_a_span_of_the_system_switch_need_no_entry() -> None:
    history = an_hour()
    kept = [job for job in history.jobs if not START + 10 * MINUTE < job.slot_at <= START + 12 * MINUTE]
    system = [
        Recorded(50, Event("system.paused", START + 10 * MINUTE + SECOND)),
        Recorded(51, Event("system.resumed", START + 12 * MINUTE)),
    ]
    assert {fault.kind for fault in check(replace(history, jobs=kept), system=system).faults} <= {"counter"}


def test_slots_decided_before_the_clock_was_put_back_belong_to_the_stretch_that_it_ended() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.now = START + 5 * MINUTE + SECOND
    world.change(UID, partial(status.pause, by="anna"))
    history = world.history(UID)
    back = Event("scheduler.clock_stepped", world.now, detail={"from": START + 10 * MINUTE, "to": world.now})
    before_the_pause = history.events[-1].id - 0.5
    system = [Recorded(before_the_pause, back)]  # type: ignore[arg-type]
    assert check(history, system=system).is_clean
    forward = back._replace(detail={"from": world.now, "to": START + 10 * MINUTE})
    system = [Recorded(before_the_pause, forward)]  # type: ignore[arg-type]
    assert "extra" in {fault.kind for fault in check(history, system=system).faults}


@pytest.mark.parametrize(
    ("noticed_after", "since_after", "reaches", "extra"),
    [
        (800_000, -200_000, 10, []),
        (800_000, 0, 10, []),
        (800_000, 1, 10, [6, 7, 8, 9, 10]),  # the clock was put back after the pause
        (9 * SECOND, -SECOND, 10, []),  # a scheduler that seldom looks
        (800_000, -200_000, 8, [9, 10]),  # the clock had never shown these
        (2 * SECOND, None, 10, []),
        (2 * SECOND + 1, None, 10, [6, 7, 8, 9, 10]),  # an event that does not say it: two seconds
    ],
)
def test_a_step_that_was_noticed_after_a_pause_explains_only_slots_that_it_can_have_preceded(
    noticed_after: int, since_after: int | None, reaches: int, extra: list[int]
) -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    paused_at = world.now = START + 5 * MINUTE + SECOND
    world.change(UID, partial(status.pause, by="anna"))
    history = world.history(UID)
    to = paused_at + noticed_after
    detail: dict[str, object] = {"from": START + reaches * MINUTE, "to": to}
    if since_after is not None:
        detail["since_at"] = paused_at + since_after
    system = [Recorded(history.events[-1].id + 1, Event("scheduler.clock_stepped", to, detail=detail))]
    found = [fault.slot_at for fault in check(history, system=system).faults if fault.kind == "extra"]
    assert found == [START + minute * MINUTE for minute in extra]


def test_what_retention_took_does_not_hide_what_was_decided_before_the_clock_was_put_back() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.now = START + 5 * MINUTE + SECOND
    world.change(UID, partial(status.pause, by="anna"))
    history = world.history(UID)
    back = Event("scheduler.clock_stepped", world.now, detail={"from": START + 10 * MINUTE, "to": world.now})
    system = [Recorded(history.events[-1].id - 0.5, back)]  # type: ignore[arg-type]
    kept = replace(history, jobs=[job for job in history.jobs if job.slot_at >= START + 8 * MINUTE])
    retained = History([kept], system, retained_from=START + 8 * MINUTE)
    assert check_ledger(retained, world.now).is_clean


# -- ranges --


def a_missed_night() -> ScheduleHistory:
    outage = (START + 5 * SECOND, START + 6 * HOUR)
    world = a_world(a_plan(catch_up="skip"), outages=[outage])
    world.go_to(START + 6 * HOUR)
    return world.history(UID)


def tampered(history: ScheduleHistory, **changes: Any) -> ScheduleHistory:
    """The range event of a life, changed."""
    events = [
        Recorded(r.id, r.event._replace(**changes)) if r.event.slot_count > 1 else r for r in history.events
    ]
    assert events != history.events
    return replace(history, events=events)


def test_a_range_that_counts_too_few_leaves_slots_lost() -> None:
    history = a_missed_night()
    assert check(history, now=START + 6 * HOUR).is_clean
    count = max(r.event.slot_count for r in history.events)
    assert len(only(check(tampered(history, slot_count=count - 2), now=START + 6 * HOUR), "lost")) == 2


def test_a_range_that_counts_too_many_does_not_add_up() -> None:
    history = a_missed_night()
    count = max(r.event.slot_count for r in history.events)
    assert only(check(tampered(history, slot_count=count + 2), now=START + 6 * HOUR), "range")


def test_ranges_within_each_other_share_the_slots_between_them() -> None:
    plan = a_plan(catch_up="skip", only_between=Window(0, 120))  # 22:00 to 04:00, closed until midnight
    world = a_world(plan, outages=[(START + 5 * SECOND, START + 40 * HOUR)])
    world.go_to(START + 40 * HOUR)
    history = world.history(UID)
    ranges = [r.event.detail for r in history.events if r.event.slot_count > 1]
    assert len(ranges) == 2  # the open slots lie on both sides of the closed ones
    assert check(history, now=world.now).is_clean


# -- chains --


def test_a_chain_whose_slot_does_not_follow_from_its_end_is_found() -> None:
    history = an_hour(a_plan(interval_from="completion"))
    jobs = jobs_of(history)
    late = jobs[7]._replace(ended_at=(jobs[7].ended_at or 0) + 10 * SECOND)
    report = check(replace(history, jobs=[*jobs[:7], late, *jobs[8:]]))
    assert only(report, "extra") == [jobs[8].slot_at]


def test_a_chain_that_has_stopped_is_found() -> None:
    history = with_state(an_hour(a_plan(interval_from="completion")), next_slot_at=None, next_run_at=None)
    assert any("the chain has stopped" in fault.sentence for fault in check(history).faults)


# -- rows, counters, jobs --


def test_a_row_whose_status_does_not_follow_from_its_events_is_found() -> None:
    history = with_state(an_hour(), status="paused", next_slot_at=None, next_run_at=None)
    assert "state" in {fault.kind for fault in check(history).faults}


def test_a_row_that_is_gone_without_a_deletion_is_found() -> None:
    assert "state" in {fault.kind for fault in check(replace(an_hour(), state=None)).faults}


@pytest.mark.parametrize("column", ["outstanding", "running_jobs", "waiting", "retries_waiting"])
def test_a_counter_that_does_not_follow_from_the_jobs_is_found(column: str) -> None:
    history = an_hour()
    assert history.state is not None
    wrong = with_state(history, **{column: getattr(history.state, column) + 1})
    assert only(check(wrong), "counter") == [None]


def test_limits_are_recounted_from_the_jobs_of_all() -> None:
    history = an_hour(a_plan(guard=Guard("g", 1)), run=three_minutes)
    assert check(history, limits=[Limit("g", outstanding=1)]).is_clean
    assert only(check(history, limits=[Limit("g", outstanding=2)]), "counter") == [None]
    assert only(check(history, limits=[]), "counter") == [None]


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
    history = an_hour()
    jobs = jobs_of(history)
    wrong = [*jobs[:5], jobs[5]._replace(**changes), *jobs[6:]]
    assert START + 5 * MINUTE in only(check(replace(history, jobs=wrong)), "job")


def test_jobs_that_stand_behind_nobody_are_found() -> None:
    history = an_hour()
    state: State | None = history.state
    assert state is not None
    job = jobs_of(history)[-1]
    stuck = job._replace(
        status="queued", is_ready=False, ended_at=None, released_at=None, node=None, attempt=0
    )
    wrong = replace(
        with_state(history, outstanding=state.outstanding + 1), jobs=[*jobs_of(history)[:-1], stuck]
    )
    assert any("behind nobody" in fault.sentence for fault in check(wrong).faults)


def with_jobs(history: ScheduleHistory, **changes: Any) -> ScheduleHistory:
    """The same record with the last job that has ended changed."""
    jobs = jobs_of(history)
    return replace(history, jobs=[*jobs[:-2], jobs[-2]._replace(**changes), jobs[-1]])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"released_at": None}, "is over and was never let go of"),
        ({"status": "cancelled", "node": None, "released_at": None}, "is over and was never let go of"),
        ({"status": "queued", "node": None, "ended_at": None}, "is queued and was let go of"),
        (
            {"status": "running", "ended_at": None, "released_at": None, "ready_at": 1},
            "runs and may be claimed",
        ),
        ({"status": "running", "ended_at": None, "released_at": None, "is_counted": False}, "takes no place"),
        ({"status": "running", "ended_at": None, "released_at": None, "node": None}, "runs nowhere"),
        ({"status": "running", "ended_at": None}, "is running and was let go of"),
        ({"status": "queued", "released_at": None}, "is queued and has ended"),
    ],
)
def test_a_job_between_two_states_is_found(changes: dict[str, Any], sentence: str) -> None:
    faults = check(with_jobs(an_hour(), **changes), now=START + HOUR + MINUTE).of("job")
    assert any(sentence in fault.sentence for fault in faults), [f.sentence for f in faults]


@pytest.mark.parametrize("status", ["cancelled", "timed_out"])
def test_a_worker_may_go_on_when_its_job_is_over(status: Any) -> None:
    history = an_hour(run=a_second)
    jobs = jobs_of(history)
    held = jobs[-2]._replace(status=status, released_at=None)
    assert check(replace(history, jobs=[*jobs[:-2], held, jobs[-1]])).of("job") == []


# -- counts of outcomes --


def fails_twice(job: Job) -> tuple[int, Outcome]:
    """Two failures, then successes, then two failures at the end of the hour."""
    minute = (job.slot_at - START) // MINUTE
    is_bad = minute in (3, 4, 57, 58)
    return SECOND, Outcome("failed", error=f"no luck at {minute}") if is_bad else SUCCEEDED


def a_mixed_hour() -> ScheduleHistory:
    return an_hour(a_plan(end_at=START // SECOND + 59 * 60), run=fails_twice)


def test_counts_of_outcomes_that_are_right_are_clean() -> None:
    history = a_mixed_hour()
    assert check(history).is_clean
    state = history.state
    assert state is not None
    assert (state.run_count, state.error_count, state.current_repeat, state.failed_slots) == (55, 4, 55, 2)
    assert state.last_error == "no luck at 58"


@pytest.mark.parametrize(
    "column",
    [
        "run_count",
        "error_count",
        "current_repeat",
        "failed_slots",
        "fire_count",
        "last_fired_at",
        "last_run_at",
        "last_completed_at",
        "last_success_at",
    ],
)
@pytest.mark.parametrize("by", [-1, 1])
def test_a_number_that_does_not_follow_from_the_outcomes_is_found(column: str, by: int) -> None:
    history = a_mixed_hour()
    assert history.state is not None
    report = check(with_state(history, **{column: getattr(history.state, column) + by}))
    assert [column in fault.sentence for fault in report.of("counter")] == [True], str(report)


@pytest.mark.parametrize("column", ["last_success_job_id", "last_error"])
@pytest.mark.parametrize("word", [None, "another"])
def test_a_word_about_the_last_outcome_that_is_not_on_record_is_found(column: str, word: str | None) -> None:
    report = check(with_state(a_mixed_hour(), **{column: word}))
    assert [column in fault.sentence for fault in report.of("counter")] == [True], str(report)


def test_a_success_that_nobody_had_is_found() -> None:
    history = an_hour(a_plan(end_at=START // SECOND + 60), run=lambda job: (SECOND, Outcome("failed")))
    assert check(history).is_clean
    assert len(check(with_state(history, last_success_job_id="nobody")).of("counter")) == 1


def test_what_retention_has_taken_is_not_counted() -> None:
    history = a_mixed_hour()
    kept = [job for job in history.jobs if job.slot_at > START + 30 * MINUTE]
    record = History([replace(history, jobs=kept)], retained_from=START + 30 * MINUTE + 1)
    assert check_ledger(record, START + HOUR).is_clean


def test_ends_at_one_instant_may_have_come_in_any_order() -> None:
    def stop(_at: int) -> OnExhausted:
        return "stop"

    outcomes = Outcomes()
    ends: tuple[JobStatus, ...] = ("failed", "failed", "succeeded")
    for number, end in enumerate(ends):
        job = jobs_of(an_hour())[0]._replace(number=number, job_id=f"j{number}", status=end, ended_at=9)
        outcomes.add(job)
    repeat, retry = outcomes.in_a_row([], stop)
    assert (str(repeat), str(retry)) == ("1", "0 to 2")
    repeat, retry = outcomes.in_a_row([9], stop)
    assert (str(repeat), str(retry)) == ("0 to 1", "0 to 2")
    assert outcomes.in_a_row([10], stop) == (NumberRange(), NumberRange())


@pytest.mark.parametrize(("behind", "is_clean"), [(SECOND, True), (2 * MINUTE, False), (-SECOND, False)])
def test_of_several_nodes_the_later_start_may_have_been_written_first(behind: int, is_clean: bool) -> None:
    history = a_mixed_hour()
    jobs = [job._replace(node=f"node-{job.number % 2}") for job in history.jobs]
    assert history.state is not None and history.state.last_run_at is not None
    history = with_state(replace(history, jobs=jobs), last_run_at=history.state.last_run_at - behind)
    assert check(history).is_clean is is_clean


def test_a_row_is_counted_from_its_revival_on() -> None:
    world = a_world(a_plan(total_repeats=5))
    world.go_to(START + 10 * MINUTE)
    world.change(UID, status.revive)
    world.go_to(START + 13 * MINUTE)
    history = world.history(UID)
    assert check(history, now=world.now).is_clean
    assert history.state is not None and history.state.current_repeat < history.state.run_count


def test_a_repeated_attempt_is_no_end_of_its_slot() -> None:
    world = a_world(
        a_plan(Every(3_600, "1h"), max_retries=3, retry_delay=MINUTE),
        run=lambda job: (SECOND, SUCCEEDED if job.retry == 2 else Outcome("failed")),
    )
    for minutes in (1, 2, 5):
        world.go_to(START + minutes * MINUTE)
        report = check(world.history(UID), now=world.now)
        assert report.is_clean, str(report)


def always_failing(rule: OnExhausted, until: int) -> ScheduleHistory:
    """Retries after 1 and 3 minutes, then they are used up."""
    plan = a_plan(Every(600, "10m"), max_retries=2, retry_delay=MINUTE, on_exhausted=rule)
    world = a_world(plan, run=lambda job: (SECOND, Outcome("failed")))
    world.go_to(START + until)
    return world.history(UID)


@pytest.mark.parametrize("rule", ["continue", "stop"])
@pytest.mark.parametrize("minutes", [2, 6, 12, 26])
def test_what_retries_and_failed_slots_come_to_is_proved_for_both_rules(
    rule: OnExhausted, minutes: int
) -> None:
    history, now = always_failing(rule, minutes * MINUTE), START + minutes * MINUTE
    assert check(history, now=now).is_clean
    assert history.state is not None
    for column in ("current_retry", "failed_slots"):
        report = check(with_state(history, **{column: getattr(history.state, column) + 1}), now=now)
        assert [column in fault.sentence for fault in report.of("counter")] == [True], str(report)


def test_a_retry_that_is_cancelled_gives_its_slot_up() -> None:
    plan = a_plan(Every(600, "10m"), max_retries=2, retry_delay=MINUTE)
    world = a_world(plan, run=lambda job: (SECOND, Outcome("failed")))
    world.go_to(START + 2 * MINUTE)
    world.change(UID, partial(status.pause, by="anna"))
    history = world.history(UID)
    assert history.state is not None and (history.state.current_retry, history.state.failed_slots) == (0, 0)
    assert check(history, now=world.now).is_clean


def test_what_the_release_before_counted_is_not_held_against_the_rules_of_this_one() -> None:
    """It counted failures in a row where there were no retries, and knew no failed slots."""
    history = with_state(a_mixed_hour(), current_retry=2, failed_slots=0)
    assert {fault.kind for fault in check(history).faults} == {"counter"}
    for ruled_from, is_clean in (
        (START + HOUR, True),
        (START + 58 * MINUTE, True),
        (START + 56 * MINUTE, False),
    ):
        report = check_ledger(History([history], ruled_from=ruled_from), START + HOUR)
        assert report.is_clean is is_clean, str(report)


def test_a_death_that_on_exhausted_forbids_is_found() -> None:
    history, now = always_failing("stop", 6 * MINUTE), START + 6 * MINUTE
    assert history.state is not None and history.state.status == "dead"
    (first,) = history.revisions
    forbids = a_plan(Every(600, "10m"), max_retries=2, retry_delay=MINUTE)
    history = with_state(replace(history, revisions=[first._replace(plan=forbids)]), current_retry=0)
    report = check(history, now=now)
    assert [fault.sentence for fault in report.faults] == ["it died although on_exhausted says continue"]


# -- lines --


@pytest.mark.parametrize("line", ["own", "catch_up", "backfill"])
def test_a_line_that_nobody_calls_is_found(line: Line) -> None:
    history = an_hour()
    assert history.state is not None
    origin: Origin = "backfill" if line == "backfill" else "schedule"
    waiting = jobs_of(history)[-1]._replace(
        row_id=99, job_id="w", number=1, line=line, origin=origin, status="queued", ready_at=None, node=None
    )
    waiting = waiting._replace(ended_at=None, released_at=None, fence=0, slot_at=START + 30 * SECOND)
    sentences = [f.sentence for f in check(replace(history, jobs=[*jobs_of(history), waiting])).faults]
    is_called = any(f"line {line} stand behind nobody" in sentence for sentence in sentences)
    assert is_called == (line != "own")  # the schedule's own run is under way, and calls its line
    idle = replace(history, jobs=[*jobs_of(history)[:-1], waiting])
    assert any(f"line {line} stand behind nobody" in f.sentence for f in check(idle).faults)


@pytest.mark.parametrize("line", ["own", "catch_up", "backfill"])
def test_two_runs_of_one_line_are_found(line: Line) -> None:
    history = an_hour(run=three_minutes)
    running = next(job for job in history.jobs if job.status == "running")._replace(line=line)
    twin = running._replace(row_id=99, job_id="twin", slot_at=START + 30 * SECOND)
    others = [job for job in history.jobs if job.status != "running"]
    faults = check(replace(history, jobs=[*others, running, twin])).of("job")
    assert any(f"2 jobs of the line {line} run at once" in fault.sentence for fault in faults)


# -- breakers --

CLOSED = Breaker("b")
OPENED = Breaker("b", "open", 3, opened_at=START)
PROBED = Breaker("b", "half_open", 3, opened_at=START, probe_job_id="probe")


def a_change(to_state: BreakerState) -> Transition:
    return Transition("b", "closed", to_state, "failure_threshold", 3, None, START)


def check_breaker(breaker: Breaker, *changes: Transition, retained_from: int = 0) -> list[str]:
    history = an_hour()
    probe = jobs_of(history)[-1]._replace(
        row_id=99, job_id="probe", origin="manual", is_probe=True, status="queued", ended_at=None
    )
    probe = probe._replace(released_at=None, node=None, ready_at=START, line=None)
    record = History(
        [replace(history, jobs=[*history.jobs, probe])],
        (),
        None,
        retained_from,
        Breakers([breaker], list(changes)),
    )
    return [f.sentence for f in check_ledger(record, START + HOUR).of("breaker")]


@pytest.mark.parametrize("breaker", [CLOSED, OPENED, PROBED])
def test_a_breaker_that_follows_from_its_record_is_clean(breaker: Breaker) -> None:
    assert check_breaker(breaker, a_change(breaker.state)) == []


@pytest.mark.parametrize(
    ("breaker", "changes", "sentence"),
    [
        (CLOSED, ["open"], "its last change on record made it open"),
        (OPENED, [], "no change of it is on record"),
        (PROBED._replace(probe_job_id=None), ["half_open"], "has no probe"),
        (PROBED._replace(probe_job_id="settled"), ["half_open"], "probe settled, which is not outstanding"),
        (OPENED._replace(probe_job_id="probe"), ["open"], "is open and has a probe"),
        (OPENED._replace(opened_at=None), ["open"], "says it opened at None"),
        (CLOSED._replace(opened_at=START), ["closed"], f"says it opened at {START}"),
    ],
)
def test_a_breaker_that_cannot_be_is_found(breaker: Breaker, changes: list[Any], sentence: str) -> None:
    (found,) = check_breaker(breaker, *map(a_change, changes))
    assert sentence in found


def test_changes_of_a_breaker_may_have_been_forgotten() -> None:
    assert check_breaker(OPENED, retained_from=START + 2 * HOUR) == []
