"""The clock that the proof sets: seen at once by every process that uses it, in signal handlers, too."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from everwhen.clock import SystemClock
from tests.proof.clocks import SettableClock, compiler
from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C compiler (cc)")

_TELL = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
HOUR = 3_600.0
SLACK = 0.1  # seconds between two readings of one clock, by rounding
PROMPTLY = 60.0  # seconds, on a busy machine; a timer that is late by the offset would need an hour


@pytest.fixture
def clock(tmp_path: Path) -> SettableClock:
    return SettableClock(tmp_path / "clock")


def test_a_running_process_sees_a_step_at_once_and_only_on_the_wall_clock(clock: SettableClock) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _TELL],
        env={**os.environ, **clock.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def clocks() -> tuple[float, float]:
            return SystemClock().now() / 1e6, time.monotonic()

        def read() -> tuple[float, float]:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            wall, monotonic = map(float, process.stdout.readline().split())
            return wall, monotonic

        for step, offset in ((0.0, 0.0), (HOUR, HOUR), (-2 * HOUR - 0.25, -HOUR - 0.25)):
            clock.step(step)
            first, found, last = clocks(), read(), clocks()
            assert first[0] + offset - SLACK < found[0] < last[0] + offset + SLACK
            assert first[1] - SLACK < found[1] < last[1] + SLACK
        process.stdin.close()


@pytest.fixture
def server() -> Iterator[tuple[PostgresServer, SettableClock]]:
    with tempfile.TemporaryDirectory(prefix="everwhen-clock-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server may run under an account of its own
        clock = SettableClock(folder / "clock")
        with PostgresServer(18, environment=clock.environment()) as server:
            yield server, clock


def test_the_timers_of_postgres_keep_their_time_under_a_clock_that_was_set(
    server: tuple[PostgresServer, SettableClock],
) -> None:
    """The server reads its clock in the handler of its timer, which may interrupt another reading."""
    postgres, clock = server
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE one AS SELECT 1 AS value")
    for step in (HOUR, -2 * HOUR):
        clock.step(step)
        with psycopg.connect(postgres.url) as holder, psycopg.connect(postgres.url) as waiter:
            holder.execute("UPDATE one SET value = 2")
            waiter.execute("SET client_connection_check_interval = '1ms'; SET lock_timeout = '20ms'")
            waiter.execute(f"SET idle_in_transaction_session_timeout = '{PROMPTLY:g}s'")
            waiter.commit()
            for _ in range(10):
                waiter.execute("SELECT count(clock_timestamp()) FROM generate_series(1, 5000)")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    waiter.execute("SELECT * FROM one FOR UPDATE")
                waiter.rollback()
