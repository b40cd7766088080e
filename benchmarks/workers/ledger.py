"""Looks at the jobs of a database from outside, over a connection that only reads: how far a host is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from time import perf_counter, sleep, time
from typing import Any

import psycopg

from benchmarks.workers.places import is_file, path_in

LOOK_EVERY = 0.003
PATIENCE_SECONDS = 120
ALL = "SELECT count(*) FROM jobs"
SUCCEEDED = "SELECT count(*) FROM jobs WHERE status = 'succeeded'"
# One step into an index of those that are not settled.
IS_BUSY = "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE status IN ('queued', 'running') LIMIT 1) AS one"


class Ledger:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def number(self, query: str) -> int:
        found: int = self.connection.execute(query).fetchone()[0]
        return found

    def await_jobs(self, count: int) -> None:
        """Wait until so many jobs were fired."""
        self._wait(lambda: self.number(ALL) >= count, f"{count} jobs were not fired")

    def await_settled(self, count: int) -> float:
        """Wait until so many jobs are settled, and return when that was visible; all of them must have succeeded."""
        self.await_jobs(count)
        self._wait(lambda: not self.number(IS_BUSY), f"{count} jobs were not settled")
        at = time()
        succeeded = self.number(SUCCEEDED)
        if succeeded != count:
            raise AssertionError(f"{succeeded} of {count} jobs succeeded")
        return at

    def _wait(self, is_so: Any, complaint: str) -> None:
        deadline = perf_counter() + PATIENCE_SECONDS
        while not is_so():
            if perf_counter() > deadline:
                raise TimeoutError(f"{complaint} within {PATIENCE_SECONDS} s")
            sleep(LOOK_EVERY)


@contextmanager
def looking_at(url: str) -> Iterator[Ledger]:
    if is_file(url):
        with closing(sqlite3.connect(f"file:{path_in(url)}?mode=ro", uri=True, timeout=10)) as connection:
            yield Ledger(connection)
        return
    with psycopg.connect(url, autocommit=True) as served:
        yield Ledger(served)
