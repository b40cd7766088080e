"""Upkeep: what is forgotten, what stays, and what the checker says about the rest."""

from __future__ import annotations

from dataclasses import astuple, fields, replace

import pytest

from everwhen.model.instants import DAY, HOUR
from everwhen.model.message import MESSAGE
from everwhen.model.outcome import Outcome
from everwhen.model.output import OutputPiece, OutputStream
from everwhen.model.retention import FRONT, Cutoffs, Place, Retention
from everwhen.model.schedule import Target
from everwhen.operations.retention import prune
from everwhen.operations.schedules import pause_schedule
from everwhen.ports.ledger import EventFilter
from tests.conformance.tenant import FAILED, Tenant

NOTHING_KEPT = Retention(*[1] * len(astuple(Retention())))


def all_before(instant: int) -> Cutoffs:
    return Cutoffs(*[instant] * len(Cutoffs._fields))


def days(house: Tenant, count: int) -> None:
    for _ in range(count):
        house.step()
        house.run()
        house.wait("1d")


def test_the_last_entry_of_a_living_schedule_stays(house: Tenant) -> None:
    house.add("a", every="24h", if_running="allow")
    house.add("chain", every="24h", interval_from="completion")
    house.add("skipped", every="24h", only_between="00:00-00:01")
    days(house, 5)
    rows = prune(house.house, NOTHING_KEPT)
    assert rows["jobs"] > 0
    assert [len(house.jobs(name)) for name in ("a", "chain", "skipped")] == [1, 1, 0]
    assert len(house.events("skipped", "schedule.skipped")) == 1
    assert house.check().is_clean
    days(house, 2)
    assert house.check().is_clean


def test_the_whole_life_of_a_deleted_schedule_goes_at_once(house: Tenant) -> None:
    house.add("a", every="24h", if_running="allow")
    days(house, 3)
    uid = house.state("a").uid
    house.pause("a")
    house.delete("a")
    before = all_before(house.now + 1)
    place: Place | None = FRONT
    while place is not None:
        place = house.house.upkeep.forget(before, place, limit=1).next
        assert house.check().is_clean
    assert house.events("a") == []
    assert house.house.ledger.uid_of("a") is None
    with house.house.ledger.history([uid]) as history:
        (life,) = history.lives
        assert (list(life.revisions), list(life.events), list(life.jobs)) == ([], [], [])


