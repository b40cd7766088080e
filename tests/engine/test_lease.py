"""Leases: who is alive, who is lost, and what a clock that was set changes about it."""

from __future__ import annotations

from threading import Thread

import pytest

from everwhen.engine.lease import Lease
from everwhen.engine.service import Service, ServiceOptions
from everwhen.errors import ConfigError
from everwhen.model.events import Event
from everwhen.model.node import Role
from everwhen.store.lanes import Lane
from everwhen.store.opened import store_of
from everwhen.store.sqlite.database import SqliteDatabase
from everwhen.testing import manual_scheduler
from everwhen.testing.manual import ManualClock, ManualScheduler
from everwhen.wiring import open_stack

START = "2026-01-05T08:00:00Z"


def a_lease(s: ManualScheduler, role: Role = "up") -> Lease:
    lease = Lease(s.runtime, role=role, seconds=30.0)
    lease.begin()
    return lease


def lost(s: ManualScheduler) -> list[Event]:
    return s.events(None, "node.lost")


@pytest.mark.parametrize("role", ["up", "scheduler", "worker"])
def test_a_node_is_on_record_with_its_role(role: Role) -> None:
    s = manual_scheduler(START)
    lease = a_lease(s, role)
    (node,) = [node for node in store_of(s.runtime).upkeep.nodes() if node.node == lease.node]
    assert (node.role, node.heartbeat_at, node.clock_skew) == (role, s.clock.now(), 0)


def test_a_node_whose_lease_expired_is_reported_once() -> None:
    s = manual_scheduler(START)
    dead, alive = a_lease(s, "worker"), a_lease(s)
    s.clock.advance("20s")
    s.beat()
    alive.beat()
    alive.rescue()
    assert lost(s) == []
    s.clock.advance("11s")
    alive.rescue()
    alive.rescue()
    (event,) = lost(s)
    assert (event.detail["node"], event.detail["role"]) == (dead.node, "worker")


def test_a_heartbeat_whose_write_takes_20_s_leaves_a_lease_that_is_20_s_old() -> None:
    """The heartbeat on record is as old as the beginning of its write."""
    s = manual_scheduler(START)
    lease = a_lease(s)
    s.clock.advance("25s")
    slow = Thread(target=lease.beat)
    database = s.stack.database
    assert isinstance(database, SqliteDatabase)

    def keep_it_waiting(_connection: object) -> None:
        slow.start()
        while not database.queue_length:
            assert slow.is_alive()
        s.clock.advance("20s")

    database.write(Lane.TICK, keep_it_waiting)
    slow.join(60)
    assert lease.age == 20.0
    assert lease.is_fresh
    s.clock.advance("11s")
    assert not lease.is_fresh


def test_a_node_that_comes_back_can_be_lost_again() -> None:
    s = manual_scheduler(START)
    slow, other = a_lease(s), a_lease(s)
    for _ in range(2):
        s.clock.advance("20s")
        other.beat()
        s.clock.advance("11s")
        s.beat()
        other.beat()
        other.rescue()
        slow.beat()
    assert [event.detail["node"] for event in lost(s)] == [slow.node, slow.node]


def test_after_an_outage_in_which_nobody_could_beat_the_first_one_back_takes_nothing() -> None:
    s = manual_scheduler(START)
    one, two = a_lease(s), a_lease(s, "worker")
    s.clock.advance("40s")  # the database is away: neither heartbeat is on record
    s.beat()
    one.beat()
    assert (one.rescue(), lost(s)) == (0, [])
    two.beat()
    s.clock.advance("25s")
    s.beat()
    one.beat()
    two.beat()
    s.clock.advance("6s")
    one.rescue()
    assert lost(s) == []
    s.clock.advance("20s")
    s.beat()
    one.beat()
    s.clock.advance("10s")
    one.beat()
    one.rescue()
    assert [event.detail["node"] for event in lost(s)] == [two.node]  # and then it counts again


def test_leases_are_judged_by_the_clock_that_was_looked_at() -> None:
    """Somebody sets the clock between the look and the judgement."""
    s = manual_scheduler(START)
    alive, other = a_lease(s, "worker"), a_lease(s)
    looked_at = s.clock.now()
    s.clock.step("1h")
    other.rescue(looked_at)
    assert lost(s) == []
    assert alive.is_fresh


def test_a_clean_stop_is_no_loss() -> None:
    s = manual_scheduler(START)
    leaving, other = a_lease(s), a_lease(s)
    leaving.give_up()
    s.clock.advance("31s")
    s.beat()
    other.rescue()
    assert lost(s) == []


