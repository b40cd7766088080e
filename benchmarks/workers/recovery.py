"""The worker of B22: real `everwhen` processes meet a fault, and are timed from its end to their next firing.

Their work is read from the jobs in the database, over a connection that only reads.
"""

import argparse
import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep, time
from typing import Any

import psycopg

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.node_process import PATIENCE, Node, await_that
from benchmarks.workers.places import path_in
from benchmarks.workers.sizes import accept_sizes, size_of
from tests.servers.ports import LOOPBACK, HeldPort
from tests.servers.postgres import PostgresServer

AWAY_SECONDS = 1.5
LOCKED_SECONDS = (60.0, 12.0, 0.5)
# Added in each round: retries have a period, and the end of the lock must not always meet it at the same phase.
STEP_OF_LOCKED = 0.3
WATCHED_SECONDS = 5

LIVE, STARTED, PATIENT = 100, 10, 240
GRACE = 90  # seconds: longer than any fault here
INTERVAL = 120  # and longer than that, so that no fault holds two slots of one schedule

NEWEST = "SELECT coalesce(max(row_id), 0) FROM jobs WHERE origin = 'schedule'"
FIRED = "SELECT count(*) FROM jobs WHERE origin = 'schedule' AND row_id > {}"
BEGUN = (
    "SELECT count(*) FROM jobs WHERE row_id > {} AND schedule_id LIKE 'started%' AND started_at IS NOT NULL"
)
LATE = "SELECT count(*) FROM audit_events WHERE type = 'schedule.missed' AND schedule_id LIKE 'patient%'"
MISSED = "SELECT count(*) FROM audit_events WHERE type = 'schedule.missed'"
WHOLE = f"""SELECT coalesce(array_agg(second), '{{{{}}}}') FROM (
SELECT extract(epoch FROM slot_at)::bigint AS second FROM jobs
WHERE row_id > {{}} AND schedule_id NOT LIKE 'patient%' GROUP BY 1 HAVING count(*) = {LIVE + STARTED})"""

Look = Callable[[str], Any]  # returns the single value of a query


def configuration_of(url: str, port: int) -> dict[str, Any]:
    """Return messages and commands of every second, and two-minute schedules of which some are due in any fault."""
    live = {"every": "1s", "if_running": "allow"}
    patient = {"every": f"{INTERVAL}s", "misfire_grace": f"{GRACE}s"}
    message, command = {"message": {"text": "now"}}, {"command": ["true"]}
    return {
        "service": {"database": url},
        "api": {"host": LOOPBACK, "port": port},
        "schedules": [
            *({"id": f"live{n}", **live, "run": message} for n in range(LIVE)),
            *({"id": f"started{n}", **live, "run": command} for n in range(STARTED)),
            *(
                {"id": f"patient{n}", **patient, "start_at": first_at(n % INTERVAL), "run": message}
                for n in range(PATIENT)
            ),
        ],
    }


def first_at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


class Fault(ABC):
    """Nodes on a database, and what happens to them in a round."""

    version = runtimes.VERSION
    nodes: Sequence[Sequence[str]] = (("up",),)

    def __init__(self, ending: ExitStack) -> None:
        self.ending = ending
        self.amounts: dict[str, float] = {}
        self.rounds = 0

    def check(self) -> dict[str, str]:
        folder = Path(self.ending.enter_context(TemporaryDirectory(prefix="everwhen-bench-")))
        port = HeldPort()
        self.ending.callback(port.release)
        self.config = folder / "everwhen.yaml"
        self.config.write_text(json.dumps(configuration_of(self.made(folder), port.number)))
        self.running = [self.started(fields) for fields in self.nodes]
        with self.searching() as look:
            await_that(lambda: look(BEGUN.format(0)))
        return {}

    def started(self, fields: Sequence[str]) -> Node:
        node = Node(fields, self.config)
        self.ending.callback(node.kill)
        return node

    @abstractmethod
    def made(self, folder: Path) -> str:
        """Return the URL of an empty database."""

    @abstractmethod
    def searching(self) -> AbstractContextManager[Look]:
        """Provide a function that queries the database, while the block runs."""

    def timed(self, look: Look, newest: int, over: float) -> Timings:
        """Measure from the end of the fault to the first firing after that job, and to the first start."""
        fired = await_that(lambda: look(FIRED.format(newest))) - over
        begun = await_that(lambda: look(BEGUN.format(newest))) - over
        # Late slots are decided together with live ones: a few seconds later nothing is left to decide.
        await_that(lambda: look(FIRED.format(newest)) >= 3 * (LIVE + STARTED))
        self.amounts = {
            "first firing": fired,
            "first start of a job": begun,
            "slots late within their grace": look(LATE),
        }
        return {"first firing": (fired, 1)}


