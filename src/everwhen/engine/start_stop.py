"""The start and the stop of a node: the report of the downtime before, and the wait for running jobs (G1).

The log line at start says how long no scheduler ran, what was missed meanwhile, and what is caught up. It is logged
once, when the whole backlog has been decided, by a node that found no other scheduler running.
"""

from __future__ import annotations

import logging
import threading

from everwhen.engine.loop import Loop, Wake
from everwhen.engine.worker import Worker
from everwhen.model.instants import SECOND, moment_of
from everwhen.model.vitals import Mark, Tally
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
LOOK_AGAIN = 0.05
FIRST_LOOK = 1.0

log = logging.getLogger("everwhen")


class Downtime:
    """The time from the last heartbeat of any scheduler to the start of this one."""

    def __init__(self, runtime: Runtime, last_heartbeat_at: int | None) -> None:
        self._runtime = store_of(runtime)
        self._last_heartbeat_at = last_heartbeat_at
        self._started_at = runtime.clock.now()
        self._mark: Mark | None = None if last_heartbeat_at is None else store_of(runtime).vitals.mark()

    def tell(self, node: str) -> None:
        """Log the line, once."""
        mark, self._mark = self._mark, None
        last = self._last_heartbeat_at
        if mark is None or last is None:
            return
        others = [one for one in self._runtime.upkeep.nodes() if one.is_scheduler and one.node != node]
        if any(one.heartbeat_at > last for one in others):
            return
        text = describe_window(self._runtime.vitals.tally(mark))
        down = describe_seconds((self._started_at - last) // SECOND)
        since = moment_of(last).isoformat(timespec="seconds")
        log.info("was down for %s, since the last heartbeat at %s: %s", down, since, text)


def describe_window(tally: Tally) -> str:
    """Describe what happened to the slots of a window.

    >>> describe_window(Tally({("schedule.missed", "down"): 12}, {"catch_up": 1, "schedule": 4}, Mark(0, 0)))
    '12 slots were missed, 1 job catches up'
    """
    missed = sum(count for (kind, _), count in tally.slots.items() if kind == "schedule.missed")
    covered = sum(count for (kind, _), count in tally.slots.items() if kind == "schedule.caught_up")
    jobs = tally.fired.get("catch_up", 0)
    found = []
    if missed:
        found.append(f"{missed:,} slot{' was' if missed == 1 else 's were'} missed")
    if covered:
        found.append(f"one run of each schedule replaces {covered:,} slot{'' if covered == 1 else 's'}")
    if jobs:
        found.append(f"{jobs:,} job{' catches' if jobs == 1 else 's catch'} up")
    return ", ".join(found) or "nothing was missed"


def describe_seconds(seconds: int) -> str:
    """Format a duration in its two largest units.

    >>> describe_seconds(7_500), describe_seconds(0)
    ('2h 5m', '0s')
    """
    found, left = [], max(seconds, 0)
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            found.append(f"{count}{unit}")
    return " ".join(found[:2]) or "0s"


def drain(worker: Worker, wake: Wake, seconds: float) -> int:
    """Settle the jobs that end within that time; return how many are still running after it.

    Runs on its own thread: a database that refuses, or does not answer at all, must not delay the stop, which has
    processes to end afterwards.
    """
    if not worker.running_count:
        return 0
    looked, over = threading.Event(), threading.Event()

    def settle_once() -> None:
        try:
            worker.settle()
        finally:
            looked.set()
        if not worker.running_count:
            over.set()
        elif not over.is_set():
            wake.wait(LOOK_AGAIN)

    Loop("drain", "settlement", settle_once, over).start()
    looked.wait(FIRST_LOOK)  # jobs that have ended by now are settled, also with no time to wait
    over.wait(seconds)
    over.set()
    return worker.running_count
