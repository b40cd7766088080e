"""The oracle agrees with what a scheduler did, over clock changes too, and finds what was forged."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from everwhen.model.events import Event
from everwhen.model.history import Recorded, ScheduleHistory
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.store.opened import store_of
from everwhen.testing import manual_scheduler
from everwhen.testing.manual import ManualScheduler
from tests.proof.oracle import OracleVerdict, consult

# Weekends on which clocks are put forward and back by a whole hour: cronsim is the oracle there.
CHANGES = {
    "Europe/Berlin": ("2026-03-28T12:00:30Z", "2026-10-24T12:00:30Z"),
    "America/New_York": ("2026-03-07T18:00:30Z", "2026-10-31T18:00:30Z"),
    "Australia/Sydney": ("2026-04-04T03:00:30Z", "2026-10-03T03:00:30Z"),
}


def verdict_on(scheduler: ManualScheduler, forged: ScheduleHistory | None = None) -> OracleVerdict:
    with store_of(scheduler.runtime).ledger.history() as record:
        histories = record.histories if forged is None else [forged]
        return consult(histories, record.system, scheduler.clock.now())


@contextmanager
def a_scheduler(start: str = "2026-01-05T08:00:00Z") -> Iterator[ManualScheduler]:
    scheduler = manual_scheduler(start)
    try:
        yield scheduler
    finally:
        scheduler.close()


@contextmanager
def a_history(**fields: Any) -> Iterator[tuple[ManualScheduler, ScheduleHistory, list[Job]]]:
    """Provide ten minutes of one schedule, and its jobs."""
    with a_scheduler() as scheduler:
        scheduler.add("a", **fields)
        scheduler.advance("10m")
        with store_of(scheduler.runtime).ledger.history() as record:
            history = next(iter(record.histories))
            jobs = list(history.jobs)
        yield scheduler, history, jobs


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("season", [0, 1])
def test_the_scheduler_fires_what_cronsim_says_over_a_clock_change(zone: str, season: int) -> None:
    start = CHANGES[zone][season]
    draw = random.Random(f"{zone} {season}")
    with a_scheduler(start) as scheduler:
        for number in range(12):
            scheduler.add(f"s{number}", cron=hourly(draw), timezone=zone)
        scheduler.advance("30h")
        verdict = verdict_on(scheduler)
        assert verdict.faults == []
        assert verdict.slots["cron"] > 100
        assert len(scheduler.jobs()) == sum(verdict.slots.values())


def hourly(draw: random.Random) -> str:
    """Return an expression that matches often enough to be tried in a day."""
    minute = draw.choice(("*/20", "0", "30", "5-50/15", "*/45", "59", "0,2,4"))
    hour = draw.choice(("*", "*/2", "1-3", "2", "0-23/2", "1,2,3,4"))
    return f"{minute} {hour} * * {draw.choice(('*', '0-6'))}"


@pytest.mark.parametrize(
    "fields",
    [
        {"every": "10s"},
        {"every": "7s", "jitter": "3s"},
        {"every": "30s", "start_at": "2026-01-05T08:02:03Z", "end_at": "2026-01-05T08:06:00Z"},
        {"every": "20s", "interval_from": "completion"},
        {"every": "monthly"},
        {"at": "2026-01-05T08:03:00.5Z"},
        {"after": "90s"},
        {"cron": "*/2 * * * *"},
    ],
    ids=str,
)
def test_every_trigger_is_as_arithmetic_says_through_pauses_edits_and_outages(fields: dict[str, Any]) -> None:
    with a_history(**fields) as (scheduler, _, _):
        assert verdict_on(scheduler).faults == []
        if scheduler.state("a").status == "done":
            return
        scheduler.pause("a")
        scheduler.advance("65s")
        scheduler.resume("a")
        scheduler.advance("5m")
        scheduler.edit("a", **{**fields, "catch_up": "run_all"})
        scheduler.advance("3m")
        scheduler.sleep("4m")
        scheduler.step()
        scheduler.pause_system()
        scheduler.advance("1m")
        scheduler.resume_system()
        scheduler.advance("3m")
        assert verdict_on(scheduler).faults == []


def test_slots_that_are_counted_together_are_counted_right() -> None:
    with a_scheduler() as scheduler:
        scheduler.add("missed", every="1s", catch_up="skip")
        scheduler.add("caught", every="1s", catch_up="run_once")
        scheduler.add("closed", every="1s", only_between="08:00-08:10")
        scheduler.advance("20s")
        scheduler.sleep("20m")
        scheduler.step()
        scheduler.advance("20s")
        assert verdict_on(scheduler).faults == []


# -- forged records --


def sentences(scheduler: ManualScheduler, history: ScheduleHistory, jobs: Sequence[Job]) -> list[str]:
    return verdict_on(scheduler, replace(history, jobs=jobs)).faults


def test_a_slot_without_an_entry_is_found() -> None:
    with a_history(every="10s") as (scheduler, history, jobs):
        (fault,) = sentences(scheduler, history, [*jobs[:30], *jobs[31:]])
        assert fault.endswith("2026-01-05T08:05:00+00:00 has no entry")


def test_a_slot_with_two_entries_is_found() -> None:
    with a_history(every="10s") as (scheduler, history, jobs):
        (fault,) = sentences(scheduler, history, [*jobs, jobs[30]])
        assert fault.endswith("2026-01-05T08:05:00+00:00 has 2 entries")


def test_an_entry_that_is_no_slot_is_found() -> None:
    with a_history(every="10s") as (scheduler, history, jobs):
        moved = jobs[30]._replace(slot_at=jobs[30].slot_at + SECOND)
        found = sentences(scheduler, history, [*jobs[:30], moved, *jobs[31:]])
        assert [fault.rpartition("+00:00 ")[2] for fault in found] == [
            "has an entry, and is no slot",
            "has no entry",
        ]


def test_a_range_that_counts_too_many_slots_is_found() -> None:
    with a_history(every="10s") as (scheduler, history, jobs):
        gone = jobs[20:40]
        detail = {"first": gone[0].slot_at, "last": gone[-1].slot_at}
        events = [
            *history.events,
            Recorded(9_999, Event("schedule.missed", jobs[40].created_at, "a", history.uid, detail=detail)),
        ]
        for count, is_right in ((20, True), (21, False)):
            event = events[-1].event._replace(slot_at=gone[0].slot_at, slot_count=count, reason="down")
            record = replace(history, events=[*events[:-1], Recorded(9_999, event)])
            found = sentences(scheduler, record, [*jobs[:20], *jobs[40:]])
            assert (found == []) is is_right


def test_a_chain_that_does_not_follow_from_its_ends_is_found() -> None:
    with a_history(every="20s", interval_from="completion") as (scheduler, history, jobs):
        late = jobs[10]._replace(ended_at=(jobs[10].ended_at or 0) + 2 * SECOND)
        (fault,) = sentences(scheduler, history, [*jobs[:10], late, *jobs[11:]])
        assert "follows" in fault


def test_a_job_with_another_jitter_is_found() -> None:
    with a_history(every="10s", jitter="5s") as (scheduler, history, jobs):
        other = jobs[10]._replace(due_at=jobs[10].due_at + 1_000)
        (fault,) = sentences(scheduler, history, [*jobs[:10], other, *jobs[11:]])
        assert "was due at" in fault
