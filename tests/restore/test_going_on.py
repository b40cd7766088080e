"""What was restored goes on (R5): no id is used again, nothing that may have been done is done again."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.errors import StoreError
from everwhen.model.instants import moment_of
from everwhen.operations.upcoming import upcoming
from everwhen.operations.why import why
from everwhen.testing.manual import ManualClock
from tests.conformance.tenant import FAILED, START, Tenant
from tests.restore.places import Place

BEGUN = ManualClock(START).now()
MINUTE = 60_000_000
HIGHER = 1_000_000


def worked(place: Place, *, for_minutes: int = 3, **words: Any) -> Tenant:
    """A schedule of every minute that has fired and run a few times."""
    house = place.move_in()
    house.add("a", **{"every": "1m", **words})
    house.step()
    house.run()
    for _ in range(for_minutes - 1):
        house.wait_and_step("1m")
        house.run()
    return house


def went_on(place: Place, house: Tenant, minutes: int = 4) -> list[str]:
    """Backed up, and used for a while before it is lost; the ids of the jobs that nobody remembers."""
    place.back_up(house)
    known = {job.job_id for job in house.jobs()}
    for _ in range(minutes):
        house.wait_and_step("1m")
        house.run()
    forgotten = [job.job_id for job in house.jobs() if job.job_id not in known]
    place.leave(house)
    return forgotten


def test_after_a_restore_no_job_id_is_used_again_and_firings_are_counted_on(place: Place) -> None:
    forgotten = went_on(place, worked(place))
    place.restore()
    house = place.move_in("node-2")
    house.wait_and_step("1m")
    house.run()
    state = house.state("a")
    ids = [job.job_id for job in house.jobs()]
    assert len(forgotten) == 4 and not set(forgotten) & set(ids)
    assert ids[-1] == f"sched-{state.uid}-n{HIGHER + 4}-rc0"
    assert (state.firings, state.fire_count, len(ids)) == (4, HIGHER + 4, 4)
    assert house.check().is_clean, house.check()
    place.leave(house)


def test_what_lay_between_backup_and_restore_does_not_fire_and_why_says_so(place: Place) -> None:
    went_on(place, worked(place))
    place.clock.advance("30s")
    restored = place.restore()
    assert (restored.backed_up_at, restored.at) == (BEGUN + 2 * MINUTE, place.clock.now())
    house = place.move_in("node-2")
    assert house.step() == 0
    assert [slot.slot_at for slot in upcoming(house.house, "a", 1)] == [BEGUN + 7 * MINUTE]
    house.wait_and_step("30s")
    assert [job.slot_at for job in house.jobs()[3:]] == [BEGUN + 7 * MINUTE]
    said = why(house.house, "a", BEGUN + 4 * MINUTE)
    assert (said.fate, said.reason) == ("span", "restored")
    assert "lies between a backup and its restore" in said.sentence
    (event,) = house.events(None, "system.restored")
    assert event.detail == {"backed_up_at": BEGUN + 2 * MINUTE, "catch_up": False}
    assert house.check().is_clean, house.check()
    place.leave(house)


@pytest.mark.parametrize(("policy", "jobs"), [("skip", 0), ("run_once", 1), ("run_all", 4)])
def test_with_catch_up_the_time_between_is_an_outage(place: Place, policy: str, jobs: int) -> None:
    forgotten = went_on(place, worked(place, catch_up=policy, misfire_grace="1s", if_running="queue"))
    place.clock.advance("30s")
    place.restore(catch_up=True)
    house = place.move_in("node-2")
    house.step()
    house.run()
    made = house.jobs()[3:]
    assert len(made) == jobs
    assert {job.number > HIGHER for job in made} <= {True}
    assert not {job.job_id for job in made} & set(forgotten)
    assert house.check().is_clean, house.check()
    place.leave(house)


def test_what_was_queued_running_held_or_waiting_at_the_backup_ends_on_record(place: Place) -> None:
    house = place.move_in()
    house.add("a", every="1h", if_running="queue")
    house.add("poll", every="1h", group="p", command="poll", max_outstanding=1)
    house.add("held", every="1h", group="p", command="poll", max_outstanding=1)
    house.add("retried", every="1h", max_retries=3, retry_delay="10m")
    house.add("gone", every="1h")
    house.add("chain", every="1h", interval_from="completion")
    house.step()
    for claimed in house.claim():
        if claimed.job.schedule_id == "retried":
            house.settle(claimed, outcome=FAILED)
    house.trigger("a")
    house.delete("gone")
    place.back_up(house)
    held_first = house.state("held").held_slot_at or house.state("poll").held_slot_at
    assert held_first is not None
    place.leave(house)
    place.clock.advance("10m")
    restored = place.restore()
    house = place.move_in("node-2")
    assert restored.jobs == 6
    assert {job.status for job in house.jobs()} == {"cancelled", "failed"}
    assert {job.released_at is None for job in house.jobs()} == {False}
    assert house.step() == 0 and house.claim() == [] and house.rescue() == 0
    assert house.state("chain").next_slot_at == place.clock.now() + 60 * MINUTE
    assert house.check().is_clean, house.check()
    house.wait_and_step("50m")
    assert {job.schedule_id for job in house.run()} >= {"a", "retried"}
    house.wait_and_step("10m")
    assert [job.schedule_id for job in house.run()][-1] == "chain"
    assert house.check().is_clean, house.check()
    place.leave(house)


def test_with_catch_up_what_was_open_at_the_backup_is_done(place: Place) -> None:
    house = place.move_in()
    house.add("a", every="1h", if_running="queue")
    house.add("retried", every="1h", max_retries=3, retry_delay="10m")
    house.step()
    for claimed in house.claim():
        if claimed.job.schedule_id == "retried":
            house.settle(claimed, outcome=FAILED)
    house.trigger("a")
    place.back_up(house)
    before = sorted(job.job_id for job in house.jobs() if job.is_outstanding)
    place.leave(house)
    place.clock.advance("20m")
    assert place.restore(catch_up=True).jobs == 0
    house = place.move_in("node-2")
    assert house.rescue() == 1  # the one that ran
    done: list[str] = []
    while jobs := house.run():
        done += [job.job_id for job in jobs]
    assert sorted(done) == before and len(before) == 3
    assert house.check().is_clean, house.check()
    place.leave(house)


def test_a_one_shot_whose_instant_lay_between_is_done(place: Place) -> None:
    house = place.move_in()
    house.add("once", at=moment_of(BEGUN + 2 * MINUTE).isoformat())
    went_on(place, house)
    place.restore()
    house = place.move_in("node-2")
    assert house.step() == 0
    assert (house.state("once").status, house.state("once").status_reason) == ("done", "in_the_past")
    said = why(house.house, "once")
    assert (said.slot_at, said.reason) == (BEGUN + 2 * MINUTE, "restored")
    assert house.check().is_clean, house.check()
    place.leave(house)


def test_a_restore_is_refused_while_a_node_beats_and_changes_nothing(place: Place) -> None:
    house = worked(place)
    place.back_up(house)
    house.wait_and_step("1m")
    jobs = house.jobs()
    house.close()  # killed: no farewell
    with pytest.raises(StoreError, match=r"may be running \(node-1.*stop every process"):
        place.restore()
    place.clock.advance("61s")
    other = place.move_in("other")
    assert other.jobs() == jobs
    place.leave(other)
    place.clock.advance("1s")
    assert place.restore().schedules == 1


def test_two_restores_of_one_backup_leave_two_spans_and_numbers_higher_still(place: Place) -> None:
    went_on(place, worked(place))
    place.restore()
    house = place.move_in("node-2")
    house.wait_and_step("1m")
    between, cursor = house.jobs()[-1].job_id, house.house.ledger.last_event_id()
    place.leave(house)
    place.clock.advance("5m")
    place.restore()  # nobody of the restored database is taken to live
    house = place.move_in("node-3")
    house.wait_and_step("1m")
    assert between == f"sched-{house.state('a').uid}-n{HIGHER + 4}-rc0"
    assert house.jobs()[-1].number == 2 * HIGHER + 4
    (told,) = house.house.ledger.events_after(cursor, limit=10)[:1]
    assert told.event.type == "system.restored"
    place.backup = place.backup.with_name("second")
    place.back_up(house)
    place.leave(house)
    place.clock.advance("5m")
    place.restore()
    house = place.move_in("node-4")
    house.wait_and_step("1m")
    assert (house.jobs()[-1].number, house.state("a").firings) == (3 * HIGHER + 5, 5)
    assert house.check().is_clean, house.check()
    place.leave(house)


def test_a_node_that_slept_through_a_restore_decides_by_what_was_restored(postgres_place: Place) -> None:
    """On SQLite it has the file open, and nothing is restored."""
    place = postgres_place
    sleeper = worked(place)
    place.back_up(sleeper)
    sleeper.edit("a", every="2m")
    sleeper.wait_and_step("2m")
    place.clock.advance("2m")
    place.restore()
    other = place.move_in("node-2")
    other.edit("a", every="3m")  # the revision 2 that the sleeper does not know
    for _ in range(4):
        sleeper.wait_and_step("3m")
        sleeper.run()
    assert other.check().is_clean, other.check()
    other.close()
    sleeper.close()
