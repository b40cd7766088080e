"""`expect` and its alerts while the database server is really stopped: no false alarm, and none is missed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from everwhen.engine.watches import CutOffWatch
from everwhen.errors import StoreError
from tests.alerts.notifying import watched
from tests.servers.postgres import PostgresServer

EXPECT = {"each": "slot", "grace": "10m"}


def repeat(act: Callable[[], None]) -> None:
    """Repeat it as a loop of a node does: connections from before the outage are found out one by one."""
    for _ in range(20):
        try:
            return act()
        except StoreError:
            continue
    pytest.fail("the database does not come back")


def test_a_stopped_database_is_no_silence_and_hides_none() -> None:
    with (
        PostgresServer(18) as server,
        watched(
            {"on": ["schedule.silent", "scheduler.stalled"], "group_wait": 0},
            database=server.fresh_database(),
        ) as world,
    ):
        scheduler, watch = world.scheduler, CutOffWatch(world.notifier.tell_alone)
        scheduler.add("works", cron="0 * * * *", expect=EXPECT)
        scheduler.add("fails", cron="0 * * * *", expect=EXPECT)
        world.broken.add("fails")
        scheduler.run_until("2026-01-05T01:05:00Z")
        scheduler.beat()
        world.look()
        assert world.titles == []
        server.stop()
        scheduler.sleep("3h")
        with pytest.raises(StoreError):
            scheduler.step()
        with pytest.raises(StoreError):
            world.notifier.step()
        watch.look("the database is away", is_cut_off=True)
        assert world.titles == ["STALLED n1: the scheduler stalls"]
        scheduler.sleep("3h")
        server.start()
        repeat(scheduler.step)
        watch.look(None, is_cut_off=False)
        scheduler.beat()
        world.look()
        assert [title.split(":")[0] for title in world.titles[1:]] == ["RESOLVED n1"]
        # The slot of 01:00 was due five minutes before the outage: half of its grace is left.
        world.pass_time(280)
        assert len(world.titles) == 2
        world.pass_time(40)
        assert [title.split(",")[0] for title in world.titles[2:]] == [
            "SILENT fails: no success by Mon 2026-01-05 07:10:00 UTC"
        ]
        world.broken.add("works")
        scheduler.run_until("2026-01-05T08:09:50Z")
        world.look()
        assert len(world.titles) == 3
        world.pass_time(20)
        assert [title.split(",")[0] for title in world.titles[3:]] == [
            "SILENT works: no success by Mon 2026-01-05 08:10:00 UTC"
        ]
        world.broken.clear()
        scheduler.run_until("2026-01-05T09:00:00Z")
        world.look()
        assert [title.split(":")[0] for title in world.titles[4:]] == ["RESOLVED 2 schedules (silent)"]
        assert scheduler.check().is_clean
