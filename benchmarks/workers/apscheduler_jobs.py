"""What the workers of APScheduler 3 share: its scheduler on an SQL job store, and its tasks."""

import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.metadata import version
from time import perf_counter, sleep
from typing import Any

from benchmarks.workers.answering import Timings
from benchmarks.workers.places import Place, is_file, path_in

JOURNALS = ("default", "wal")


def no_work() -> None:
    """Do nothing; APScheduler finds this job by its name."""


def an_engine(url: str, journal: str, *, is_durable: bool) -> Any:
    sqlalchemy = import_module("sqlalchemy")
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))

    @sqlalchemy.event.listens_for(engine, "connect")  # type: ignore[untyped-decorator]
    def set_up(connection: Any, _record: Any) -> None:
        if not is_file(url):
            connection.execute(f"SET synchronous_commit = {'on' if is_durable else 'off'}")
            connection.commit()
            return
        if journal == "wal":
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'OFF'}")

    return engine


def a_scheduler(url: str, journal: str, *, is_durable: bool = True) -> Any:
    """Return a paused scheduler on that database; `default` keeps SQLite's journal as SQLAlchemy opens it.

    Not durable: for filling a database before anything is measured.
    """
    engine = an_engine(url, journal, is_durable=is_durable)
    store = import_module("apscheduler.jobstores.sqlalchemy").SQLAlchemyJobStore(engine=engine)
    scheduler = import_module("apscheduler.schedulers.background").BackgroundScheduler(
        jobstores={"default": store},
        timezone=UTC,
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1_000},
    )
    scheduler.start(paused=True)
    return scheduler


class Jobs:
    """The task of a scheduler: a place, a journal, and the version for the table."""

    version = version("apscheduler")

    def __init__(self, place: Place, journal: str) -> None:
        self.place = place
        self.journal = journal

    def check(self) -> dict[str, str]:
        return {}


class Loading(Jobs):
    """B2: `add_job`, one by one, because there is no bulk call."""

    def __init__(self, place: Place, journal: str, count: int) -> None:
        super().__init__(place, journal)
        self.count = count
        self.scheduler: Any = None

    def run(self, part: int, parts: int) -> Timings:
        if part == 0:
            if self.scheduler is not None:
                self.scheduler.shutdown()
            self.scheduler = a_scheduler(self.place.fresh(), self.journal)
        share = self.count // parts
        began = perf_counter()
        for number in range(part * share, (part + 1) * share):
            self.scheduler.add_job(no_work, **trigger(number), id=f"g.s{number}")
        return {"schedule": (perf_counter() - began, share)}


def trigger(number: int) -> dict[str, Any]:
    """Return half intervals, half cron, the same as everwhen's."""
    if number % 2:
        return {"trigger": "cron", "minute": number % 60, "hour": number % 24}
    return {"trigger": "interval", "seconds": 3_600 + number % 3_600}


class Cycle(Jobs):
    """B5: from the moment when all jobs are due to the end of the last."""

    def __init__(self, place: Place, journal: str, count: int) -> None:
        super().__init__(place, journal)
        self.count = count

    def check(self) -> dict[str, str]:
        """Fill the database with which each round begins: everything becomes due after the filling, not before.

        A scheduler that is shut down, even a paused one, processes what is due once more.
        """
        self.template = self.place.fresh()
        scheduler = a_scheduler(self.template, self.journal, is_durable=False)
        due = datetime.now(UTC) + timedelta(seconds=2 + self.count / 200)
        for number in range(self.count):
            scheduler.add_job(no_work, "interval", hours=1, id=f"g.s{number}", next_run_time=due)
        end(scheduler)
        left = (due - datetime.now(UTC)).total_seconds()
        if left < 0:
            raise TimeoutError("filling it took longer than the time that was left for it")
        sleep(left)
        if is_file(self.template):
            sqlite3.connect(path_in(self.template)).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        scheduler = a_scheduler(self.place.copy_of(self.template), self.journal)
        done = Countdown(self.count)
        executed = import_module("apscheduler.events").EVENT_JOB_EXECUTED
        scheduler.add_listener(done.count, executed)
        began = perf_counter()
        scheduler.resume()
        done.wait()
        seconds = perf_counter() - began
        scheduler.shutdown()
        return {"slot": (seconds, self.count)}


def end(scheduler: Any) -> None:
    """Shut the scheduler down with its connections: while one is open, the database cannot be copied."""
    engine = scheduler._jobstores["default"].engine
    scheduler.shutdown()
    engine.dispose()


class Countdown:
    """Waits for a number of events."""

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
