"""The catalogue: schedules, revisions, quiet hours; every method is atomic (E4, E5, R5, X1–X8)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide import by_hand
from everwhen.errors import DuplicateScheduleError, PolicyInUseError, StatusError, UnknownScheduleError
from everwhen.model.changes import Decision
from everwhen.model.instants import DAY, HOUR
from everwhen.model.limits import Shared
from everwhen.model.queries import ComingSchedules, ScheduleFilter
from everwhen.model.retention import Cutoffs, RetentionPosition
from everwhen.model.schedule import Schedule
from everwhen.model.serialize import text_of, times_in
from everwhen.operations import schedules as operations
from everwhen.operations.breakers import reset_breaker
from everwhen.operations.quiet_hours import delete_own_quiet_hours
from everwhen.timetable.trigger import parse_every
from tests.conformance.tenant import FAILED, Tenant, at, clock_of, submission
from tests.submissions import create_schedules

# -- creating --


def test_many_schedules_are_created_in_one_commit(runtime: Tenant) -> None:
    states = create_schedules(runtime.runtime, [submission(name, every="1h") for name in "abc"])
    assert [state.schedule_id for state in states] == ["a", "b", "c"]
    assert len({state.uid for state in states}) == 3
    assert [event.schedule_id for event in runtime.events(None, "schedule.created")] == ["a", "b", "c"]
    assert runtime.step() == 3


@pytest.mark.parametrize("names", [["new", "there"], ["there", "new"], ["new", "other", "new"]])
def test_an_id_that_exists_refuses_all_of_them(runtime: Tenant, names: list[str]) -> None:
    runtime.add("there", every="1h")
    before = runtime.everything()
    with pytest.raises(DuplicateScheduleError) as refusal:
        create_schedules(runtime.runtime, [submission(name, every="1h") for name in names])
    assert refusal.value.schedule_id == ("new" if names.count("new") == 2 else "there")
    assert runtime.everything() == before
    assert runtime.runtime.catalogue.get("new") is None


def test_a_uid_is_never_used_again(runtime: Tenant) -> None:
    runtime.add("a", uid="a1b2c3d4e5f6", every="1h")
    runtime.step()
    runtime.delete("a")
    before = runtime.everything()
    with pytest.raises(DuplicateScheduleError):
        runtime.add("a", uid="a1b2c3d4e5f6", every="1h")
    assert runtime.everything() == before
    runtime.add("a", every="1h")
    assert runtime.state("a").uid != "a1b2c3d4e5f6"


def test_a_schedule_added_again_starts_clean_beside_the_ledger_of_its_predecessor(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    runtime.run()
    runtime.delete("a")
    runtime.wait("30s")
    runtime.add("a", every="1h")
    assert runtime.step() == 1
    state = runtime.state("a")
    assert (state.fire_count, state.run_count, state.revision) == (1, 0, 1)
    assert len({job.job_id for job in runtime.jobs("a")}) == 2
    assert len({job.uid for job in runtime.jobs("a")}) == 2


# -- finding --


def test_a_schedule_is_found_by_its_id_and_by_its_uid(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    state = runtime.state("a")
    assert runtime.state(state.uid) == state
    assert runtime.runtime.catalogue.get("nobody") is None
    with pytest.raises(UnknownScheduleError):
        runtime.pause("nobody")
    assert runtime.pause(state.uid).status == "paused"


def test_an_id_that_is_another_ones_uid_means_the_schedule_of_that_id(runtime: Tenant) -> None:
    runtime.add("first", uid="000000000001", every="1h")
    runtime.add("000000000001", uid="000000000002", every="1h")
    runtime.add("third", uid="000000000003", every="1h")
    runtime.add("000000000004", uid="000000000005", every="1h")
    assert runtime.state("000000000001").uid == "000000000002"
    assert runtime.state("000000000005").schedule_id == "000000000004"


def test_a_schedule_comes_with_its_outstanding_jobs(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    runtime.step()
    runtime.claim()
    runtime.wait_and_step("1m")
    found = runtime.runtime.catalogue.get("a")
    assert found is not None
    assert [job.status for job in found.outstanding] == ["running", "queued"]


def test_schedules_of_a_source(runtime: Tenant) -> None:
    runtime.add("from-file", source="config", every="1h")
    runtime.add("by-hand", every="1h")
    runtime.edit("from-file", every="2h")
    found = runtime.runtime.catalogue.of_source("config")
    assert [(s.state.schedule_id, s.state.revision) for s in found] == [("from-file", 2)]
    assert runtime.runtime.catalogue.of_source("python") == []


def test_schedules_are_listed_by_id_in_pages(runtime: Tenant) -> None:
    runtime.add_many(["d", "a", "c", "b"], every="1h", owner="anna")
    runtime.add("e", cron="0 9 * * *", group="g")
    runtime.pause("c")
    states = runtime.runtime.catalogue.states

    def ids(wanted: ScheduleFilter, **page: Any) -> list[str]:
        return [state.schedule_id for state in states(wanted, **{"limit": 10, **page})]

    assert ids(ScheduleFilter(), limit=2) == ["a", "b"]
    assert ids(ScheduleFilter(), limit=2, after="b") == ["c", "d"]
    assert ids(ScheduleFilter(status="paused")) == ["c"]
    assert ids(ScheduleFilter(owner="anna", status="active")) == ["a", "b", "d"]
    assert ids(ScheduleFilter(group="g")) == ids(ScheduleFilter(type="cron")) == ["e"]


# -- changing --


def test_a_change_is_decided_on_the_row_as_it_stands(runtime: Tenant) -> None:
    runtime.add("a", every="1h", group="g", max_concurrent=3)
    runtime.step()
    seen: list[tuple[Schedule, int]] = []

    def look(schedule: Schedule, now: int, shared: Shared) -> Decision:
        seen.append((schedule, shared.limit("capacity:g").outstanding))
        return Decision(schedule.state, schedule.state, schedule.plan, [], [], [])

    before = runtime.everything()
    runtime.change("a", look)
    ((schedule, outstanding),) = seen
    assert (schedule.state, outstanding) == (runtime.state("a"), 1)
    assert [job.status for job in schedule.outstanding] == ["queued"]
    assert runtime.everything() == before


def test_a_change_that_raises_leaves_nothing(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    before = runtime.everything()
    with pytest.raises(StatusError):
        runtime.resume("a")

    def fail(_schedule: Schedule, _now: int, shared: Shared) -> Decision:
        shared.move("guard:nobody", outstanding=1)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        runtime.change("a", fail)
    assert runtime.everything() == before


def test_every_revision_is_kept_and_jobs_keep_theirs(runtime: Tenant) -> None:
    runtime.add("a", every="1h", payload={"v": 1})
    runtime.step()
    runtime.wait("10m")
    runtime.edit("a", every="1h", payload={"v": 2})
    runtime.edit("a", every="2h", payload={"v": 3})
    uid = runtime.state("a").uid
    with runtime.runtime.ledger.history([uid]) as record:
        (history,) = record.histories
    payloads = [(r.revision, r.in_force_at, r.plan.definition.payload) for r in history.revisions]
    later = at("08:10:00")
    assert payloads == [
        (1, at("08:00:00"), '{"v": 1}'),
        (2, later, '{"v": 2}'),
        (3, later, '{"v": 3}'),
    ]
    assert runtime.jobs("a")[0].revision == 1
    assert runtime.state("a").revision == 3


def test_a_change_of_the_times_ends_what_the_old_ones_had_open(runtime: Tenant) -> None:
    agent: dict[str, Any] = {"group": "g", "max_concurrent": 1}
    runtime.add("g.a", every="24h", **agent)
    runtime.add("g.b", every="24h", **agent)
    runtime.step()
    runtime.edit("g.b", cron="0 9 * * *", **agent)
    state = runtime.state("g.b")
    assert (state.held_slot_at, state.release_at, state.held_key) == (None, None, None)
    assert clock_of(state.next_slot_at or 0) == "09:00:00"
    assert runtime.reasons("g.b") == ["edited"]


def test_a_held_slot_is_decided_again_when_its_limit_changes(runtime: Tenant) -> None:
    runtime.add("g.a", every="24h", group="g", max_concurrent=1)
    runtime.add("g.b", every="24h", group="g", max_concurrent=1)
    runtime.step()
    assert runtime.state("g.b").held_reason == "at_capacity"
    runtime.edit("g.b", every="24h", group="g", max_concurrent=2)
    assert runtime.step() == 1


def test_pause_and_resume(runtime: Tenant) -> None:
    runtime.add("a", every="10m", if_running="queue")
    runtime.step()
    (running,) = runtime.claim()
    runtime.wait_and_step("10m")
    runtime.pause("a")
    state = runtime.state("a")
    assert (state.status, state.next_slot_at, state.next_run_at) == ("paused", None, None)
    assert [(job.status, job.reason) for job in runtime.jobs("a")] == [
        ("running", None),
        ("cancelled", "pause"),
    ]
    assert runtime.wait_and_step("1h") == 0
    runtime.resume("a")
    assert clock_of(runtime.state("a").next_run_at or 0) == "09:20:00"
    runtime.settle(running)
    assert runtime.events("a", "schedule.missed", "schedule.skipped") == []


def test_pauses_that_have_come_to_their_end_are_found(runtime: Tenant) -> None:
    for name, until in (("soon", at("09:00:00")), ("later", at("10:00:00")), ("for-ever", None)):
        runtime.add(name, every="24h", first_run="after_interval")
        operations.pause_schedule(runtime.runtime, name, until=until)
    due = runtime.runtime.catalogue.due_to_end
    assert due(at("09:00:00") - 1)[0] == []
    assert due(at("09:00:00"))[0] == ["soon"]
    assert sorted(due(at("23:00:00"))[0]) == ["later", "soon"]
    runtime.resume("soon")
    assert due(at("09:00:00"))[0] == []


# -- deleting --


def test_deleting_keeps_the_ledger(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    runtime.run()
    uid = runtime.state("a").uid
    runtime.delete("a")
    assert runtime.runtime.catalogue.get("a") is None
    assert runtime.runtime.ledger.uid_of("a") == uid
    assert [event.type for event in runtime.events("a")] == ["schedule.created", "schedule.deleted"]
    assert runtime.statuses("a") == ["succeeded"]
    with runtime.runtime.ledger.history([uid]) as record:
        (history,) = record.histories
        assert (history.state, len(history.revisions), len(list(history.jobs))) == (None, 1, 1)
    with pytest.raises(UnknownScheduleError):
        runtime.delete("a")


def test_deleting_cancels_what_is_queued_and_lets_the_rest_end(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    runtime.step()
    runtime.claim()
    runtime.wait_and_step("1m")
    runtime.trigger("a")
    runtime.delete("a")
    assert [(job.status, job.reason) for job in runtime.jobs("a")] == [
        ("running", None),
        ("cancelled", "deleted"),
        ("cancelled", "deleted"),
    ]


def test_deleting_a_schedule_frees_the_places_of_its_queued_jobs(runtime: Tenant) -> None:
    runtime.add("g.a", every="24h", group="g", max_concurrent=1)
    runtime.step()
    runtime.add("g.b", every="24h", group="g", max_concurrent=1)
    runtime.step()
    runtime.delete("g.a")
    runtime.step()
    assert runtime.statuses("g.b") == ["queued"]


def test_the_place_of_a_deleted_held_slot_is_not_lost(runtime: Tenant) -> None:
    agent: dict[str, Any] = {"every": "24h", "group": "g", "max_concurrent": 1}
    runtime.add("g.a", **agent)
    runtime.step()
    (running,) = runtime.claim()
    for name in ("g.b", "g.c"):
        runtime.wait("1s")
        runtime.add(name, **agent)
        runtime.step()
    runtime.settle(running)  # g.b may run now
    runtime.delete("g.b")
    runtime.step()
    assert runtime.statuses("g.c") == ["queued"]


# -- quiet hours --


def test_a_new_policy_is_in_force_at_the_next_tick_in_every_runtime(runtime: Tenant) -> None:
    other = runtime.neighbour()
    runtime.put_quiet_hours("20:00-21:00", "skip")
    runtime.add("a", every="10m", quiet_hours="nights")
    other.step()
    runtime.put_quiet_hours("08:00-08:15", "skip")
    runtime.run()
    runtime.wait("10m")
    other.step()
    runtime.wait("10m")
    other.step()
    assert runtime.slots("a") == ["08:00:00", "08:20:00"]
    assert runtime.reasons("a") == ["quiet_hours"]


def test_a_policy_that_opens_lets_the_held_slot_go(runtime: Tenant) -> None:
    runtime.put_quiet_hours("07:00-20:00")
    runtime.add("a", every="24h", quiet_hours="nights")
    runtime.step()
    assert runtime.state("a").release_at == at("20:00:00")
    runtime.wait("1h")
    runtime.put_quiet_hours("21:00-22:00")
    assert runtime.step() == 1
    assert [clock_of(job.created_at) for job in runtime.jobs("a")] == ["09:00:00"]


def test_a_policy_that_stays_closed_longer_keeps_the_slot_until_its_new_opening(runtime: Tenant) -> None:
    runtime.put_quiet_hours("07:00-09:00")
    runtime.add("a", every="24h", quiet_hours="nights")
    runtime.step()
    runtime.put_quiet_hours("07:00-10:00")
    assert runtime.wait_and_step("1h") == 0
    assert runtime.state("a").held_reason == "quiet_hours"
    assert runtime.wait_and_step("1h") == 1
    assert runtime.slots("a") == ["08:00:00"]


def test_a_policy_moves_the_opening_of_a_slot_that_waits_for_its_window(runtime: Tenant) -> None:
    runtime.put_quiet_hours("20:00-21:00")
    fields: dict[str, Any] = {"only_between": "09:00-18:00", "outside_window": "defer"}
    runtime.add("a", every="24h", quiet_hours="nights", **fields)
    runtime.step()
    assert runtime.state("a").release_at == at("09:00:00")
    runtime.put_quiet_hours("08:30-10:00")
    assert runtime.state("a").release_at == at("10:00:00")
    runtime.wait("1h")
    assert runtime.step() == 0
    assert runtime.wait_and_step("1h") == 1


def test_a_policy_that_no_longer_defers_ends_the_held_slot(runtime: Tenant) -> None:
    runtime.put_quiet_hours("07:00-09:00")
    runtime.add("a", every="24h", quiet_hours="nights")
    runtime.step()
    runtime.put_quiet_hours("07:00-09:00", "skip")
    runtime.step()
    assert runtime.reasons("a") == ["quiet_hours"]
    assert runtime.state("a").held_slot_at is None


def test_a_schedule_that_takes_another_policy_waits_for_its_opening(runtime: Tenant) -> None:
    runtime.put_quiet_hours("07:00-09:00")
    runtime.put_quiet_hours("07:00-10:00", policy_id="mornings")
    runtime.add("a", every="24h", quiet_hours="nights")
    runtime.step()
    runtime.edit("a", every="24h", quiet_hours="mornings")
    assert runtime.wait_and_step("1h") == 0
    assert runtime.wait_and_step("1h") == 1


def test_a_policy_of_others_touches_nobody(runtime: Tenant) -> None:
    runtime.put_quiet_hours("07:00-09:00")
    runtime.add("a", every="24h", quiet_hours="nights")
    runtime.step()
    before = runtime.state("a")
    runtime.put_quiet_hours("07:00-10:00", policy_id="holidays")
    runtime.step()
    assert runtime.state("a") == before


def test_policies_are_listed_and_those_in_use_are_not_deleted(runtime: Tenant) -> None:
    runtime.put_quiet_hours("22:00-07:00")
    runtime.put_quiet_hours("12:00-13:00", "skip", policy_id="lunch")
    runtime.add("a", every="24h", quiet_hours="nights")
    assert [(p.policy_id, p.action) for p in runtime.runtime.catalogue.policies()] == [
        ("lunch", "skip"),
        ("nights", "defer"),
    ]
    with pytest.raises(PolicyInUseError):
        delete_own_quiet_hours(runtime.runtime, "nights")
    delete_own_quiet_hours(runtime.runtime, "lunch")
    assert [policy.policy_id for policy in runtime.runtime.catalogue.policies()] == ["nights"]


# -- retention --


def test_pruning_takes_what_is_old_and_over_a_portion_at_a_time(runtime: Tenant) -> None:
    runtime.add("a", every="24h", if_running="allow")
    for day in range(40):
        runtime.step()
        if day:  # the job of the first day stays queued
            runtime.settle(*runtime.claim()[1:] if day == 1 else runtime.claim())
        runtime.wait("1d")
    cutoffs = Cutoffs(*[runtime.now - 30 * DAY] * 5)
    portions = []
    place: RetentionPosition | None = RetentionPosition("jobs")
    while place is not None and place.what == "jobs":
        portion = runtime.runtime.upkeep.forget(cutoffs, place, limit=4)
        portions.append(portion.rows)
        place = portion.next
    assert portions == [3, 4, 2]  # one of the first four is still running
    left = runtime.jobs("a")
    assert (len(left), left[0].number, left[0].status) == (31, 1, "running")
    assert left[1].ended_at is not None and left[1].ended_at >= cutoffs.jobs
    runtime.step()
    assert runtime.check().is_clean


# -- breakers --


def test_a_breaker_is_reset_once_and_on_record(runtime: Tenant) -> None:
    runtime.add("a", every="10m", circuit_breaker={"threshold": 1, "reset_after": "24h"})
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("1m")
    assert reset_breaker(runtime.runtime, "a") is True
    assert reset_breaker(runtime.runtime, "a") is False
    assert runtime.runtime.ledger.breaker("a").state == "closed"
    assert [t.reason for t in runtime.runtime.ledger.transitions("a", limit=9)] == [
        "manual_reset",
        "failure_threshold",
    ]
    assert len(runtime.events(None, "breaker.reset")) == 1
    assert runtime.wait_and_step("9m") == 1


def test_the_limits_of_a_schedule_as_they_stand(runtime: Tenant) -> None:
    runtime.add("g.a", every="24h", group="g", max_concurrent=2, max_outstanding=2)
    runtime.step()
    schedule = runtime.runtime.catalogue.get("g.a")
    assert schedule is not None
    shared = runtime.runtime.catalogue.shared_of(schedule)
    assert (shared.limit("capacity:g").outstanding, shared.limit("capacity:g").running) == (1, 0)
    runtime.claim()
    assert runtime.runtime.catalogue.shared_of(schedule).limit("capacity:g").running == 1


def test_slots_that_another_filled_meanwhile_are_left_out_of_a_backfill(runtime: Tenant) -> None:
    runtime.add("a", every="1h", if_running="allow")
    runtime.step()
    runtime.wait_and_step("3h")
    slots = [runtime.now - hours * 3_600_000_000 for hours in (3, 2, 1)]

    def fill(free: list[int]) -> list[int]:
        decision = runtime.runtime.catalogue.backfill(runtime.now, "a", free, by_hand.backfill)
        return [job.slot_at for job in decision.jobs]

    assert fill(slots[:2]) == slots[1:2]  # the first was fired by schedule
    assert fill(slots) == slots[2:]
    assert fill(slots) == []


def test_schedules_that_come_are_read_in_portions_with_their_times(runtime: Tenant) -> None:
    """The part of a definition that says when it fires is cut off by the database."""
    for name in "abcde":
        runtime.add(name, every="1h", owner="x" if name == "b" else None, payload={name: ',"target":'})
    runtime.add(
        "night", cron="0 2 * * *", timezone="Europe/Berlin", not_on=["sun"], only_between="01:00-03:00"
    )
    runtime.add("paused", every="1h", enabled=False)
    runtime.edit("e", every="2h")
    catalogue, before = runtime.runtime.catalogue, runtime.now + 2 * DAY
    for at_once in (1, 2, 3, 6, 100):
        pages = list(catalogue.coming(before=before, at_once=at_once))
        assert all(len(page) <= at_once for page in pages)
        coming = ComingSchedules([row for page in pages for row in page])
        assert sorted(coming.schedule_ids()) == [*"abcde", "night"]
        times = {schedule_id: text for _, _, schedule_id, _, _, _, text in coming.rows}
        assert len({times[name] for name in "abcd"}) == 1 and all(len(text) < 200 for text in times.values())
    states = [runtime.state(name) for name in coming.schedule_ids()]
    assert coming.names() == [(state.uid, state.schedule_id) for state in states]
    assert coming.starts() == [(state.anchor_at, state.next_slot_at) for state in states]
    assert coming.dues() == [state.next_run_at for state in states]
    for name, text in times.items():
        schedule = catalogue.get(name)
        assert schedule is not None and times_in(text) is times_in(text_of(schedule.definition))
    (soon,) = catalogue.coming(before=runtime.now + 1)
    assert {*ComingSchedules(soon).schedule_ids()} == set("abcd")
    (of_owner,) = catalogue.coming(ScheduleFilter(owner="x"), before=before)
    assert ComingSchedules(of_owner).schedule_ids() == ["b"]
    runtime.edit("a", every="3h")  # its times are those of the new revision
    (rows,) = catalogue.coming(ScheduleFilter(uids={runtime.state("a").uid}), before=before)
    assert [times_in(text).trigger for _, _, _, _, _, _, text in rows] == [parse_every("3h")]


def test_schedules_whose_pause_ends_by_itself_are_read_in_portions(runtime: Tenant) -> None:
    """However many they are: the timeline counts their slots after it."""
    runtime.add_many("abcde", every="1h")
    for name in "abcd":
        ends_at = runtime.now + (3 * DAY if name == "d" else HOUR)
        operations.pause_schedule(runtime.runtime, name, until=ends_at)
    runtime.pause("e")
    for at_once in (1, 2, 3, 100):
        pages = list(runtime.runtime.catalogue.resuming(before=runtime.now + DAY, at_once=at_once))
        assert all(len(page) <= at_once for page in pages)
        assert [one.state.schedule_id for page in pages for one in page] == [*"abc"]