def test_a_life_whose_last_run_is_still_going_on_stays(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (running,) = house.claim()
    house.delete("a")
    house.wait("1d")
    prune(house.house, NOTHING_KEPT)
    assert [event.type for event in house.events("a")] == ["schedule.created", "schedule.deleted"]
    house.settle(running)
    house.wait("1d")
    prune(house.house, NOTHING_KEPT)
    assert house.events("a") == []
    assert house.check().is_clean


def test_the_end_of_a_schedule_that_lives_on_as_done_is_remembered(house: Tenant) -> None:
    house.add("once", after="1m")
    house.wait_and_step("1m")
    house.run()
    house.wait("1d")
    prune(house.house, NOTHING_KEPT)
    assert [event.type for event in house.events("once")] == ["schedule.created", "schedule.done"]
    assert house.check().is_clean


def test_a_longer_retention_brings_nothing_back(house: Tenant) -> None:
    house.add("a", every="1h", if_running="allow")
    for _ in range(10):
        house.step()
        house.run()
        house.wait("1h")
    prune(house.house, NOTHING_KEPT)
    house.step()
    prune(house.house, Retention())
    assert house.check().is_clean  # it still knows from when on the record is whole


def test_a_dry_run_changes_nothing(house: Tenant) -> None:
    house.add("a", every="24h", if_running="allow")
    days(house, 4)
    jobs, events = len(house.jobs("a")), len(house.events("a"))
    would = prune(house.house, NOTHING_KEPT, dry_run=True)
    assert would["jobs"] == 3
    assert (len(house.jobs("a")), len(house.events("a"))) == (jobs, events)
    assert prune(house.house, NOTHING_KEPT) == would


def test_breaker_transitions_have_an_age_of_their_own(house: Tenant) -> None:
    house.add("a", every="1h", circuit_breaker={"threshold": 1, "reset_after": "24h"})
    house.step()
    house.run(Outcome("failed", error="no"))
    assert len(house.house.ledger.transitions("a", limit=9)) == 1
    house.wait("2h")
    prune(house.house, Retention(breaker_transitions=3 * HOUR))
    assert len(house.house.ledger.transitions("a", limit=9)) == 1
    prune(house.house, Retention(breaker_transitions=HOUR))
    assert house.house.ledger.transitions("a", limit=9) == []
    assert house.house.ledger.breaker("a").state == "open"


def test_every_class_of_the_record_has_an_age_of_its_own(house: Tenant) -> None:
    """A class that is added comes up here by itself: something of it has to be old."""
    house.add("a", every="24h", if_running="allow", circuit_breaker={"threshold": 1, "reset_after": "1s"})
    house.add("skipped", every="24h", only_between="00:00-00:01")
    house.add("said", every="24h", target=Target(MESSAGE, '{"text": "hello"}'))
    for _ in range(3):
        house.step()
        for job in house.run(FAILED):
            piece = OutputPiece(OutputStream(job.job_id, 1, "stdout"), 0, b"said")
            house.house.slots.write_output(house.now, [piece], [])
        house.wait("1d")
    for kept in fields(Retention):
        rows = prune(house.house, replace(Retention(), **{kept.name: 36 * HOUR}), dry_run=True)
        assert [what for what, count in rows.items() if count and what != "nodes"] == [kept.name]
        assert not any(
            prune(house.house, replace(Retention(), **{kept.name: 4 * DAY}), dry_run=True).values()
        )
    assert not any(prune(house.house, Retention(), dry_run=True).values())
    for class_, days_kept in {
        "jobs": 30,
        "audit": 90,
        "breaker_transitions": 90,
        "messages": 30,
        "output": 7,
    }.items():
        assert getattr(Retention(), class_) == days_kept * DAY


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_no_portion_looks_at_more_rows_than_it_may(house: Tenant, limit: int) -> None:
    house.add("a", every="24h", if_running="allow")
    days(house, 6)
    before = all_before(house.now - 2 * DAY)
    place: Place | None = Place("jobs")
    rows = []
    while place is not None and place.what == "jobs":
        portion = house.house.upkeep.forget(before, place, limit=limit)
        rows.append(portion.rows)
        place = portion.next
    assert sum(rows) == 4 and max(rows) <= limit


# -- nodes --


def test_nodes_that_stopped_or_were_lost_long_ago_are_forgotten_but_for_the_last(house: Tenant) -> None:
    slots, upkeep = house.house.slots, house.house.upkeep
    slots.heartbeat(house.now, node="stopped", version="1", is_scheduler=True)
    slots.heartbeat(house.now, node="dead", version="1", is_scheduler=False)
    slots.farewell(house.now, node="stopped")
    house.wait("1d")
    slots.heartbeat(house.now, node="here", version="1", is_scheduler=True, is_worker=False)
    assert [node.node for node in upkeep.note_lost(house.now, node="here", lease=HOUR)] == sorted(
        {"dead", house.node}
    )
    prune(house.house, Retention(audit=HOUR))
    assert [(node.node, node.role) for node in upkeep.nodes()] == [("here", "scheduler")]
    house.wait("1d")
    slots.farewell(house.now, node="here")
    house.wait("1d")
    prune(house.house, Retention(audit=HOUR))
    assert [node.node for node in upkeep.nodes()] == ["here"]  # since then nobody was there


def test_a_heartbeat_in_the_future_is_that_of_a_dead_node(house: Tenant) -> None:
    slots, upkeep = house.house.slots, house.house.upkeep
    house.add("a", every="24h")
    house.step()
    house.claim()
    slots.heartbeat(house.now + DAY, node=house.node, version="1", is_scheduler=True)
    assert slots.rescue(house.now, node="other", lease=2 * DAY) == 0
    assert slots.rescue(house.now, node="other", lease=HOUR) == 1
    assert [node.node for node in upkeep.note_lost(house.now, node="other", lease=HOUR)] == [house.node]
    events = house.house.ledger.events(EventFilter(types=["node.lost"]), limit=9)
    assert [recorded.event.detail["node"] for recorded in events] == [house.node]


# -- queues and pauses --


def test_a_worker_of_some_queues_sleeps_through_the_jobs_of_others(house: Tenant) -> None:
    house.add("a", every="24h", queue="heavy")
    house.step()
    slots = house.house.slots
    assert slots.next_ready_at() == house.now
    assert slots.next_ready_at(["heavy", "gpu"]) == house.now
    assert slots.next_ready_at(["default"]) is None
    assert slots.claim_jobs(house.now, node=house.node, limit=9, queues=["default"]) == []
    assert len(slots.claim_jobs(house.now, node=house.node, limit=9, queues=["heavy"])) == 1


def test_the_end_of_a_pause_is_a_wake_up_and_no_due_slot(house: Tenant) -> None:
    house.add("a", every="24h", first_run="after_interval")
    house.add("b", every="24h", first_run="after_interval")
    until = house.now + HOUR
    pause_schedule(house.house, "a", until=until)
    assert house.house.slots.next_wake_at() == until
    house.wait("2h")
    assert house.house.slots.tick(house.now, limit=9, behind=False).schedules == 0
    house.resume("a")
    assert house.house.slots.next_wake_at() != until
