"""The worker of B27: the size of the record on SQLite, and its removal.

Old jobs are copies, in SQL, of those that a `Scheduler` has run: firing them would take months.
"""

import argparse
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from benchmarks.workers import calls, runtimes
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.backends import backend_of
from benchmarks.workers.hosts import InProgram, Up
from benchmarks.workers.ledger import looking_at
from benchmarks.workers.places import Place, a_place, path_in
from benchmarks.workers.sizes import Size, accept_sizes, size_of
from everwhen.version import __version__

SLOTS = (5_000, 2_000, 20)
OLD = (200_000, 50_000, 100)
RETAINED = (
    1_000_000,
    300_000,
    100,
)  # the pass of a service goes on while the other contestants have their turns
KEPT_DAYS = 30  # the default
FIRST_PASS_SECONDS = 900  # a service begins its first pass ten minutes after its start
WATCHED_SECONDS = 5.0
WORKERS = 100
DAY = 86_400 * 1_000_000
BARE = "CREATE TABLE bare (id TEXT, uid TEXT, slot_at INTEGER, started_at INTEGER, ended_at INTEGER, status TEXT)"
BARE_ROWS = "INSERT INTO bare SELECT job_id, uid, slot_at, started_at, ended_at, status FROM given.jobs"
JOBS = "SELECT count(*) FROM jobs"


class Storing:
    """A database on which a `Scheduler` has run a number of slots."""

    version = __version__

    def __init__(self, place: Place, folder: Path, size: Size) -> None:
        self.place, self.folder, self.size = place, folder, size
        self.amounts: dict[str, float] = {}

    def fired(self, count: int) -> tuple[Path, int]:
        """Run one slot of each of so many schedules; return the closed file, and how many bytes it had before."""
        url = self.place.fresh()
        host = InProgram(url, self.folder, WORKERS)
        fields = {"every": "24h", "run": {"python": calls.named("nothing")}}
        host.add([{"id": f"s{number}", **fields} for number in range(count)])
        host.scheduler.close()
        before = bytes_in(path_in(url))
        host.start()
        try:
            with looking_at(url) as ledger:
                ledger.await_settled(count)
        finally:
            host.stop()
        return path_in(url), before


class Measuring(Storing):
    """How much the file has grown, divided by the slots; and the same facts alone in a table without an index."""

    def check(self) -> dict[str, str]:
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        count = self.size.of(*SLOTS)
        path, before = self.fired(count)
        slot = (bytes_in(path) - before) / count
        bare = path.with_suffix(".bare")
        with closing(sqlite3.connect(bare, isolation_level=None)) as connection:
            connection.execute(BARE)
            connection.execute("ATTACH ? AS given", (str(path),))
            began = perf_counter()
            connection.execute(BARE_ROWS)
            seconds = perf_counter() - began
        row = bytes_in(bare) / count
        bare.unlink()
        path.unlink()
        self.amounts = {"bytes a slot": slot, "bytes of a bare row": row, "times a bare row": slot / row}
        return {"bare row": (seconds, count)}


class Old(Storing):
    """A database with many jobs that are older than the retention."""

    def aged(self, count: int) -> Path:
        first = min(1_000, count // 10)
        path, _ = self.fired(first)
        stack = runtimes.a_stack(f"sqlite:///{path}")
        backend = backend_of(stack.database)
        names = ("slot_at", "due_at", "created_at", "started_at", "ended_at", "released_at")
        # A pass begins with the oldest rows, and ends where it finds a young one.
        ages = ", ".join(f"{name} = {backend.later(name, str(-2 * KEPT_DAYS * DAY))}" for name in names)
        backend.change(f"UPDATE jobs SET {ages}")
        moved = {name: backend.later(name, "copy * 1000000") for name in names}
        runtimes.multiply(stack, "jobs", "true", count // first, {"job_id": "job_id || '-' || copy", **moved})
        backend.tidy()
        stack.close()
        return path


class Pruning(Old):
    """`everwhen db prune`, without its start, which is that of the same command when nothing is left to remove."""

    def check(self) -> dict[str, str]:
        self.template = self.aged(self.size.of(*OLD))
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        url = self.place.copy_of(f"sqlite:///{self.template}")
        before = bytes_in(path_in(url))
        seconds, removed = self.pruned(url)
        start_up, _ = self.pruned(url)
        self.amounts = {"space given back": 100 * (1 - bytes_in(path_in(url)) / before)}
        self.place.drop(url)
        return {"job": (max(seconds - start_up, 1e-6), removed)}

    def pruned(self, url: str) -> tuple[float, int]:
        path = path_in(url)
        before = jobs_in(path)
        command = [sys.executable, "-m", "everwhen", "db", "prune", "--json", "--database", url]
        began = perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        return perf_counter() - began, max(before - jobs_in(path), 1)


class Retaining(Old):
    """`everwhen up` with its default retention: a stretch of its first pass for each round."""

    def check(self) -> dict[str, str]:
        self.path = self.aged(self.size.of(*RETAINED))
        self.host = Up(f"sqlite:///{self.path}", self.folder)
        self.host.start()
        if not self.size.is_toy:
            self.await_pass()
        return {}

    def await_pass(self) -> None:
        before, deadline = jobs_in(self.path), perf_counter() + FIRST_PASS_SECONDS
        while jobs_in(self.path) == before:
            if perf_counter() > deadline:
                raise TimeoutError(f"retention did not begin within {FIRST_PASS_SECONDS} s")
            sleep(1)

    def run(self, _part: int, _parts: int) -> Timings:
        before, began = jobs_in(self.path), perf_counter()
        sleep(self.size.of(WATCHED_SECONDS, WATCHED_SECONDS, 0))
        removed, seconds = before - jobs_in(self.path), perf_counter() - began
        if not removed and not self.size.is_toy:
            raise AssertionError("retention was over before the rounds were: there were too few old jobs")
        return {"job": (seconds, max(removed, 1))}

    def end(self) -> None:
        self.host.stop()


def bytes_in(path: Path) -> int:
    """Return the bytes of a database with its log."""
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def jobs_in(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        return int(connection.execute(JOBS).fetchone()[0])


TASKS: dict[str, Callable[[Place, Path, Size], Task]] = {
    "size": Measuring,
    "prune": Pruning,
    "retention": Retaining,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=tuple(TASKS))
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place(on_file=True) as place, TemporaryDirectory(prefix="everwhen-bench-") as folder:
        task = TASKS[options.task](place, Path(folder), size_of(options))
        try:
            answer_until_end(task)
        finally:
            if isinstance(task, Retaining):
                task.end()


if __name__ == "__main__":
    main()
