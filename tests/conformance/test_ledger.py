"""Reading the ledger: pages, filters, the order of commits, the results of a slot, counts (L1–L4)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.events import Event
from everwhen.model.history import OF_SLOTS, Recorded, ScheduleHistory
from everwhen.model.instants import HOUR, SECOND
from everwhen.model.limits import FOR_EVER
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.store import ledger
from tests.conformance.tenant import FAILED, MANY, Tenant, at, clock_of


def prepare(runtime: Tenant) -> None:
    """Add two schedules with three slots each, one success, one failure, one queued job."""
    runtime.add("a", every="1m", if_running="allow")
    runtime.add("b", every="1m", if_running="allow", first_run="after_interval")
    runtime.step()
    runtime.run()
    runtime.wait_and_step("1m")
    runtime.run(FAILED)
    runtime.wait_and_step("1m")
    runtime.trigger("a")


# -- jobs --


def test_jobs_are_read_newest_first_in_pages(runtime: Tenant) -> None:
    prepare(runtime)
    everything = runtime.runtime.ledger.jobs(JobFilter(), limit=MANY)
    rows = [job.row_id for job in everything]
    assert rows == sorted(rows, reverse=True) and len(rows) == 6
    pages, before = [], None
    while page := runtime.runtime.ledger.jobs(JobFilter(), limit=4, before=before):
        pages.append([job.row_id for job in page])
        before = page[-1].row_id
    assert [len(page) for page in pages] == [4, 2]
    assert [row for page in pages for row in page] == rows


def test_jobs_are_found_by_all_that_is_asked_for(runtime: Tenant) -> None:
    prepare(runtime)
    uid = runtime.state("a").uid

    def found(**wanted: Any) -> list[tuple[str, str]]:
        jobs = runtime.runtime.ledger.jobs(JobFilter(**wanted), limit=MANY)
        return [(job.schedule_id, clock_of(job.slot_at)) for job in jobs]

    assert found(uid=uid) == [("a", "08:02:00"), ("a", "08:02:00"), ("a", "08:01:00"), ("a", "08:00:00")]
    assert found(uid=uid, statuses=["failed"]) == [("a", "08:01:00")]
    assert found(statuses=["succeeded", "failed"]) == [
        ("b", "08:01:00"),
        ("a", "08:01:00"),
        ("a", "08:00:00"),
    ]
    assert found(origins=["manual"]) == [("a", "08:02:00")]
    assert found(slot_at=at("08:01:00")) == [("b", "08:01:00"), ("a", "08:01:00")]
    assert found(uid=uid, since=at("08:01:00"), until=at("08:02:00")) == [("a", "08:01:00")]
    assert found(uid="nobody") == []


def test_a_page_of_one_schedule_goes_on_where_the_last_ended(runtime: Tenant) -> None:
    prepare(runtime)
    wanted = JobFilter(uid=runtime.state("a").uid)
    first = runtime.runtime.ledger.jobs(wanted, limit=2)
    second = runtime.runtime.ledger.jobs(wanted, limit=2, before=first[-1].row_id)
    assert [job.number for job in first + second] == [4, 3, 2, 1]


def test_one_job_by_its_id(runtime: Tenant) -> None:
    prepare(runtime)
    job = runtime.jobs("a")[0]
    assert runtime.runtime.ledger.job(job.job_id) == job
    assert runtime.runtime.ledger.job("sched-nobody-n1-rc0") is None


def test_a_uid_that_begins_like_another_is_another(runtime: Tenant) -> None:
    runtime.add("short", uid="a1b2", every="24h")
    runtime.add("long", uid="a1b2c3", every="24h")
    runtime.add("dashed", uid="a1b2-n1", every="24h")
    runtime.step()
    jobs = runtime.runtime.ledger.jobs(JobFilter(uid="a1b2"), limit=MANY)
    assert [job.schedule_id for job in jobs] == ["short"]


# -- events --


def test_events_are_read_newest_first_in_pages(runtime: Tenant) -> None:
    prepare(runtime)
    runtime.pause("a")
    runtime.resume("a")
    everything = runtime.runtime.ledger.events(EventFilter(), limit=MANY)
    numbers = [recorded.id for recorded in everything]
    assert numbers == sorted(numbers, reverse=True)
    pages: list[Recorded] = []
    before = None
    while page := runtime.runtime.ledger.events(EventFilter(), limit=2, before=before):
        pages += page
        before = page[-1].id
    assert pages == everything


def test_events_are_found_by_all_that_is_asked_for(runtime: Tenant) -> None:
    prepare(runtime)
    uid = runtime.state("a").uid
    runtime.wait("1s")
    runtime.pause("a")

    def found(**wanted: Any) -> list[str]:
        return [r.event.type for r in runtime.runtime.ledger.events(EventFilter(**wanted), limit=MANY)]

    assert found(uid=uid) == ["schedule.paused", "job.cancelled", "schedule.created"]
    assert found(types=["schedule.created"]) == ["schedule.created", "schedule.created"]
    assert found(types=["schedule.created", "schedule.paused"], uid=uid) == [
        "schedule.paused",
        "schedule.created",
    ]
    cancelled = next(job for job in runtime.jobs("a") if job.status == "cancelled")
    assert found(job_id=cancelled.job_id) == ["job.cancelled"]
    assert found(since=runtime.now) == ["schedule.paused", "job.cancelled"]
    assert found(until=runtime.now, uid=uid) == ["schedule.created"]


def test_events_after_one_follow_in_the_order_of_commits(runtime: Tenant) -> None:
    prepare(runtime)
    ledger = runtime.runtime.ledger
    seen = ledger.events_after(0, limit=MANY)
    assert [r.id for r in seen] == sorted(r.id for r in seen)
    last = seen[-1].id
    assert ledger.events_after(last, limit=10) == []
    runtime.pause("b")
    runtime.clock.step("-1h")  # the order is that of commits, whatever the clock shows
    runtime.add("c", every="1h", enabled=False)
    runtime.clock.step("1h")
    kinds = [(r.event.schedule_id, r.event.type) for r in ledger.events_after(last, limit=MANY)]
    assert kinds == [
        ("b", "job.cancelled"),
        ("b", "schedule.paused"),
        ("c", "schedule.created"),
        ("c", "schedule.paused"),
    ]
    assert len(ledger.events_after(last, limit=1)) == 1


def test_an_event_comes_back_as_it_was_written(runtime: Tenant) -> None:
    runtime.add("a", every="1h", owner="anna")
    (created,) = runtime.events("a")
    assert (created.type, created.at, created.owner, created.uid) == (
        "schedule.created",
        runtime.now,
        "anna",
        runtime.state("a").uid,
    )
    assert created.detail == {"revision": 1, "anchor_at": at("08:00:00")}
    assert (created.slot_at, created.reason, created.slot_count, created.job_id) == (None, None, 1, None)


def test_what_happened_to_no_schedule_is_on_record_too(runtime: Tenant) -> None:
    stepped = Event("scheduler.clock_stepped", runtime.now, detail={"from": 1, "to": 2})
    runtime.runtime.slots.record([stepped, Event("scheduler.started", runtime.now, actor="node-1")])
    assert runtime.events(None) == [stepped, Event("scheduler.started", runtime.now, actor="node-1")]
    with runtime.runtime.ledger.history() as record:
        assert [recorded.event for recorded in record.system] == [stepped]


# -- slots --


def kinds_of_slot(runtime: Tenant, schedule_id: str, clock: str) -> list[tuple[str, int]]:
    uid = runtime.runtime.ledger.uid_of(schedule_id)
    assert uid is not None
    found = runtime.runtime.ledger.events_of_slot(uid, at(clock))
    assert [r.id for r in found] == sorted(r.id for r in found)
    return [(r.event.type, r.event.slot_count) for r in found]


def test_what_became_of_a_slot(runtime: Tenant) -> None:
    runtime.add("a", every="10m")
    runtime.step()
    runtime.claim()
    runtime.wait_and_step("10m")
    assert kinds_of_slot(runtime, "a", "08:10:00") == [("schedule.skipped", 1)]
    assert kinds_of_slot(runtime, "a", "08:00:00") == []
    runtime.cancel(runtime.jobs("a")[0].job_id)
    assert kinds_of_slot(runtime, "a", "08:00:00") == [("job.cancelled", 1)]


def test_a_slot_finds_the_range_that_counts_it(runtime: Tenant) -> None:
    runtime.add("a", every="10s")
    runtime.step()
    (claimed,) = runtime.claim()
    for _ in range(4):
        runtime.wait_and_step("10s")
    runtime.settle(claimed)
    runtime.wait_and_step("10s")
    assert kinds_of_slot(runtime, "a", "08:00:10") == [("schedule.skipped", 1)]
    for clock in ("08:00:20", "08:00:30", "08:00:40"):
        assert kinds_of_slot(runtime, "a", clock) == [("schedule.skipped", 3)]
    assert kinds_of_slot(runtime, "a", "08:00:50") == []


def test_a_slot_finds_the_catch_up_that_stands_for_it(runtime: Tenant) -> None:
    runtime.add("a", every="10m", catch_up="run_once", first_run="after_interval")
    runtime.wait("36m")
    runtime.step()
    for clock in ("08:10:00", "08:20:00", "08:30:00"):
        assert kinds_of_slot(runtime, "a", clock) == [("schedule.caught_up", 3)]
    assert kinds_of_slot(runtime, "a", "08:40:00") == []


def test_the_slots_of_another_schedule_are_none_of_its_business(runtime: Tenant) -> None:
    runtime.add("a", every="10m")
    runtime.add("b", every="10m")
    runtime.step()
    runtime.claim()
    runtime.wait_and_step("10m")
    assert kinds_of_slot(runtime, "a", "08:10:00") == [("schedule.skipped", 1)]


# -- breakers, counts, histories --


def test_the_changes_of_a_breaker_are_read_newest_first(runtime: Tenant) -> None:
    assert runtime.runtime.ledger.breaker("nobody").state == "closed"
    runtime.add("a", every="10m", circuit_breaker={"threshold": 2, "reset_after": "20m"})
    for _ in range(5):
        runtime.step()
        runtime.run(FAILED)
        runtime.wait("10m")
    moves = [
        (t.to_state, t.reason, t.failure_count) for t in runtime.runtime.ledger.transitions("a", limit=9)
    ]
    assert moves == [
        ("open", "probe_failed", 3),
        ("half_open", "cooldown_elapsed", 2),
        ("open", "failure_threshold", 2),
    ]
    (newest,) = runtime.runtime.ledger.transitions("a", limit=1)
    assert (newest.reason, newest.job_id) == ("probe_failed", runtime.jobs("a")[-1].job_id)
    breaker = runtime.runtime.ledger.breaker("a")
    assert (breaker.state, breaker.failure_count, breaker.opened_at) == ("open", 3, newest.at)
    assert runtime.runtime.ledger.transitions("nobody", limit=9) == []


def test_counts_of_schedules_and_outstanding_jobs(runtime: Tenant) -> None:
    ledger = runtime.runtime.ledger
    assert (ledger.counts().schedules, ledger.counts().jobs, ledger.counts().held) == ({}, {}, 0)
    agent: dict[str, Any] = {"every": "24h", "group": "g", "max_concurrent": 2}
    for name in ("g.a", "g.b", "g.c"):
        runtime.add(name, **agent)
    runtime.add("paused", every="24h", enabled=False)
    runtime.step()
    runtime.claim(1)
    found = ledger.counts()
    assert found.schedules == {"active": 3, "paused": 1}
    assert found.jobs == {"running": 1, "queued": 1}
    assert found.held == 1


def test_a_history_tells_every_schedule_once_with_all_that_was_recorded(runtime: Tenant) -> None:
    prepare(runtime)
    runtime.delete("b")
    runtime.add("b", every="1m")
    with runtime.runtime.ledger.history() as record:
        histories = {history.uid: (history, list(history.jobs)) for history in record.histories}
    assert sorted(history.schedule_id for history, _ in histories.values()) == ["a", "b", "b"]
    for uid, (history, jobs) in histories.items():
        assert [job.row_id for job in jobs] == sorted(job.row_id for job in jobs)
        assert {job.uid for job in jobs} <= {uid}
        assert {recorded.event.uid for recorded in history.events} == {uid}
        assert history.revisions[0].revision == 1
    assert [len(jobs) for history, jobs in histories.values() if history.state is None] == [2]


def test_a_history_of_some_is_of_those_alone(runtime: Tenant) -> None:
    prepare(runtime)
    uid = runtime.state("b").uid
    with runtime.runtime.ledger.history([uid]) as record:
        ((history, jobs),) = [(history, list(history.jobs)) for history in record.histories]
        assert (history.uid, len(jobs), record.limits) == (uid, 2, None)


def test_a_history_of_one_has_what_is_near_an_instant_however_often_it_fired(
    runtime: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`why` read every job that the schedule ever had: of one that fires each second 160 MB a day."""
    monkeypatch.setattr(ledger, "MOST_NEAR", 2)
    runtime.add("a", every="2m", if_running="skip")
    for _ in range(12):
        runtime.wait("2m")
        runtime.tick()
        runtime.tick(behind=True)
        runtime.trigger("a")
    runtime.pause("a")
    state = runtime.state("a")
    with runtime.runtime.ledger.history() as record:
        whole, jobs = next(
            (history, list(history.jobs)) for history in record.histories if history.uid == state.uid
        )
    fired, skipped = [job.slot_at for job in jobs], slots_of(whole)
    assert len(fired) > 10 and len(skipped) > 5
    for near in (fired[5], skipped[3], 0, FOR_EVER):
        with runtime.runtime.ledger.history([state.uid], near=near) as record:
            (found,) = record.histories
            nearest = [job.slot_at for job in found.jobs], slots_of(found)
        for slots, some in zip((fired, skipped), nearest, strict=True):
            before, after = [slot for slot in slots if slot <= near], [slot for slot in slots if slot > near]
            assert some == [*before[-2:], *after[:2]]
        others, some_others = (
            [one for one in history.events if one.event.type not in OF_SLOTS] for history in (whole, found)
        )
        assert others == some_others and len(others) > 1
        assert (len(found.revisions), found.state) == (len(whole.revisions), whole.state)


