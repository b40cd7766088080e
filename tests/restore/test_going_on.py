"""What was restored goes on (R5): no id is used again, nothing that may have been done is done again."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.errors import StoreError
from everwhen.model.instants import to_datetime
from everwhen.operations.upcoming import upcoming
from everwhen.operations.why import why
from everwhen.testing.manual import ManualClock
from tests.conformance.tenant import FAILED, START, Tenant
from tests.restore.places import Place

BEGUN = ManualClock(START).now()
MINUTE = 60_000_000
HIGHER = 1_000_000


def worked(place: Place, *, for_minutes: int = 3, **fields: Any) -> Tenant:
    """A schedule of every minute that has fired and run a few times."""
    runtime = place.move_in()
    runtime.add("a", **{"every": "1m", **fields})
    runtime.step()
    runtime.run()
    for _ in range(for_minutes - 1):
        runtime.wait_and_step("1m")
        runtime.run()
    return runtime


def went_on(place: Place, runtime: Tenant, minutes: int = 4) -> list[str]:
    """Backed up, and used for a while before it is lost; the ids of the jobs that nobody remembers."""
    place.back_up(runtime)
    known = {job.job_id for job in runtime.jobs()}
    for _ in range(minutes):
        runtime.wait_and_step("1m")
        runtime.run()
    forgotten = [job.job_id for job in runtime.jobs() if job.job_id not in known]
    place.leave(runtime)
    return forgotten


def test_after_a_restore_no_job_id_is_used_again_and_firings_are_counted_on(place: Place) -> None:
    forgotten = went_on(place, worked(place))
    place.restore()
    runtime = place.move_in("node-2")
    runtime.wait_and_step("1m")
    runtime.run()
    state = runtime.state("a")
    ids = [job.job_id for job in runtime.jobs()]
    assert len(forgotten) == 4 and not set(forgotten) & set(ids)
    assert ids[-1] == f"sched-{state.uid}-n{HIGHER + 4}-rc0"
    assert (state.firings, state.fire_count, len(ids)) == (4, HIGHER + 4, 4)
    assert runtime.check().is_clean, runtime.check()
    place.leave(runtime)


def test_what_lay_between_backup_and_restore_does_not_fire_and_why_says_so(place: Place) -> None:
    went_on(place, worked(place))
    place.clock.advance("30s")
    restored = place.restore()
    assert (restored.backed_up_at, restored.at) == (BEGUN + 2 * MINUTE, place.clock.now())
    runtime = place.move_in("node-2")
    assert runtime.step() == 0
    assert [slot.slot_at for slot in upcoming(runtime.runtime, "a", 1)] == [BEGUN + 7 * MINUTE]
    runtime.wait_and_step("30s")
    assert [job.slot_at for job in runtime.jobs()[3:]] == [BEGUN + 7 * MINUTE]
    said = why(runtime.runtime, "a", BEGUN + 4 * MINUTE)
    assert (said.fate, said.reason) == ("span", "restored")
    assert "lies between a backup and its restore" in said.sentence
    assert said.evidence is not None
    assert [one.event.type for one in said.evidence.events] == ["system.restored"]
    (event,) = runtime.events(None, "system.restored")
    assert event.detail == {"backed_up_at": BEGUN + 2 * MINUTE, "catch_up": False}
    assert runtime.check().is_clean, runtime.check()
    place.leave(runtime)


@pytest.mark.parametrize(("policy", "jobs"), [("skip", 0), ("run_once", 1), ("run_all", 4)])
def test_with_catch_up_the_time_between_is_an_outage(place: Place, policy: str, jobs: int) -> None:
    forgotten = went_on(place, worked(place, catch_up=policy, misfire_grace="1s", if_running="queue"))
    place.clock.advance("30s")
    place.restore(catch_up=True)
    runtime = place.move_in("node-2")
    runtime.step()
    runtime.run()
    made = runtime.jobs()[3:]
    assert len(made) == jobs
    assert {job.number > HIGHER for job in made} <= {True}
    assert not {job.job_id for job in made} & set(forgotten)
    assert runtime.check().is_clean, runtime.check()
    place.leave(runtime)


def test_what_was_queued_running_held_or_waiting_at_the_backup_ends_on_record(place: Place) -> None:
    runtime = place.move_in()
    runtime.add("a", every="1h", if_running="queue")
    runtime.add("poll", every="1h", group="p", command="poll", max_outstanding=1)
    runtime.add("held", every="1h", group="p", command="poll", max_outstanding=1)
    runtime.add("retried", every="1h", max_retries=3, retry_delay="10m")
    runtime.add("gone", every="1h")
    runtime.add("chain", every="1h", interval_from="completion")
    runtime.step()
    for claimed in runtime.claim():
        if claimed.job.schedule_id == "retried":
            runtime.settle(claimed, outcome=FAILED)
    runtime.trigger("a")
    runtime.delete("gone")
    place.back_up(runtime)
    held_first = runtime.state("held").held_slot_at or runtime.state("poll").held_slot_at
    assert held_first is not None
    place.leave(runtime)
    place.clock.advance("10m")
    restored = place.restore()
    runtime = place.move_in("node-2")
    assert restored.jobs == 6
    assert {job.status for job in runtime.jobs()} == {"cancelled", "failed"}
    assert {job.released_at is None for job in runtime.jobs()} == {False}
    assert runtime.step() == 0 and runtime.claim() == [] and runtime.rescue() == 0
    assert runtime.state("chain").next_slot_at == place.clock.now() + 60 * MINUTE
    assert runtime.check().is_clean, runtime.check()
    runtime.wait_and_step("50m")
    assert {job.schedule_id for job in runtime.run()} >= {"a", "retried"}
    runtime.wait_and_step("10m")
    assert [job.schedule_id for job in runtime.run()][-1] == "chain"
    assert runtime.check().is_clean, runtime.check()
    place.leave(runtime)


def test_with_catch_up_what_was_open_at_the_backup_is_done(place: Place) -> None:
    runtime = place.move_in()
    runtime.add("a", every="1h", if_running="queue")
    runtime.add("retried", every="1h", max_retries=3, retry_delay="10m")
    runtime.step()
    for claimed in runtime.claim():
        if claimed.job.schedule_id == "retried":
            runtime.settle(claimed, outcome=FAILED)
    runtime.trigger("a")
    place.back_up(runtime)
    before = sorted(job.job_id for job in runtime.jobs() if job.is_outstanding)
    place.leave(runtime)
    place.clock.advance("20m")
    assert place.restore(catch_up=True).jobs == 0
    runtime = place.move_in("node-2")
    assert runtime.rescue() == 1  # the one that ran
    done: list[str] = []
    while jobs := runtime.run():
        done += [job.job_id for job in jobs]
    assert sorted(done) == before and len(before) == 3
    assert runtime.check().is_clean, runtime.check()
    place.leave(runtime)


def test_a_one_shot_whose_instant_lay_between_is_done(place: Place) -> None:
    runtime = place.move_in()
    runtime.add("once", at=to_datetime(BEGUN + 2 * MINUTE).isoformat())
    went_on(place, runtime)
    place.restore()
    runtime = place.move_in("node-2")
    assert runtime.step() == 0
    assert (runtime.state("once").status, runtime.state("once").status_reason) == ("done", "in_the_past")
    said = why(runtime.runtime, "once")
    assert (said.slot_at, said.reason) == (BEGUN + 2 * MINUTE, "restored")
    assert runtime.check().is_clean, runtime.check()
    place.leave(runtime)


def test_a_restore_is_refused_while_a_node_beats_and_changes_nothing(place: Place) -> None:
    runtime = worked(place)
    place.back_up(runtime)
    runtime.wait_and_step("1m")
    jobs = runtime.jobs()
    runtime.close()  # killed: no sign-off
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
    runtime = place.move_in("node-2")
    runtime.wait_and_step("1m")
    between, cursor = runtime.jobs()[-1].job_id, runtime.runtime.ledger.last_event_id()
    place.leave(runtime)
    place.clock.advance("5m")
    place.restore()  # nobody of the restored database is taken to live
    runtime = place.move_in("node-3")
    runtime.wait_and_step("1m")
    assert between == f"sched-{runtime.state('a').uid}-n{HIGHER + 4}-rc0"
    assert runtime.jobs()[-1].number == 2 * HIGHER + 4
    (reported,) = runtime.runtime.ledger.events_after(cursor, limit=10)[:1]
    assert reported.event.type == "system.restored"
    place.backup = place.backup.with_name("second")
    place.back_up(runtime)
    place.leave(runtime)
    place.clock.advance("5m")
    place.restore()
    runtime = place.move_in("node-4")
    runtime.wait_and_step("1m")
    assert (runtime.jobs()[-1].number, runtime.state("a").firings) == (3 * HIGHER + 5, 5)
    assert runtime.check().is_clean, runtime.check()
    place.leave(runtime)


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