def test_a_clock_that_was_put_back_while_nobody_ran_is_noticed_at_start() -> None:
    s = manual_scheduler(START)
    s.add("a", every="24h")
    s.tick()
    s.claim()
    s.clock.step("-1h")
    step = (lease := Lease(s.runtime, seconds=30.0)).begin()
    assert step is not None and step.seconds == -3_600
    assert lease.rescue() == 0  # for a whole lease nobody can tell who is alive
    s.clock.advance("31s")
    assert lease.rescue() == 1  # and then a heartbeat in the future is that of a dead node


def test_a_node_alive_when_the_clock_was_put_back_keeps_its_jobs() -> None:
    s = manual_scheduler(START)
    s.add("a", every="24h")
    s.tick()
    s.claim()
    s.clock.step("-1h")
    lease = Lease(s.runtime, seconds=30.0)
    lease.begin()
    s.clock.advance("20s")
    s.beat()
    s.clock.advance("11s")
    assert lease.rescue() == 0


def test_a_clock_put_back_before_the_start_is_on_record_and_fires_nothing_twice() -> None:
    s = manual_scheduler(START)
    s.add("a", every="10m")
    s.advance("1h")
    fired = len(s.jobs("a"))
    s.clock.step("-30m")
    service = Service(s.runtime, {}, ServiceOptions(check_interval=3_600.0))
    service.start()
    service.stop()
    (event,) = s.events(None, "scheduler.clock_stepped")
    assert event.detail["seconds"] == -1_800
    assert len(s.jobs("a")) == fired
    assert s.check().is_clean


def test_a_start_without_a_step_records_none() -> None:
    s = manual_scheduler(START)
    s.sleep("1h")
    assert Lease(s.runtime).begin() is None


def test_a_worker_is_no_scheduler() -> None:
    s = manual_scheduler(START)
    s.add("a", every="10m", first_run="after_interval")
    s.sleep("2m")
    s.beat()
    worker = Service(s.runtime, {}, ServiceOptions(role="worker", check_interval=3_600.0))
    worker.start()
    assert worker.unreadiness() is None
    s.sleep("40m")
    worker.lease.beat()
    worker.stop()
    assert s.events(None, "scheduler.started", "scheduler.stopped") == []
    s.restart()
    s.step()
    # A worker was alive all the time; the slots were missed because no scheduler was.
    assert {event.reason for event in s.events("a", "schedule.missed")} == {"down"}


def test_a_worker_whose_heartbeat_is_old_is_not_ready() -> None:
    s = manual_scheduler(START)
    worker = Service(s.runtime, {}, ServiceOptions(role="worker", lease=30.0))
    assert worker.unreadiness() == "the worker is stopped"
    worker.status = "running"
    worker.lease.beat()
    s.clock.advance("30s")
    assert worker.unreadiness() is None
    s.clock.advance("1s")
    assert worker.unreadiness() == "the last heartbeat is 31s old: other nodes may take its jobs"
    worker.lease.beat()
    assert worker.unreadiness() is None
    s.clock.advance("31s")
    s.stack.close()  # whoever asks a silent database waits; nobody has to
    assert worker.unreadiness() == "the last heartbeat is 31s old: other nodes may take its jobs"


def test_a_worker_with_an_old_heartbeat_says_so_without_asking_the_database() -> None:
    """A silent one would keep whoever asks waiting."""
    clock = ManualClock(START)
    stack = open_stack("sqlite://", clock=clock)
    worker = Service(stack.runtime, {}, ServiceOptions(role="worker", lease=30.0))
    worker.status = "running"
    stack.close()
    clock.advance("31s")
    assert worker.unreadiness() == "the last heartbeat is 31s old: other nodes may take its jobs"


def test_a_start_that_fails_leaves_no_node_behind() -> None:
    s = manual_scheduler(START)
    service = Service(s.runtime, {})

    def refuse() -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        service.start(refuse)
    assert service.status == "stopped"
    assert [node.stopped_at for node in store_of(s.runtime).upkeep.nodes() if node.node == service.node] == [
        s.clock.now()
    ]


def test_reconciling_comes_after_the_rescue_and_before_the_first_tick() -> None:
    s = manual_scheduler(START)
    s.add("a", every="24h")
    s.tick()
    s.claim()
    s.clock.advance("1m")
    seen: list[str] = []
    service = Service(s.runtime, {}, ServiceOptions(role="scheduler", check_interval=3_600.0))
    service.start(lambda: seen.extend(job.status for job in s.jobs("a")))
    service.stop()
    assert seen == ["queued"]
    assert service.ticker.counts.checks > 0
