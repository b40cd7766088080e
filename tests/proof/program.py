"""A program with a scheduler of its own: it declares a function, and its named listener writes down what it gets.

Several processes of it share one cursor: one of them delivers, and another one goes on when that is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from everwhen import Run, Scheduler, SchedulerEvent
from everwhen.scheduler.listeners import SchedulerEventType
from tests.proof.work import append, node, work

READY = "listening"
NAME = "auditor"
LISTENED: tuple[SchedulerEventType, ...] = (
    "schedule.created",
    "schedule.deleted",
    "schedule.missed",
    "job.failed",
    "job.lost",
)
ENTRIES = "entries"


def main(database: str, runs: Path, lease: float) -> None:
    scheduler = Scheduler(database, name=NAME, lease=lease, timezone="UTC")

    @scheduler.every("5s", id="declared", if_running="queue")
    def declared(run: Run) -> str:
        return work(run)

    @scheduler.on(*LISTENED, scope="all", name=NAME)
    def note_entry(event: SchedulerEvent) -> None:
        subject = event.job_id or event.schedule_id
        fields = (f"{time.monotonic():.6f}", event.type, str(subject), str(event.slot_at), node())
        append(runs / ENTRIES, "\t".join(fields) + "\n")

    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with scheduler:
        print(READY, flush=True)
        stopped.wait()


if __name__ == "__main__":
    main(os.environ["EVERWHEN_DATABASE"], Path(os.environ["EVERWHEN_PROOF_RUNS"]), float(sys.argv[1]))
