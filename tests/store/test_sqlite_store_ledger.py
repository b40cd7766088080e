"""The ledger on SQLite: what it reads is what was written, in pages, by the indexes that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from everwhen.model.instants import HOUR, MINUTE, SECOND
from everwhen.model.limits import Breaker
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.policy import BreakerRule
from everwhen.model.queries import Counts, EventFilter, JobFilter, ScheduleFilter
from everwhen.model.schedule import Definition, Target
from everwhen.store import ledger
from everwhen.store.dialect import composed
from everwhen.store.ledger import Ledger
from everwhen.store.schedule_filters import filtered
from everwhen.timetable.civil_time import zone
from everwhen.timetable.trigger import Every
from tests.stateful.world import World

START = 1_774_735_200 * SECOND
FIRST, SECOND_UID = "000000000001", "000000000002"


@pytest.fixture
def world() -> Iterator[World]:
    made = World(START)
    yield made
    made.close()


def every_minute(**fields: Any) -> Definition:
    return Definition(Every(60, "1m"), zone("UTC"), Target("command"), **fields)


def run_for(world: World, minutes: int, outcome: Outcome = SUCCEEDED) -> None:
    for _ in range(minutes):
        world.tick()
        world.settle([(job, outcome) for job in world.claim("n", 10)])
        world.move(MINUTE)


def test_a_job_is_found_by_its_id(world: World) -> None:
    world.create("a", every_minute())
    run_for(world, 2)
    job = world.ledger.job(f"sched-{FIRST}-n2-rc0")
    assert job is not None
    assert (job.slot_at, job.status, job.uid) == (START + MINUTE, "succeeded", FIRST)
    assert world.ledger.job("sched-nobody-n1-rc0") is None


def test_jobs_are_listed_newest_first_in_pages(world: World) -> None:
    world.create("a", every_minute())
    world.create("b", every_minute())
    run_for(world, 12)
    page = world.ledger.jobs(JobFilter(uid=FIRST), limit=5)
    assert [job.number for job in page] == [12, 11, 10, 9, 8]
    following = world.ledger.jobs(JobFilter(uid=FIRST), limit=5, before=page[-1].row_id)
    assert [job.number for job in following] == [7, 6, 5, 4, 3]
    assert len(world.ledger.jobs(JobFilter(), limit=100)) == 24


def test_jobs_are_listed_by_status_origin_and_slot(world: World) -> None:
    world.create("a", every_minute(if_running="queue", max_retries=3))
    run_for(world, 1, Outcome("failed", error="no"))
    run_for(world, 2)
    ledger: Ledger = world.ledger
    assert [job.retry for job in ledger.jobs(JobFilter(origins=["retry"]), limit=9)] == [1]
    assert [job.slot_at for job in ledger.jobs(JobFilter(statuses=["failed"]), limit=9)] == [START]
    assert {job.origin for job in ledger.jobs(JobFilter(uid=FIRST, slot_at=START), limit=9)} == {
        "schedule",
        "retry",
    }
    later = ledger.jobs(JobFilter(since=START + MINUTE, until=START + 2 * MINUTE), limit=9)
    assert [job.slot_at for job in later] == [START + MINUTE]


def test_events_are_listed_newest_first_and_streamed_in_commit_order(world: World) -> None:
    world.create("a", every_minute())
    world.pause("a")
    world.resume("a")
    ledger: Ledger = world.ledger
    listed = ledger.events(EventFilter(uid=FIRST), limit=9)
    assert [recorded.event.type for recorded in listed] == [
        "schedule.resumed",
        "schedule.paused",
        "schedule.skipped",
        "schedule.created",
    ]
    assert ledger.events(EventFilter(types=["schedule.paused"]), limit=9) == [listed[1]]
    assert ledger.events(EventFilter(uid=FIRST), limit=9, before=listed[1].id) == listed[2:]
    streamed = ledger.events_after(listed[-1].id, limit=2)
    assert streamed == [listed[2], listed[1]]
    assert listed[0].event.detail == {"anchor_at": START + MINUTE}


def test_the_events_of_a_slot_are_found_also_within_ranges(world: World) -> None:
    world.create("a", every_minute(catch_up="run_once"))
    world.move(HOUR)
    world.tick()
    (inside,) = world.ledger.events_of_slot(FIRST, START + 5 * MINUTE)
    assert (inside.event.type, inside.event.slot_count) == ("schedule.caught_up", 60)
    assert world.ledger.events_of_slot(FIRST, START + 2 * HOUR) == []


def test_a_range_of_skips_is_found_from_any_of_its_slots(world: World) -> None:
    world.create("a", every_minute())
    world.move(10 * MINUTE)
    world.pause("a")
    for minute in (0, 5, 10):
        (found,) = world.ledger.events_of_slot(FIRST, START + minute * MINUTE)
        assert (found.event.reason, found.event.slot_count) == ("paused", 11)


def test_a_breaker_tells_its_history(world: World) -> None:
    world.create("a", every_minute(breaker=BreakerRule("b", 2, 30 * MINUTE)))
    assert world.ledger.breaker("b") == Breaker("b")
    run_for(world, 2, Outcome("failed", error="no"))
    assert world.ledger.breaker("b").state == "open"
    (opened,) = world.ledger.transitions("b", limit=9)
    assert (opened.from_state, opened.to_state, opened.reason) == ("closed", "open", "failure_threshold")


def test_counts_tell_schedules_by_status_and_jobs_that_are_outstanding(world: World) -> None:
    world.create("a", every_minute())
    world.create("b", every_minute(if_running="allow"))
    world.create("c", every_minute())
    world.pause("c")
    world.tick()
    world.claim("n", 1)
    assert world.ledger.counts() == Counts({"active": 2, "paused": 1}, {"queued": 1, "running": 1}, held=0)


def test_a_history_has_every_schedule_of_an_id_the_deleted_ones_too(world: World) -> None:
    world.create("a", every_minute())
    world.create("b", every_minute())
    run_for(world, 3)
    world.delete("a", cancel_running=False)
    world.pause_system(True)
    with world.ledger.history() as record:
        histories = [
            (history.uid, history.state is None, len(list(history.jobs))) for history in record.histories
        ]
        assert [recorded.event.type for recorded in record.system] == ["system.paused"]
        assert record.limits == []
    assert histories == [(FIRST, True, 3), (SECOND_UID, False, 3)]


def test_a_history_of_some_recounts_no_limits(world: World) -> None:
    world.create("a", every_minute())
    world.create("b", every_minute())
    run_for(world, 11)
    with world.ledger.history([SECOND_UID]) as record:
        (history,) = record.histories
        assert record.limits is None
        assert [job.number for job in history.jobs] == list(range(1, 12))
        assert [revision.revision for revision in history.revisions] == [1]


def test_schedules_of_a_status_other_than_active_are_found_by_its_index(world: World) -> None:
    where, _ = filtered(ScheduleFilter(status="paused"))
    query = composed(f"SELECT row_id FROM schedules WHERE {where} ORDER BY row_id DESC LIMIT 50")
    with world.stack.database.read() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", {"status": "paused"}).fetchall()
    assert [step[3] for step in plan] == [
        "SEARCH schedules USING COVERING INDEX idx_schedules_status (status=?)"
    ]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (ledger.JOBS_OF.sqlite, "sqlite_autoindex_jobs_1"),
        (ledger.EVENTS_OF_UID.sqlite, "idx_audit_schedule"),
        (ledger.SYSTEM_EVENTS.sqlite, "idx_audit_schedule"),
        (ledger.EVENTS_OF_SLOT.sqlite, "idx_audit_schedule"),
        (ledger.CAUGHT_UP_AROUND.sqlite, "idx_audit_schedule"),
        (ledger.JOB_COUNTS.sqlite, "idx_jobs_outstanding"),
    ],
)
def test_the_index_that_a_statement_names_serves_it(world: World, query: str, index: str) -> None:
    with world.stack.database.read() as connection:
        values = {"uid": FIRST, "slot_at": START, "slot": START}
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
    assert any(index in row[3] for row in plan), plan
