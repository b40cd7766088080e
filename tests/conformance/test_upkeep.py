"""Upkeep: what retention deletes, what it keeps, and what the checker finds in the rest."""

from __future__ import annotations

from dataclasses import astuple, fields, replace

import pytest

from everwhen.model.alerts import Alert, AlertDelivery
from everwhen.model.instants import DAY, HOUR
from everwhen.model.message import MESSAGE
from everwhen.model.outcome import Outcome, OutputPiece, OutputStream
from everwhen.model.queries import EventFilter
from everwhen.model.retention import PASS_START, Cutoffs, Retention, RetentionPosition
from everwhen.model.schedule import Target
from everwhen.operations.maintenance import prune
from everwhen.operations.schedules import pause_schedule
from tests.conformance.tenant import FAILED, Tenant

NOTHING_KEPT = Retention(*[1] * len(astuple(Retention())))


def all_before(instant: int) -> Cutoffs:
    return Cutoffs(*[instant] * len(Cutoffs._fields))


def days(runtime: Tenant, count: int) -> None:
    for _ in range(count):
        runtime.step()
        runtime.run()
        runtime.wait("1d")


def test_the_last_entry_of_a_living_schedule_stays(runtime: Tenant) -> None:
    runtime.add("a", every="24h", if_running="allow")
    runtime.add("chain", every="24h", interval_from="completion")
    runtime.add("skipped", every="24h", only_between="00:00-00:01")
    days(runtime, 5)
    rows = prune(runtime.runtime, NOTHING_KEPT)
    assert rows["jobs"] > 0
    assert [len(runtime.jobs(name)) for name in ("a", "chain", "skipped")] == [1, 1, 0]
    assert len(runtime.events("skipped", "schedule.skipped")) == 1
    assert runtime.check().is_clean
    days(runtime, 2)
    assert runtime.check().is_clean


def test_the_whole_life_of_a_deleted_schedule_goes_at_once(runtime: Tenant) -> None:
    runtime.add("a", every="24h", if_running="allow")
    days(runtime, 3)
    uid = runtime.state("a").uid
    runtime.pause("a")
    runtime.delete("a")
    before = all_before(runtime.now + 1)
    place: RetentionPosition | None = PASS_START
    while place is not None:
        place = runtime.runtime.upkeep.forget(before, place, limit=1).next
        assert runtime.check().is_clean
    assert runtime.events("a") == []
    assert runtime.runtime.ledger.uid_of("a") is None
    with runtime.runtime.ledger.history([uid]) as record:
        (history,) = record.histories
        assert (list(history.revisions), list(history.events), list(history.jobs)) == ([], [], [])


