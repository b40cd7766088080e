"""What is put on record when it happens: slots that wait too long, schedulers that stall."""

from __future__ import annotations

import pytest

from everwhen.engine.service import Service, ServiceOptions
from everwhen.engine.slow_runs import SlowWatch
from everwhen.engine.watches import OverdueWatch, StallWatch
from everwhen.errors import StoreError
from everwhen.model.events import Event
from everwhen.testing import ManualScheduler, manual_scheduler


def scheduler() -> ManualScheduler:
    return manual_scheduler("2026-01-05T08:00:00Z")


def overdue(s: ManualScheduler) -> list[Event]:
    return s.events(None, "schedule.overdue")


def test_a_slot_that_nobody_decides_is_overdue_after_its_gap_and_that_is_said_once() -> None:
    s = scheduler()
    s.add("often", every="10s")
    s.add("seldom", every="1h")
    watch = OverdueWatch(s.runtime)
    s.clock.advance("50s")
    watch.step(s.node)
    assert overdue(s) == []
    s.clock.advance("60s")
    watch.step(s.node)
    (event,) = overdue(s)
    assert (event.schedule_id, event.slot_at) == ("often", s.state("often").next_slot_at)
    for watching in (watch, OverdueWatch(s.runtime)):  # a restart does not say it again
        s.clock.advance("1m")
        watching.step(s.node)
    assert len(overdue(s)) == 1
    s.clock.advance("1h")
    watch.step(s.node)
    assert [one.schedule_id for one in overdue(s)] == ["often", "seldom"]
    s.step()
    assert s.check().is_clean


def test_a_slot_that_is_held_for_too_long_is_overdue() -> None:
    s = scheduler()
    s.add("g.long", every="24h", group="g", max_concurrent=1)
    s.tick()
    s.add("g.held", at="2026-01-05T08:00:10Z", group="g", max_concurrent=1)
    s.clock.advance("10s")
    s.tick()
    assert s.state("g.held").held_reason == "at_capacity"
    s.clock.advance("61s")
    OverdueWatch(s.runtime).step(s.node)
    assert [(one.schedule_id, one.reason) for one in overdue(s)] == [("g.held", "at_capacity")]


def test_a_slot_that_is_held_is_overdue_when_it_has_waited_for_its_gap() -> None:
    s = scheduler()
    s.add("g.long", every="24h", group="g", max_concurrent=1)
    s.tick()
    s.add("g.held", every="1h", first_run="after_interval", group="g", max_concurrent=1)
    s.run_until("2026-01-05T09:00:00Z", work=False)
    assert s.state("g.held").held_reason == "at_capacity"
    for length, count in (("59m", 0), ("61s", 1)):
        s.clock.advance(length)
        OverdueWatch(s.runtime).step(s.node)
        assert len(overdue(s)) == count


def test_a_scheduler_that_has_been_silent_for_long_leaves_the_looking_to_others() -> None:
    s = scheduler()
    s.add("a", every="10s")
    s.beat()  # of a node with a smaller id, which is not known to be lost yet
    for length, count in (("59s", 0), ("61s", 1)):
        s.clock.advance(length)
        OverdueWatch(s.runtime).step("zz-the-last-of-all")
        assert len(overdue(s)) == count


def test_no_slot_that_is_held_is_overdue_while_the_system_is_paused() -> None:
    s = scheduler()
    s.add("g.long", every="24h", group="g", max_concurrent=1)
    s.tick()
    s.add("g.held", at="2026-01-05T08:00:10Z", group="g", max_concurrent=1)
    s.clock.advance("10s")
    s.tick()
    s.pause_system()
    s.clock.advance("1h")
    OverdueWatch(s.runtime).step(s.node)
    assert s.state("g.held").held_reason == "at_capacity"
    assert overdue(s) == []


