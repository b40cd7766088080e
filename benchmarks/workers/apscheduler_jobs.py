"""What the workers of APScheduler 3 share: its scheduler on an SQL job store, and its tasks."""

import gc
import threading
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from time import perf_counter, time
from typing import Any

from benchmarks.workers.answering import Timings
from benchmarks.workers.places import Place, is_file

JOURNALS = ("default", "wal")
LEADS = (4, 8, 16, 32)  # seconds between the filling of a database and the instant when its jobs are due


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


def tune_collector() -> None:
    """Set the garbage collector as everwhen's guide advises for a program; its own documentation says nothing of it."""
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])


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
    """B5 and B24: from the instant at which all jobs are due, of a running scheduler, to the end of the last."""

    def __init__(self, place: Place, journal: str, count: int) -> None:
        super().__init__(place, journal)
        self.count = count

    def run(self, _part: int, _parts: int) -> Timings:
        url, due = self.filled()
        scheduler = a_scheduler(url, self.journal)
        done = Countdown(self.count)
        scheduler.add_listener(done.count, import_module("apscheduler.events").EVENT_JOB_EXECUTED)
        scheduler.resume()
        done.wait()
        seconds = time() - due
        end(scheduler)
        self.place.drop(url)
        return {"job": (seconds, self.count)}

    def filled(self) -> tuple[str, int]:
        """Fill a database without waiting for the disk; return it with the instant at which its jobs are due.

        A scheduler that is shut down, even a paused one, processes what is due once more: it must end before that.
        """
        for lead in LEADS:
            url, due = self.place.fresh(), int(time()) + lead
            scheduler = a_scheduler(url, self.journal, is_durable=False)
            first = datetime.fromtimestamp(due, UTC)
            for number in range(self.count):
                scheduler.add_job(no_work, "interval", hours=1, id=f"g.s{number}", next_run_time=first)
            end(scheduler)
            if time() < due - 1:
                return url, due
        raise TimeoutError(f"filling it took longer than {LEADS[-1]} s")


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