class Locked(Fault):
    """Another program locks the file for longer than a node waits for the lock."""

    def __init__(self, ending: ExitStack, seconds: float) -> None:
        super().__init__(ending)
        self.seconds = seconds

    def made(self, folder: Path) -> str:
        self.url = f"sqlite:///{folder}/bench.db"
        return self.url

    @contextmanager
    def searching(self) -> Iterator[Look]:
        with closing(sqlite3.connect(path_in(self.url), isolation_level=None)) as connection:
            yield lambda query: connection.execute(query).fetchone()[0]

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        with self.searching() as look:
            with closing(
                sqlite3.connect(path_in(self.url), isolation_level=None, timeout=PATIENCE)
            ) as locking:
                locking.execute("BEGIN EXCLUSIVE")
                newest = look(NEWEST)
                sleep(self.seconds + STEP_OF_LOCKED * self.rounds)
                locking.execute("ROLLBACK")
                over = monotonic()
            return self.timed(look, newest, over)


class Served(Fault):
    def made(self, folder: Path) -> str:
        self.server = self.ending.enter_context(PostgresServer(durable=True))
        self.url = self.server.fresh_database()
        return self.url

    @contextmanager
    def searching(self) -> Iterator[Look]:
        with psycopg.connect(self.url, autocommit=True) as connection:

            def look(query: str) -> Any:
                row = connection.execute(query.encode()).fetchone()
                assert row is not None
                return row[0]

            yield look

    def newest(self, look: Look) -> int:
        """Return the last job of a second: all live slots are at whole seconds, and nothing is fired in between."""
        sleep(1.4 - time() % 1 + 0.1 * (self.rounds % 5))
        newest: int = look(NEWEST)
        return newest


class Restarted(Served):
    """The server stops in an orderly way, and comes back."""

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        with self.searching() as look:
            newest = self.newest(look)
        self.server.stop()
        sleep(AWAY_SECONDS)
        self.server.start()
        over = monotonic()
        with self.searching() as look:
            return self.timed(look, newest, over)


class Killed(Served):
    """One scheduler of two is killed during a second's work."""

    nodes = (("scheduler",), ("scheduler",), ("worker",))

    def run(self, _part: int, _parts: int) -> Timings:
        self.rounds += 1
        victim = self.rounds % 2
        with self.searching() as look:
            missed, newest = look(MISSED), self.newest(look)
            await_that(lambda: look(FIRED.format(newest)))
            self.running[victim].kill()
            worst = self.worst_lag(look, newest, int(time()))
            self.amounts = {"worst lag": worst, "slots missed": look(MISSED) - missed}
        self.running[victim] = self.started(self.nodes[victim])
        return {"worst lag": (worst, 1)}

    def worst_lag(self, look: Look, newest: int, second: int) -> float:
        """Measure from that second, and each that follows, until all that is due in it is visible."""
        lags = []
        for due_at in range(second, second + WATCHED_SECONDS):
            await_that(lambda due_at=due_at: due_at in look(WHOLE.format(newest)))  # type: ignore[misc]
            lags.append(time() - due_at)
        return max(lags)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=("locked", "restarted", "killed"))
    accept_sizes(parser)
    options = parser.parse_args()
    with ExitStack() as ending:
        task: Task
        if options.fault == "locked":
            task = Locked(ending, size_of(options).of(*LOCKED_SECONDS))
        else:
            task = Restarted(ending) if options.fault == "restarted" else Killed(ending)
        answer_until_end(task)


if __name__ == "__main__":
    main()
