"""At start a node says in a line how long nobody ran, what was missed, and what is caught up."""

from __future__ import annotations

import threading

import pytest

from everwhen.engine.service import Service, ServiceOptions
from everwhen.engine.watches import Downtime
from everwhen.store.opened import store_of
from everwhen.testing import ManualScheduler, manual_scheduler

PATIENCE = 60.0


def started_after(s: ManualScheduler, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of a node that starts now, until it has decided everything."""
    service = Service(s.runtime, {}, ServiceOptions(check_interval=0.01))
    waited = threading.Event()
    with caplog.at_level("INFO", logger="everwhen"):
        service.start()
        for _ in range(int(PATIENCE / 0.01)):
            if service.ticker.counts.checks > 2:
                break
            waited.wait(0.01)
        service.stop(wait_for_jobs=False)
    return [line for line in caplog.messages if line.startswith("was down")]


def test_a_start_says_how_long_it_was_down_what_was_missed_and_what_is_caught_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("skips", every="1h", first_run="after_interval")
    s.add("once", every="1h", first_run="after_interval", catch_up="run_once")
    s.add("all", every="1h", first_run="after_interval", catch_up="run_all")
    s.sleep("3h30m")
    (line,) = started_after(s, caplog)
    assert line == (
        "was down for 3h 30m, since the last heartbeat at Mon 2026-01-05 08:00:00 UTC:"
        " 3 slots were missed, one run of each schedule replaces 3 slots, 4 jobs catch up"
    )


def test_a_start_after_which_nothing_is_behind_says_so(caplog: pytest.LogCaptureFixture) -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1h", first_run="after_interval")
    s.sleep("90s")
    assert started_after(s, caplog) == [
        "was down for 1m 30s, since the last heartbeat at Mon 2026-01-05 08:00:00 UTC: nothing was missed"
    ]


def test_a_first_start_and_one_beside_a_scheduler_that_runs_say_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    first = Downtime(s.runtime, None)
    beside = Downtime(s.runtime, store_of(s.runtime).slots.last_heartbeat_at())
    s.clock.advance("1s")
    s.beat()  # the other one lives
    with caplog.at_level("INFO", logger="everwhen"):
        first.tell("a node")
        beside.tell("a node")
    assert caplog.messages == []
