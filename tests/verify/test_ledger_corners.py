"""The rarer faults that the ledger checker finds: rows ahead of their record, ranges of nobody, chains with a gap."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from everwhen.decide import status
from everwhen.decide.edit import edit
from everwhen.decide.explain import Evidence, explain_slot
from everwhen.decide.outlook import Conditions
from everwhen.model.events import Event
from everwhen.model.history import Recorded, ScheduleHistory
from everwhen.model.instants import HOUR, MINUTE, SECOND
from everwhen.model.outcome import SUCCEEDED
from everwhen.timetable.trigger import Every
from everwhen.verify.outcomes import Outcomes
from everwhen.verify.slots import slots_between
from tests.verify.test_ledger import (
    START,
    UID,
    a_plan,
    a_world,
    an_hour,
    check,
    jobs_of,
    only,
    skipped,
    with_event,
    with_state,
)


def a_chain_hour(**fields: Any) -> ScheduleHistory:
    return an_hour(a_plan(interval_from="completion", **fields))


def sentences(history: ScheduleHistory, **options: Any) -> str:
    return str(check(history, **options))


# -- the report --


def test_a_report_reads_as_a_sentence_and_its_faults() -> None:
    history = an_hour()
    assert str(check(history)) == "1 schedules, 61 slots, 61 jobs: every slot has exactly one entry"
    assert "4 faults\nextra s" in sentences(
        with_event(with_event(history, skipped(START + SECOND)), skipped(START + 2 * SECOND))
    )


def test_a_thousand_faults_are_reported_and_all_are_counted() -> None:
    history = an_hour()
    report = check(replace(history, jobs=jobs_of(history) * 20))
    assert len(report.faults) == 1_000 and report.fault_count > 1_100


# -- rows --


def test_a_row_whose_deletion_is_on_record_is_found() -> None:
    history = with_event(an_hour(), Event("schedule.deleted", START + HOUR, "s", UID))
    assert "the row is there although its deletion" in sentences(history)


def test_a_stopped_row_with_a_slot_to_come_is_found() -> None:
    assert "still has a slot to come" in sentences(with_state(an_hour(), status="paused"))


def test_a_record_without_its_beginning_is_not_asked_about_it() -> None:
    history = an_hour()
    pruned = replace(history, events=[Recorded(1, Event("schedule.updated", START + HOUR, "s", UID))])
    assert check(pruned).of("extra") == []


@pytest.mark.parametrize(
    ("next_slot_at", "next_run_at", "sentence"),
    [
        (START - MINUTE, START - MINUTE, "it was decided before"),
        (START + 61 * MINUTE + SECOND, START + 61 * MINUTE + SECOND, "the row's next slot is none"),
        (START + 61 * MINUTE, START + 62 * MINUTE, "the row says it is due at"),
    ],
)
def test_a_next_slot_that_cannot_be_is_found(next_slot_at: int, next_run_at: int, sentence: str) -> None:
    history = with_state(an_hour(), next_slot_at=next_slot_at, next_run_at=next_run_at)
    assert sentence in sentences(history)


def test_a_job_that_says_another_due_at_is_found() -> None:
    history = an_hour()
    jobs = jobs_of(history)
    wrong = jobs[5]._replace(due_at=jobs[5].due_at - SECOND)
    assert "its job says due at" in sentences(replace(history, jobs=[*jobs[:5], wrong, *jobs[6:]]))


def test_a_held_slot_that_is_none_covers_no_other() -> None:
    history = an_hour()
    kept = [job for job in jobs_of(history) if job.slot_at != START + 5 * MINUTE]
    wrong = replace(with_state(history, held_slot_at=START + SECOND), jobs=kept)
    assert START + 5 * MINUTE in [fault.slot_at for fault in check(wrong).of("lost")]


def test_a_creation_that_tells_no_anchor_is_read_as_it_stands() -> None:
    history = an_hour()
    first = history.events[0]
    bare = Recorded(first.id, first.event._replace(detail={"revision": 1}))
    assert START in [
        fault.slot_at for fault in check(replace(history, events=[bare, *history.events[1:]])).faults
    ]


def test_beyond_the_end_of_an_interval_there_are_no_slots() -> None:
    plan = a_plan(end_at=START // SECOND + 60)
    assert slots_between(plan.calendar(START), START + HOUR, START + 2 * HOUR) == ()


# -- entries --


def test_two_events_of_one_slot_are_a_double() -> None:
    history = with_event(an_hour(), skipped(START + SECOND))
    twice = replace(history, events=[*history.events, Recorded(1_000_001, skipped(START + SECOND))])
    assert "it has two events" in sentences(twice)


def test_many_entries_of_no_slot_are_reported_by_examples_and_a_number() -> None:
    history = an_hour()
    events = [Recorded(1_000 + n, skipped(START + n * MINUTE + SECOND)) for n in range(30)]
    extra = check(replace(history, events=[*history.events, *events])).of("extra")
    assert len(extra) == 21 and "and 10 more" in extra[20].sentence


def test_a_range_outside_every_stretch_is_extra() -> None:
    world = a_world()
    world.go_to(START + 10 * MINUTE)
    world.change(UID, partial(status.pause, by="anna"))
    detail = {"first": START + 20 * MINUTE, "last": START + 22 * MINUTE}
    history = with_event(world.history(UID), skipped(START + 20 * MINUTE, slot_count=3, detail=detail))
    assert only(check(history), "extra") == [START + 20 * MINUTE]


def test_a_range_may_count_slots_inside_a_span_of_the_system_switch_or_leave_them_out() -> None:
    history = an_hour()
    span = [
        Recorded(50, Event("system.paused", START + 10 * MINUTE + SECOND)),
        Recorded(51, Event("system.resumed", START + 14 * MINUTE)),
    ]
    inside = {START + n * MINUTE for n in (11, 12, 13, 14)}
    kept = [job for job in jobs_of(history) if job.slot_at not in inside]
    detail = {"first": START + 11 * MINUTE, "last": START + 14 * MINUTE}
    event = skipped(START + 11 * MINUTE, slot_count=2, detail=detail)
    counted = replace(history, jobs=kept, events=[*history.events, Recorded(52, event)])
    assert {fault.kind for fault in check(counted, system=span).faults} <= {"counter", "reason"}


# -- chains --


def test_a_chain_whose_row_went_back_is_found() -> None:
    history = with_state(a_chain_hour(), next_slot_at=START - MINUTE, next_run_at=START - MINUTE)
    assert "it was decided before" in sentences(history)


@pytest.mark.parametrize(
    ("seconds", "is_found"), [(0, True), (4 * 60, True), (5 * 60 - 1, True), (5 * 60, False), (6 * 60, False)]
)
def test_a_chain_s_slot_after_the_clock_was_put_back_is_no_earlier_than_any_end_that_it_can_follow(
    seconds: int, is_found: bool
) -> None:
    """Its run was in flight at the edit and ended after the step: the slot is that end + interval, and later (T3)."""
    plan = a_plan(interval_from="completion")
    world = a_world(plan, run=lambda job: (HOUR, SUCCEEDED))
    world.go_to(START + 10 * MINUTE)
    changed = a_plan(Every(30, "30s"), interval_from="completion")
    world.change(UID, lambda s, now, shared: edit(s, changed, now, shared))
    slot_at = START + seconds * SECOND
    history = with_state(world.history(UID), next_slot_at=slot_at, next_run_at=slot_at)
    detail = {"from": START + 20 * MINUTE, "to": START + 5 * MINUTE}
    step = Recorded(1_000_000, Event("scheduler.clock_stepped", START + 5 * MINUTE, detail=detail))
    faults = check(history, system=[step]).of("state")
    assert ("it was decided before" in " ".join(fault.sentence for fault in faults)) is is_found


def test_a_chain_with_a_gap_lost_a_slot() -> None:
    history = a_chain_hour()
    jobs = jobs_of(history)
    report = check(replace(history, jobs=[*jobs[:7], *jobs[8:]]))
    assert [fault.slot_at for fault in report.of("lost")] == [jobs[7].slot_at]


def test_a_chain_counted_anew_after_a_span_of_the_system_switch_may_be_early() -> None:
    history = a_chain_hour()
    jobs = jobs_of(history)
    late = jobs[7]._replace(ended_at=(jobs[7].ended_at or 0) + 10 * SECOND)
    span = [
        Recorded(50, Event("system.paused", jobs[7].slot_at + SECOND)),
        Recorded(51, Event("system.resumed", jobs[7].slot_at + 2 * SECOND)),
    ]
    tampered = replace(history, jobs=[*jobs[:7], late, *jobs[8:]])
    assert check(tampered).of("extra") and not check(tampered, system=span).of("extra")


def test_a_range_of_a_chain_that_counts_too_many_does_not_add_up() -> None:
    plan = a_plan(Every(7, "7s"), interval_from="completion", catch_up="skip")
    world = a_world(plan, outages=[(START + 5 * SECOND, START + 40 * MINUTE)])
    world.go_to(START + HOUR)
    history = world.history(UID)
    assert check(history).is_clean
    events = [
        Recorded(r.id, r.event._replace(slot_count=r.event.slot_count + 2)) if r.event.slot_count > 1 else r
        for r in history.events
    ]
    assert check(replace(history, events=events)).of("range")


def test_a_chain_that_was_stopped_over_its_next_slot_lost_it() -> None:
    history = with_event(a_chain_hour(), Event("schedule.paused", START + 2 * HOUR, "s", UID))
    jobs = [job for job in jobs_of(history) if job.status != "running"]
    stopped = with_state(history, status="paused", next_slot_at=None, next_run_at=None)
    report = check(replace(stopped, jobs=jobs), now=START + 2 * HOUR)
    assert any("it was the chain's next when the schedule stopped" in f.sentence for f in report.of("lost"))


# -- beside --


def test_an_earlier_failure_read_later_is_not_the_last() -> None:
    job = jobs_of(an_hour())[0]
    outcomes = Outcomes()
    for number, (ended_at, word) in enumerate([(9, "late"), (5, "early")]):
        outcomes.add(job._replace(number=number, status="failed", ended_at=ended_at, error=word))
        outcomes.add(job._replace(number=number, job_id=word, ended_at=ended_at))
    assert (outcomes.failure.texts, outcomes.success.texts) == ({"late"}, {"late"})


def test_why_passes_over_events_that_say_nothing_of_the_slots_fate() -> None:
    event = Recorded(1, Event("job.cancelled", START, "s", UID, slot_at=START, reason="person"))
    now = Conditions(START + HOUR)
    evidence = Evidence(START, START, an_hour().revisions[0], None, events=[event], conditions=now)
    assert explain_slot(evidence).fate == "unknown"
