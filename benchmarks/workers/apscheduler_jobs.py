"""What the workers of APScheduler 3 share: its scheduler on an SQL job store in a file, and its own tasks."""

import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from shutil import copyfile
from time import perf_counter, sleep
from typing import Any

from benchmarks.workers.answering import Timings

JOURNALS = ("default", "wal")


def no_work() -> None:
    """A job that has done it already; APScheduler finds it by its name."""


def a_scheduler(path: Path, journal: str, *, is_durable: bool = True) -> Any:
    """Paused, on that file; `default` leaves SQLite's journal as SQLAlchemy opens it.

    Not durable: for filling a file before anything is measured."""
    sqlalchemy = import_module("sqlalchemy")
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")

    @sqlalchemy.event.listens_for(engine, "connect")  # type: ignore[untyped-decorator]
    def set_up(connection: Any, _record: Any) -> None:
        if journal == "wal":
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'OFF'}")

    store = import_module("apscheduler.jobstores.sqlalchemy").SQLAlchemyJobStore(engine=engine)
    scheduler = import_module("apscheduler.schedulers.background").BackgroundScheduler(
        jobstores={"default": store},
        timezone=UTC,
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1_000},
    )
    scheduler.start(paused=True)
    return scheduler


class Jobs:
    """A scheduler's task: a folder, a journal, and the version for the table."""

    version = version("apscheduler")

    def __init__(self, folder: Path, journal: str) -> None:
        self.folder = folder
        self.journal = journal
        self.files = 0

    def check(self) -> dict[str, str]:
        return {}

    def a_file(self) -> Path:
        self.files += 1
        return self.folder / f"jobs{self.files}.db"


class Loading(Jobs):
    """B2: `add_job`, one by one, as it has no bulk call."""

    def __init__(self, folder: Path, journal: str, count: int) -> None:
        super().__init__(folder, journal)
        self.count = count
        self.scheduler: Any = None

    def run(self, part: int, parts: int) -> Timings:
        if part == 0:
            if self.scheduler is not None:
                self.scheduler.shutdown()
            self.scheduler = a_scheduler(self.a_file(), self.journal)
        share = self.count // parts
        began = perf_counter()
        for number in range(part * share, (part + 1) * share):
            self.scheduler.add_job(no_work, **trigger(number), id=f"g.s{number}")
        return {"schedule": (perf_counter() - began, share)}


def trigger(number: int) -> dict[str, Any]:
    """Half intervals, half cron, the same ones as everwhen's."""
    if number % 2:
        return {"trigger": "cron", "minute": number % 60, "hour": number % 24}
    return {"trigger": "interval", "seconds": 3_600 + number % 3_600}


class Cycle(Jobs):
    """B5: from the moment that all jobs are due to the end of the last."""

    def __init__(self, folder: Path, journal: str, count: int) -> None:
        super().__init__(folder, journal)
        self.count = count

    def check(self) -> dict[str, str]:
        """The file that each round begins with: everything due since it was filled, and not before.

        A scheduler that is shut down, even a paused one, looks at what is due once more.
        """
        self.template = self.a_file()
        scheduler = a_scheduler(self.template, self.journal, is_durable=False)
        due = datetime.now(UTC) + timedelta(seconds=2 + self.count / 250)
        for number in range(self.count):
            scheduler.add_job(no_work, "interval", hours=1, id=f"g.s{number}", next_run_time=due)
        scheduler.shutdown()
        left = (due - datetime.now(UTC)).total_seconds()
        if left < 0:
            raise TimeoutError("filling the file took longer than the time that was left for it")
        sleep(left)
        sqlite3.connect(self.template).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        path = self.a_file()
        copyfile(self.template, path)
        scheduler = a_scheduler(path, self.journal)
        done = Countdown(self.count)
        executed = import_module("apscheduler.events").EVENT_JOB_EXECUTED
        scheduler.add_listener(done.count, executed)
        began = perf_counter()
        scheduler.resume()
        done.wait()
        seconds = perf_counter() - began
        scheduler.shutdown()
        return {"slot": (seconds, self.count)}


class Countdown:
    """Waits for so many events."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.lock = threading.Lock()
        self.over = threading.Event()

    def count(self, _event: Any) -> None:
        with self.lock:
            self.left -= 1
            if not self.left:
                self.over.set()

    def wait(self) -> None:
        if not self.over.wait(60):
            raise TimeoutError(f"{self.left} jobs were not run within a minute")
