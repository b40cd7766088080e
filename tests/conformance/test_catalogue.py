"""The catalogue: schedules, revisions, quiet hours; every verb whole or not at all (E4, E5, R5, X1–X8)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide import by_hand
from everwhen.errors import DuplicateScheduleError, PolicyInUseError, StatusError, UnknownScheduleError
from everwhen.model.decision import Decision
from everwhen.model.instants import DAY
from everwhen.model.retention import Cutoffs, Place
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.operations import schedules as operations
from everwhen.operations.breakers import reset_breaker
from everwhen.operations.quiet_hours import delete_own_quiet_hours
from everwhen.ports.catalogue import ScheduleFilter
from tests.conformance.tenant import FAILED, Tenant, at, clock_of, submission

# -- creating --


def test_many_schedules_are_created_in_one_commit(house: Tenant) -> None:
    states = operations.create_schedules(house.house, [submission(name, every="1h") for name in "abc"])
    assert [state.schedule_id for state in states] == ["a", "b", "c"]
    assert len({state.uid for state in states}) == 3
    assert [event.schedule_id for event in house.events(None, "schedule.created")] == ["a", "b", "c"]
    assert house.step() == 3


@pytest.mark.parametrize("names", [["new", "there"], ["there", "new"], ["new", "other", "new"]])
def test_an_id_that_exists_refuses_all_of_them(house: Tenant, names: list[str]) -> None:
    house.add("there", every="1h")
    before = house.everything()
    with pytest.raises(DuplicateScheduleError) as refusal:
        operations.create_schedules(house.house, [submission(name, every="1h") for name in names])
    assert refusal.value.schedule_id == ("new" if names.count("new") == 2 else "there")
    assert house.everything() == before
    assert house.house.catalogue.get("new") is None


def test_a_uid_is_never_used_again(house: Tenant) -> None:
    house.add("a", uid="a1b2c3d4e5f6", every="1h")
    house.step()
    house.delete("a")
    before = house.everything()
    with pytest.raises(DuplicateScheduleError):
        house.add("a", uid="a1b2c3d4e5f6", every="1h")
    assert house.everything() == before
    house.add("a", every="1h")
    assert house.state("a").uid != "a1b2c3d4e5f6"


def test_a_schedule_added_again_starts_clean_beside_the_ledger_of_its_predecessor(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    house.run()
    house.delete("a")
    house.wait("30s")
    house.add("a", every="1h")
    assert house.step() == 1
    state = house.state("a")
    assert (state.fire_count, state.run_count, state.revision) == (1, 0, 1)
    assert len({job.job_id for job in house.jobs("a")}) == 2
    assert len({job.uid for job in house.jobs("a")}) == 2


# -- finding --


def test_a_schedule_is_found_by_its_id_and_by_its_uid(house: Tenant) -> None:
    house.add("a", every="1h")
    state = house.state("a")
    assert house.state(state.uid) == state
    assert house.house.catalogue.get("nobody") is None
    with pytest.raises(UnknownScheduleError):
        house.pause("nobody")
    assert house.pause(state.uid).status == "paused"


def test_an_id_that_is_another_ones_uid_means_the_schedule_of_that_id(house: Tenant) -> None:
    house.add("first", uid="000000000001", every="1h")
    house.add("000000000001", uid="000000000002", every="1h")
    house.add("third", uid="000000000003", every="1h")
    house.add("000000000004", uid="000000000005", every="1h")
    assert house.state("000000000001").uid == "000000000002"
    assert house.state("000000000005").schedule_id == "000000000004"


def test_a_schedule_comes_with_its_outstanding_jobs(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    house.step()
    house.claim()
    house.wait_and_step("1m")
    found = house.house.catalogue.get("a")
    assert found is not None
    assert [job.status for job in found.outstanding] == ["running", "queued"]


def test_schedules_of_a_source(house: Tenant) -> None:
    house.add("from-file", source="config", every="1h")
    house.add("by-hand", every="1h")
    house.edit("from-file", every="2h")
    found = house.house.catalogue.of_source("config")
    assert [(s.state.schedule_id, s.state.revision) for s in found] == [("from-file", 2)]
    assert house.house.catalogue.of_source("python") == []


def test_schedules_are_listed_by_id_in_pages(house: Tenant) -> None:
    house.add_many(["d", "a", "c", "b"], every="1h", owner="anna")
    house.add("e", cron="0 9 * * *", group="g")
    house.pause("c")
    states = house.house.catalogue.states

    def ids(wanted: ScheduleFilter, **page: Any) -> list[str]:
        return [state.schedule_id for state in states(wanted, **{"limit": 10, **page})]

    assert ids(ScheduleFilter(), limit=2) == ["a", "b"]
    assert ids(ScheduleFilter(), limit=2, after="b") == ["c", "d"]
    assert ids(ScheduleFilter(status="paused")) == ["c"]
    assert ids(ScheduleFilter(owner="anna", status="active")) == ["a", "b", "d"]
    assert ids(ScheduleFilter(group="g")) == ids(ScheduleFilter(type="cron")) == ["e"]


# -- changing --


def test_a_change_is_decided_on_the_row_as_it_stands(house: Tenant) -> None:
    house.add("a", every="1h", group="g", max_concurrent=3)
    house.step()
    seen: list[tuple[Schedule, int]] = []

    def look(schedule: Schedule, now: int, shared: Shared) -> Decision:
        seen.append((schedule, shared.limit("capacity:g").outstanding))
        return Decision(schedule.state, schedule.state, schedule.plan, [], [], [])

    before = house.everything()
    house.change("a", look)
    ((schedule, outstanding),) = seen
    assert (schedule.state, outstanding) == (house.state("a"), 1)
    assert [job.status for job in schedule.outstanding] == ["queued"]
    assert house.everything() == before


def test_a_change_that_raises_leaves_nothing(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    before = house.everything()
    with pytest.raises(StatusError):
        house.resume("a")

    def fail(_schedule: Schedule, _now: int, shared: Shared) -> Decision:
        shared.move("guard:nobody", outstanding=1)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        house.change("a", fail)
    assert house.everything() == before


def test_every_revision_is_kept_and_jobs_keep_theirs(house: Tenant) -> None:
    house.add("a", every="1h", payload={"v": 1})
    house.step()
    house.wait("10m")
    house.edit("a", every="1h", payload={"v": 2})
    house.edit("a", every="2h", payload={"v": 3})
    uid = house.state("a").uid
    with house.house.ledger.history([uid]) as history:
        (life,) = history.lives
    payloads = [(r.revision, r.in_force_at, r.plan.definition.payload) for r in life.revisions]
    later = at("08:10:00")
    assert payloads == [
        (1, at("08:00:00"), '{"v": 1}'),
        (2, later, '{"v": 2}'),
        (3, later, '{"v": 3}'),
    ]
    assert house.jobs("a")[0].revision == 1
    assert house.state("a").revision == 3


def test_a_change_of_the_times_ends_what_the_old_ones_had_open(house: Tenant) -> None:
    agent: dict[str, Any] = {"group": "g", "max_concurrent": 1}
    house.add("g.a", every="24h", **agent)
    house.add("g.b", every="24h", **agent)
    house.step()
    house.edit("g.b", cron="0 9 * * *", **agent)
    state = house.state("g.b")
    assert (state.held_slot_at, state.release_at, state.held_key) == (None, None, None)
    assert clock_of(state.next_slot_at or 0) == "09:00:00"
    assert house.reasons("g.b") == ["edited"]


def test_a_held_slot_is_decided_again_when_its_limit_changes(house: Tenant) -> None:
    house.add("g.a", every="24h", group="g", max_concurrent=1)
    house.add("g.b", every="24h", group="g", max_concurrent=1)
    house.step()
    assert house.state("g.b").held_reason == "at_capacity"
    house.edit("g.b", every="24h", group="g", max_concurrent=2)
    assert house.step() == 1


def test_pause_and_resume(house: Tenant) -> None:
    house.add("a", every="10m", if_running="queue")
    house.step()
    (running,) = house.claim()
    house.wait_and_step("10m")
    house.pause("a")
    state = house.state("a")
    assert (state.status, state.next_slot_at, state.next_run_at) == ("paused", None, None)
    assert [(job.status, job.reason) for job in house.jobs("a")] == [
        ("running", None),
        ("cancelled", "pause"),
    ]
    assert house.wait_and_step("1h") == 0
    house.resume("a")
    assert clock_of(house.state("a").next_run_at or 0) == "09:20:00"
    house.settle(running)
    assert house.events("a", "schedule.missed", "schedule.skipped") == []


def test_pauses_that_have_come_to_their_end_are_found(house: Tenant) -> None:
    for name, until in (("soon", at("09:00:00")), ("later", at("10:00:00")), ("for-ever", None)):
        house.add(name, every="24h", first_run="after_interval")
        operations.pause_schedule(house.house, name, until=until)
    due = house.house.catalogue.due_to_resume
    assert due(at("09:00:00") - 1) == []
    assert due(at("09:00:00")) == ["soon"]
    assert sorted(due(at("23:00:00"))) == ["later", "soon"]
    house.resume("soon")
    assert due(at("09:00:00")) == []


# -- deleting --


def test_deleting_keeps_the_ledger(house: Tenant) -> None:
    house.add("a", every="1h")
    house.step()
    house.run()
    uid = house.state("a").uid
    house.delete("a")
    assert house.house.catalogue.get("a") is None
    assert house.house.ledger.uid_of("a") == uid
    assert [event.type for event in house.events("a")] == ["schedule.created", "schedule.deleted"]
    assert house.statuses("a") == ["succeeded"]
    with house.house.ledger.history([uid]) as history:
        (life,) = history.lives
        assert (life.state, len(life.revisions), len(list(life.jobs))) == (None, 1, 1)
    with pytest.raises(UnknownScheduleError):
        house.delete("a")


def test_deleting_cancels_what_is_queued_and_lets_the_rest_end(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    house.step()
    house.claim()
    house.wait_and_step("1m")
    house.trigger("a")
    house.delete("a")
    assert [(job.status, job.reason) for job in house.jobs("a")] == [
        ("running", None),
        ("cancelled", "deleted"),
        ("cancelled", "deleted"),
    ]


def test_deleting_a_schedule_frees_the_places_of_its_queued_jobs(house: Tenant) -> None:
    house.add("g.a", every="24h", group="g", max_concurrent=1)
    house.step()
    house.add("g.b", every="24h", group="g", max_concurrent=1)
    house.step()
    house.delete("g.a")
    house.step()
    assert house.statuses("g.b") == ["queued"]


def test_the_place_of_a_deleted_held_slot_is_not_lost(house: Tenant) -> None:
    agent: dict[str, Any] = {"every": "24h", "group": "g", "max_concurrent": 1}
    house.add("g.a", **agent)
    house.step()
    (running,) = house.claim()
    for name in ("g.b", "g.c"):
        house.wait("1s")
        house.add(name, **agent)
        house.step()
    house.settle(running)  # g.b may go
    house.delete("g.b")
    house.step()
    assert house.statuses("g.c") == ["queued"]


# -- quiet hours --


def test_a_new_policy_is_in_force_at_the_next_tick_in_every_house(house: Tenant) -> None:
    other = house.neighbour()
    house.put_quiet_hours("20:00-21:00", "skip")
    house.add("a", every="10m", quiet_hours="nights")
    other.step()
    house.put_quiet_hours("08:00-08:15", "skip")
    house.run()
    house.wait("10m")
    other.step()
    house.wait("10m")
    other.step()
    assert house.slots("a") == ["08:00:00", "08:20:00"]
    assert house.reasons("a") == ["quiet_hours"]


def test_a_policy_that_opens_lets_the_held_slot_go(house: Tenant) -> None:
    house.put_quiet_hours("07:00-20:00")
    house.add("a", every="24h", quiet_hours="nights")
    house.step()
    assert house.state("a").release_at == at("20:00:00")
    house.wait("1h")
    house.put_quiet_hours("21:00-22:00")
    assert house.step() == 1
    assert [clock_of(job.created_at) for job in house.jobs("a")] == ["09:00:00"]


def test_a_policy_that_stays_closed_longer_keeps_the_slot_until_its_new_opening(house: Tenant) -> None:
    house.put_quiet_hours("07:00-09:00")
    house.add("a", every="24h", quiet_hours="nights")
    house.step()
    house.put_quiet_hours("07:00-10:00")
    assert house.wait_and_step("1h") == 0
    assert house.state("a").held_reason == "quiet_hours"
    assert house.wait_and_step("1h") == 1
    assert house.slots("a") == ["08:00:00"]


def test_a_policy_moves_the_opening_of_a_slot_that_waits_for_its_window(house: Tenant) -> None:
    house.put_quiet_hours("20:00-21:00")
    words: dict[str, Any] = {"only_between": "09:00-18:00", "outside_window": "defer"}
    house.add("a", every="24h", quiet_hours="nights", **words)
    house.step()
    assert house.state("a").release_at == at("09:00:00")
    house.put_quiet_hours("08:30-10:00")
    assert house.state("a").release_at == at("10:00:00")
    house.wait("1h")
    assert house.step() == 0
    assert house.wait_and_step("1h") == 1


def test_a_policy_that_no_longer_defers_ends_the_held_slot(house: Tenant) -> None:
    house.put_quiet_hours("07:00-09:00")
    house.add("a", every="24h", quiet_hours="nights")
    house.step()
    house.put_quiet_hours("07:00-09:00", "skip")
    house.step()
    assert house.reasons("a") == ["quiet_hours"]
    assert house.state("a").held_slot_at is None


def test_a_schedule_that_takes_another_policy_waits_for_its_opening(house: Tenant) -> None:
    house.put_quiet_hours("07:00-09:00")
    house.put_quiet_hours("07:00-10:00", policy_id="mornings")
    house.add("a", every="24h", quiet_hours="nights")
    house.step()
    house.edit("a", every="24h", quiet_hours="mornings")
    assert house.wait_and_step("1h") == 0
    assert house.wait_and_step("1h") == 1


def test_a_policy_of_others_touches_nobody(house: Tenant) -> None:
    house.put_quiet_hours("07:00-09:00")
    house.add("a", every="24h", quiet_hours="nights")
    house.step()
    before = house.state("a")
    house.put_quiet_hours("07:00-10:00", policy_id="holidays")
    house.step()
    assert house.state("a") == before


def test_policies_are_listed_and_those_in_use_are_not_deleted(house: Tenant) -> None:
    house.put_quiet_hours("22:00-07:00")
    house.put_quiet_hours("12:00-13:00", "skip", policy_id="lunch")
    house.add("a", every="24h", quiet_hours="nights")
    assert [(p.policy_id, p.action) for p in house.house.catalogue.policies()] == [
        ("lunch", "skip"),
        ("nights", "defer"),
    ]
    with pytest.raises(PolicyInUseError):
        delete_own_quiet_hours(house.house, "nights")
    delete_own_quiet_hours(house.house, "lunch")
    assert [policy.policy_id for policy in house.house.catalogue.policies()] == ["nights"]


# -- retention --


def test_pruning_takes_what_is_old_and_over_a_portion_at_a_time(house: Tenant) -> None:
    house.add("a", every="24h", if_running="allow")
    for day in range(40):
        house.step()
        if day:  # the job of the first day stays queued
            house.settle(*house.claim()[1:] if day == 1 else house.claim())
        house.wait("1d")
    cutoffs = Cutoffs(*[house.now - 30 * DAY] * 5)
    portions = []
    place: Place | None = Place("jobs")
    while place is not None and place.what == "jobs":
        portion = house.house.upkeep.forget(cutoffs, place, limit=4)
        portions.append(portion.rows)
        place = portion.next
    assert portions == [3, 4, 2]  # one of the first four is still running
    left = house.jobs("a")
    assert (len(left), left[0].number, left[0].status) == (31, 1, "running")
    assert left[1].ended_at is not None and left[1].ended_at >= cutoffs.jobs
    house.step()
    assert house.check().is_clean


# -- breakers --


def test_a_breaker_is_reset_once_and_on_record(house: Tenant) -> None:
    house.add("a", every="10m", circuit_breaker={"threshold": 1, "reset_after": "24h"})
    house.step()
    house.run(FAILED)
    house.wait("1m")
    assert reset_breaker(house.house, "a") is True
    assert reset_breaker(house.house, "a") is False
    assert house.house.ledger.breaker("a").state == "closed"
    assert [t.reason for t in house.house.ledger.transitions("a", limit=9)] == [
        "manual_reset",
        "failure_threshold",
    ]
    assert len(house.events(None, "breaker.reset")) == 1
    assert house.wait_and_step("9m") == 1


def test_the_limits_of_a_schedule_as_they_stand(house: Tenant) -> None:
    house.add("g.a", every="24h", group="g", max_concurrent=2, max_outstanding=2)
    house.step()
    schedule = house.house.catalogue.get("g.a")
    assert schedule is not None
    shared = house.house.catalogue.shared_of(schedule)
    assert (shared.limit("capacity:g").outstanding, shared.limit("capacity:g").running) == (1, 0)
    house.claim()
    assert house.house.catalogue.shared_of(schedule).limit("capacity:g").running == 1


def test_slots_that_another_filled_meanwhile_are_left_out_of_a_backfill(house: Tenant) -> None:
    house.add("a", every="1h", if_running="allow")
    house.step()
    house.wait_and_step("3h")
    slots = [house.now - hours * 3_600_000_000 for hours in (3, 2, 1)]

    def fill(free: list[int]) -> list[int]:
        decision = house.house.catalogue.backfill(house.now, "a", free, by_hand.backfill)
        return [job.slot_at for job in decision.jobs]

    assert fill(slots[:2]) == slots[1:2]  # the first was fired by the clock
    assert fill(slots) == slots[2:]
    assert fill(slots) == []