def slots_of(history: ScheduleHistory) -> list[int]:
    """Return the slots of the events about slots."""
    slots = [one.event.slot_at for one in history.events if one.event.type in OF_SLOTS]
    return [slot for slot in slots if slot is not None]


def test_the_uid_behind_an_id_is_that_of_the_newest(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    first = runtime.state("a").uid
    assert runtime.runtime.ledger.uid_of("a") == runtime.runtime.ledger.uid_of(first) == first
    runtime.wait("1s")
    runtime.delete("a")
    assert runtime.runtime.ledger.uid_of("a") == first
    runtime.add("a", every="1h")
    assert runtime.runtime.ledger.uid_of("a") == runtime.state("a").uid != first
    assert runtime.runtime.ledger.uid_of("nobody") is None


def test_of_an_id_that_was_used_again_the_uid_is_the_one_that_had_begun_by_then(runtime: Tenant) -> None:
    before = runtime.clock.now()
    runtime.add("a", every="1h")
    first = runtime.state("a").uid
    runtime.wait("1h")
    runtime.delete("a")
    runtime.wait("1h")
    runtime.add("a", every="1h")
    again = runtime.clock.now()
    second = runtime.state("a").uid
    asked = (before - HOUR, before + SECOND, again - SECOND, again, again + HOUR)
    assert [runtime.runtime.ledger.uid_of("a", at) for at in asked] == [first, first, first, second, second]
    assert runtime.runtime.ledger.uid_of(second, before) == second
