"""The worker of B6 for APScheduler 3: how late its functions begin.

A function of APScheduler does not know which run it is. Those of one job begin in the order of their instants, and an
event names these: the first start belongs to the first instant.
"""

import argparse
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep, time
from typing import Any

from benchmarks.workers import calls
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.apscheduler_jobs import Jobs, a_scheduler, end, tune_collector
from benchmarks.workers.percentiles import percentile
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import Size, accept_sizes, size_of

EVERY_SECOND = (1_000, 1_000, 3)
SECONDS = (12, 2, 1)
LATE_SECONDS = 1.5


class Lag(Jobs):
    def __init__(self, place: Place, folder: Path, journal: str, size: Size) -> None:
        super().__init__(place, journal)
        self.folder = folder
        self.count, self.seconds = size.of(*EVERY_SECOND), size.of(*SECONDS)
        self.rounds = 0
        self.amounts: dict[str, float] = {}

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        url, began = self.filled()
        notes = calls.Notes(self.folder, self.rounds)
        lags = self.watch(a_scheduler(url, self.journal), notes, began)
        notes.close()
        missed = self.count * self.seconds - len(lags)
        self.amounts = {"slots missed": missed, "lag p99": percentile(lags, 99)}
        return {"lag p99": (percentile(lags, 99), 1)}

    def filled(self) -> tuple[str, int]:
        """Fill a database; return it with the second in which its jobs begin: later when the machine is slow at
        filling it."""
        for lead in (4, 8, 16, 32):
            url, began = self.place.fresh(), int(time()) + lead
            self.fill(url, began)
            if time() < began:
                return url, began
        raise TimeoutError("filling it took longer than half a minute")

    def fill(self, url: str, began: int) -> None:
        scheduler = a_scheduler(url, self.journal, is_durable=False)
        first = datetime.fromtimestamp(began, UTC)
        for number in range(self.count):
            trigger = {"seconds": 1, "start_date": first - timedelta(seconds=1), "next_run_time": first}
            name = f"s{number}"
            scheduler.add_job(calls.note_name, "interval", args=[name], id=name, **trigger)
        end(scheduler)

    def watch(self, scheduler: Any, notes: calls.Notes, began: int) -> list[float]:
        ended = began + self.seconds
        due: dict[str, list[float]] = defaultdict(list)

        def ran(event: Any) -> None:
            due[event.job_id].append(event.scheduled_run_time.timestamp())

        scheduler.add_listener(ran, import_module("apscheduler.events").EVENT_JOB_EXECUTED)
        scheduler.resume()
        sleep(ended - time() + LATE_SECONDS)
        end(scheduler)
        starts: dict[str, list[float]] = defaultdict(list)
        for name, at in notes.read():
            starts[name].append(float(at))
        pairs = [pair for name in due for pair in zip(sorted(due[name]), sorted(starts[name]), strict=False)]
        return [at - due_at for due_at, at in pairs if began <= due_at < ended]


def main() -> None:
    parser = argparse.ArgumentParser()
    accept_sizes(parser)
    options = parser.parse_args()
    tune_collector()
    with a_place() as place, TemporaryDirectory(prefix="everwhen-bench-") as folder:
        answer_until_end(Lag(place, Path(folder), "wal", size_of(options)))


if __name__ == "__main__":
    main()
