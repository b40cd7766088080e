"""A process that says how much memory a scheduler takes: at rest beside few and many schedules, then with jobs running.

Told two databases, it prints one JSON object. What is traced is what Python allocates, which does not depend on the
machine.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

from everwhen import Scheduler

CHECKS = 2
RUNNING = (10, 40)


class Work:
    """Jobs that run until they are let go."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, info: object) -> None:
        self.over.wait(60)


def measure() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.01)


def at_rest(scheduler: Scheduler) -> int:
    """What it takes when it has looked a few times and found nothing due."""
    before = scheduler.get_state().check_count
    wait_until(lambda: scheduler.get_state().check_count >= before + CHECKS)
    return measure()


def beside(url: str, before: int) -> int:
    """What a scheduler adds that runs nothing."""
    scheduler = Scheduler(url, check_interval=0.02)
    scheduler.start()
    taken = at_rest(scheduler) - before
    scheduler.stop()
    scheduler.close()
    return taken


def with_running(url: str) -> list[int]:
    """What it takes with no job running, and with so many."""
    work = Work()
    scheduler = Scheduler(url, check_interval=0.02, on_trigger=work, max_workers=max(RUNNING))
    scheduler.start()
    scheduler.add("job", cron="0 0 1 1 *", if_running="allow")
    taken = [at_rest(scheduler)]
    for count in RUNNING:
        for _ in range(count - scheduler.get_total_running_job_count()):
            scheduler.trigger("job", if_running="allow")
        wait_until(partial(has_running, scheduler, count))
        taken.append(at_rest(scheduler))
    work.over.set()
    scheduler.stop()
    scheduler.close()
    return taken


def has_running(scheduler: Scheduler, count: int) -> bool:
    return scheduler.get_total_running_job_count() == count


def main(few: str, many: str) -> dict[str, Any]:
    beside(few, 0)  # what is imported and kept once is in memory from here on
    tracemalloc.start()
    return {
        "few": beside(few, measure()),
        "many": beside(many, measure()),
        "running": with_running(few),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