def test_a_life_whose_last_run_is_still_going_on_stays(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (running,) = runtime.claim()
    runtime.delete("a")
    runtime.wait("1d")
    prune(runtime.runtime, NOTHING_KEPT)
    assert [event.type for event in runtime.events("a")] == ["schedule.created", "schedule.deleted"]
    runtime.settle(running)
    runtime.wait("1d")
    prune(runtime.runtime, NOTHING_KEPT)
    assert runtime.events("a") == []
    assert runtime.check().is_clean


def test_the_end_of_a_schedule_that_stays_as_done_is_remembered(runtime: Tenant) -> None:
    runtime.add("once", after="1m")
    runtime.wait_and_step("1m")
    runtime.run()
    runtime.wait("1d")
    prune(runtime.runtime, NOTHING_KEPT)
    assert [event.type for event in runtime.events("once")] == ["schedule.created", "schedule.done"]
    assert runtime.check().is_clean


def test_a_longer_retention_brings_nothing_back(runtime: Tenant) -> None:
    runtime.add("a", every="1h", if_running="allow")
    for _ in range(10):
        runtime.step()
        runtime.run()
        runtime.wait("1h")
    prune(runtime.runtime, NOTHING_KEPT)
    runtime.step()
    prune(runtime.runtime, Retention())
    assert runtime.check().is_clean  # it still knows from when on the record is complete


def test_a_dry_run_changes_nothing(runtime: Tenant) -> None:
    runtime.add("a", every="24h", if_running="allow")
    days(runtime, 4)
    jobs, events = len(runtime.jobs("a")), len(runtime.events("a"))
    would = prune(runtime.runtime, NOTHING_KEPT, dry_run=True)
    assert would["jobs"] == 3
    assert (len(runtime.jobs("a")), len(runtime.events("a"))) == (jobs, events)
    assert prune(runtime.runtime, NOTHING_KEPT) == would


def test_breaker_transitions_have_an_age_of_their_own(runtime: Tenant) -> None:
    runtime.add("a", every="1h", circuit_breaker={"threshold": 1, "reset_after": "24h"})
    runtime.step()
    runtime.run(Outcome("failed", error="no"))
    assert len(runtime.runtime.ledger.transitions("a", limit=9)) == 1
    runtime.wait("2h")
    prune(runtime.runtime, Retention(breaker_transitions=3 * HOUR))
    assert len(runtime.runtime.ledger.transitions("a", limit=9)) == 1
    prune(runtime.runtime, Retention(breaker_transitions=HOUR))
    assert runtime.runtime.ledger.transitions("a", limit=9) == []
    assert runtime.runtime.ledger.breaker("a").state == "open"


def test_every_class_of_the_record_has_an_age_of_its_own(runtime: Tenant) -> None:
    """A new class of rows fails here until the test has an old row of it."""
    runtime.add("a", every="24h", if_running="allow", circuit_breaker={"threshold": 1, "reset_after": "1s"})
    runtime.add("skipped", every="24h", only_between="00:00-00:01")
    runtime.add("said", every="24h", target=Target(MESSAGE, '{"text": "hello"}'))
    for _ in range(3):
        runtime.step()
        for job in runtime.run(FAILED):
            piece = OutputPiece(OutputStream(job.job_id, 1, "stdout"), 0, b"said")
            runtime.runtime.slots.write_output(runtime.now, [piece], [])
        runtime.wait("1d")
    tell_of_an_old_alert(runtime)
    for kept in fields(Retention):
        rows = prune(runtime.runtime, replace(Retention(), **{kept.name: 36 * HOUR}), dry_run=True)
        assert [what for what, count in rows.items() if count and what != "nodes"] == [kept.name]
        assert not any(
            prune(runtime.runtime, replace(Retention(), **{kept.name: 4 * DAY}), dry_run=True).values()
        )
    assert not any(prune(runtime.runtime, Retention(), dry_run=True).values())
    for class_, days_kept in {
        "jobs": 30,
        "audit": 90,
        "breaker_transitions": 90,
        "messages": 30,
        "output": 7,
        "alerts": 90,
        "deliveries": 30,
    }.items():
        assert getattr(Retention(), class_) == days_kept * DAY


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_no_portion_looks_at_more_rows_than_it_may(runtime: Tenant, limit: int) -> None:
    runtime.add("a", every="24h", if_running="allow")
    days(runtime, 6)
    before = all_before(runtime.now - 2 * DAY)
    place: RetentionPosition | None = RetentionPosition("jobs")
    rows = []
    while place is not None and place.what == "jobs":
        portion = runtime.runtime.upkeep.forget(before, place, limit=limit)
        rows.append(portion.rows)
        place = portion.next
    assert sum(rows) == 4 and max(rows) <= limit


# -- nodes --


def test_nodes_that_stopped_or_were_lost_long_ago_are_forgotten_but_for_the_last(runtime: Tenant) -> None:
    slots, upkeep = runtime.runtime.slots, runtime.runtime.upkeep
    slots.heartbeat(runtime.now, node="stopped", version="1", is_scheduler=True)
    slots.heartbeat(runtime.now, node="dead", version="1", is_scheduler=False)
    slots.sign_off_node(runtime.now, node="stopped")
    runtime.wait("1d")
    slots.heartbeat(runtime.now, node="here", version="1", is_scheduler=True, is_worker=False)
    assert [node.node for node in upkeep.note_lost(runtime.now, node="here", lease=HOUR)] == sorted(
        {"dead", runtime.node}
    )
    prune(runtime.runtime, Retention(audit=HOUR))
    assert [(node.node, node.role) for node in upkeep.nodes()] == [("here", "scheduler")]
    runtime.wait("1d")
    slots.sign_off_node(runtime.now, node="here")
    runtime.wait("1d")
    prune(runtime.runtime, Retention(audit=HOUR))
    assert [node.node for node in upkeep.nodes()] == ["here"]  # no node has run since then


def test_a_heartbeat_in_the_future_is_that_of_a_dead_node(runtime: Tenant) -> None:
    slots, upkeep = runtime.runtime.slots, runtime.runtime.upkeep
    runtime.add("a", every="24h")
    runtime.step()
    runtime.claim()
    slots.heartbeat(runtime.now + DAY, node=runtime.node, version="1", is_scheduler=True)
    assert slots.rescue(runtime.now, node="other", lease=2 * DAY) == 0
    assert slots.rescue(runtime.now, node="other", lease=HOUR) == 1
    assert [node.node for node in upkeep.note_lost(runtime.now, node="other", lease=HOUR)] == [runtime.node]
    events = runtime.runtime.ledger.events(EventFilter(types=["node.lost"]), limit=9)
    assert [recorded.event.detail["node"] for recorded in events] == [runtime.node]


# -- queues and pauses --


def test_a_worker_of_some_queues_sleeps_through_the_jobs_of_others(runtime: Tenant) -> None:
    runtime.add("a", every="24h", queue="heavy")
    runtime.step()
    slots = runtime.runtime.slots
    assert slots.next_ready_at() == runtime.now
    assert slots.next_ready_at(["heavy", "gpu"]) == runtime.now
    assert slots.next_ready_at(["default"]) is None
    assert slots.claim_jobs(runtime.now, node=runtime.node, limit=9, queues=["default"]) == []
    assert len(slots.claim_jobs(runtime.now, node=runtime.node, limit=9, queues=["heavy"])) == 1


def test_the_end_of_a_pause_is_a_wake_up_and_no_due_slot(runtime: Tenant) -> None:
    runtime.add("a", every="24h", first_run="after_interval")
    runtime.add("b", every="24h", first_run="after_interval")
    until = runtime.now + HOUR
    pause_schedule(runtime.runtime, "a", until=until)
    assert runtime.runtime.slots.next_wake_at() == until
    runtime.wait("2h")
    assert runtime.runtime.slots.tick(runtime.now, limit=9, behind=False).schedules == 0
    runtime.resume("a")
    assert runtime.runtime.slots.next_wake_at() != until


def tell_of_an_old_alert(runtime: Tenant) -> None:
    """Open and close an alert two days ago; its message was delivered then."""
    then = runtime.now - 2 * DAY
    alert = Alert.about("breaker.opened", "k", then)
    delivery = AlertDelivery(
        0,
        "d-1",
        "http",
        "opened",
        None,
        owner=None,
        body="{}",
        created_at=then,
        next_at=None,
        delivered_at=then,
    )
    runtime.runtime.alerts.add([delivery])
    runtime.runtime.alerts.keep([alert._replace(state="resolved", resolved_at=then)])
