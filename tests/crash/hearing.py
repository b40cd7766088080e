"""A program that runs jobs and hears of every end under one name, as a process of its own: it is killed.

It notes each end in a file before it returns, with one system call, so that what it has heard outlives it.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from everwhen import Scheduler, SchedulerEvent

LEASE = 0.9
BRIEF = 0.2


def succeed() -> None: ...


def fail() -> None:
    raise ValueError("no luck")


def take_time() -> None:
    threading.Event().wait(BRIEF)


def program(url: str) -> Scheduler:
    """What all processes of the test have in common; what it runs is added."""
    return Scheduler(url, name="shop", lease=LEASE, check_interval=0.2, max_workers=16)


def schedules(count: int) -> list[dict[str, Any]]:
    """Of ten schedules eight succeed, one fails, and one takes time, so that kills meet it."""
    functions = [succeed] * 8 + [fail, take_time]
    return [
        {"id": f"s{n}", "function": functions[n % 10], "every": "1s", "if_running": "allow"}
        for n in range(count)
    ]


def main(url: str, path: str) -> None:
    heard = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    scheduler = program(url)

    @scheduler.on(
        "job.succeeded", "job.failed", "job.timed_out", "job.lost", "job.cancelled", scope="all", name="audit"
    )
    def note(event: SchedulerEvent) -> None:
        os.write(heard, f"{event.type} {event.job_id}\n".encode())

    with scheduler:
        print("ready", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