def test_nothing_is_overdue_while_the_system_is_paused_or_where_another_scheduler_looks() -> None:
    s = scheduler()
    s.add("a", every="10s")
    s.clock.advance("5m")
    s.beat()
    OverdueWatch(s.runtime).step("zz-the-last-of-all")
    assert overdue(s) == []
    s.pause_system()
    OverdueWatch(s.runtime).step(s.node)
    assert overdue(s) == []


def test_a_loop_that_stalls_is_on_record_once_until_it_goes_on() -> None:
    s = scheduler()
    service = Service(s.runtime, {}, ServiceOptions(check_interval=1.0))
    service.status = "running"
    watch = service._stall_watch
    for seconds in ("11s", "1s"):
        s.clock.advance(seconds)
        watch.look(service._why_stalled())
        watch.tell()
    (event,) = s.events(None, "scheduler.stalled")
    assert event.detail["reason"] == "the loop has completed no evaluation for 10s"
    service.ticker.step()
    watch.look(service._why_stalled())
    s.clock.advance("11s")
    watch.look(service._why_stalled())
    watch.tell()
    assert len(s.events(None, "scheduler.stalled")) == 2


def test_a_stall_that_cannot_be_written_is_written_later() -> None:
    s = scheduler()
    written: list[object] = []
    is_away = [True]

    def record(kind: str, detail: object) -> None:
        if is_away[0]:
            raise StoreError("away", fault="away")
        written.append(detail if kind == "scheduler.stalled" else kind)

    watch = StallWatch(s.clock, record)
    watch.look("the database is away")
    with pytest.raises(StoreError):
        watch.tell()
    watch.look(None)
    is_away[0] = False
    watch.tell()
    watch.tell()
    assert written == [
        {"reason": "the database is away", "noticed_at": s.clock.now()},
        "scheduler.recovered",
    ]


def run_for(s: ManualScheduler, seconds: int) -> None:
    """Fire the next slot of the one schedule, and let its run take so long."""
    s.run_until(s.state("s").next_slot_at or 0, work=False)
    (job,) = s.claim()
    s.clock.advance(seconds)
    s.settle(job)


def slow(s: ManualScheduler) -> list[Event]:
    return s.events(None, "schedule.slow")


def test_a_run_is_slow_after_three_times_the_usual_duration_and_a_minute_and_that_is_said_once() -> None:
    s = scheduler()
    s.add("s", every="10m", owner="ada")
    for seconds in [30] * 19 + [20]:
        run_for(s, seconds)
    s.run_until(s.state("s").next_slot_at or 0, work=False)
    (job,) = s.claim()
    watch = SlowWatch(s.runtime)
    s.clock.advance(149)
    watch.step(s.node)
    assert slow(s) == []
    for watching in (watch, watch, SlowWatch(s.runtime)):  # a restart does not say it again
        s.clock.advance(31)
        watching.step(s.node)
    (event,) = slow(s)
    assert (event.schedule_id, event.owner, event.job_id) == ("s", "ada", job.job.job_id)
    assert event.detail == {"attempt": 1, "seconds": 180.0, "usual_seconds": 30.0}
    s.settle(job)
    assert s.check().is_clean


def test_nothing_is_slow_where_nobody_knows_what_is_usual_or_another_scheduler_looks() -> None:
    s = scheduler()
    s.add("s", every="10m")
    for _ in range(19):
        run_for(s, 1)
    s.run_until(s.state("s").next_slot_at or 0, work=False)
    (job,) = s.claim()
    s.clock.advance("5m")
    SlowWatch(s.runtime).step(s.node)
    s.settle(job)
    run_for(s, 1)
    s.run_until(s.state("s").next_slot_at or 0, work=False)
    s.claim()
    s.clock.advance("20m")
    s.beat()
    SlowWatch(s.runtime).step("zz-the-last-of-all")
    assert slow(s) == []
    SlowWatch(s.runtime).step(s.node)
    assert len(slow(s)) == 1
