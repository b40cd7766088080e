"""The database's clock, read through this host's: it counts, and the host's own does not (E8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from queue import Queue
from threading import Thread

import pytest

from everwhen.clock import SystemClock
from everwhen.errors import StoreError
from everwhen.model.instants import HOUR, SECOND
from everwhen.store.postgres.clock import DatabaseClock
from everwhen.store.postgres.database import MOST_CONNECTIONS, PATIENCE, PostgresDatabase
from everwhen.testing.manual import ManualClock


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    found = PostgresDatabase(postgres_url)
    yield found
    found.close()


def asked(database: PostgresDatabase) -> int:
    with database.connection() as connection:
        row = connection.cursor(binary=True).execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return int(row[0])


class AnHourAhead(SystemClock):
    """A host whose clock is wrong."""

    def now(self) -> int:
        return super().now() + HOUR


def test_now_is_the_database_s_whatever_the_host_says(database: PostgresDatabase) -> None:
    clock = DatabaseClock(database, AnHourAhead())
    before, now, after = asked(database), clock.now(), asked(database)
    assert before - SECOND < now < after + SECOND
    assert abs(clock.skew() - HOUR) < SECOND


def test_between_two_questions_the_monotonic_clock_carries_it_on(database: PostgresDatabase) -> None:
    host = ManualClock("2026-01-05T08:00:00Z")
    clock = DatabaseClock(database, host)
    first = clock.now()
    host.advance(timedelta(milliseconds=500))
    assert clock.now() == first + SECOND // 2


def test_after_a_second_the_database_is_asked_again(database: PostgresDatabase) -> None:
    host = ManualClock("2026-01-05T08:00:00Z")
    clock = DatabaseClock(database, host)
    clock.now()
    host.advance("1h")  # by this host's monotonic clock; on the database's no hour has passed
    assert abs(clock.now() - asked(database)) < 60 * SECOND


class SlowAnswers(SystemClock):
    """A host on which the next round trips take longer: its monotonic clock jumps at every second reading of it."""

    def __init__(self, *seconds: float) -> None:
        self._jumps = [jump for each in seconds for jump in (0.0, each)]
        self._passed = 0.0

    def monotonic(self) -> float:
        if self._jumps:
            self._passed += self._jumps.pop(0)
        return super().monotonic() + self._passed


@pytest.mark.parametrize("seconds", [(0.04,), (4.0,), (4.0, 3.0), (4.0, 3.0, 2.0)])
def test_a_slow_answer_does_not_put_the_time_ahead_of_the_database_s(
    database: PostgresDatabase, seconds: tuple[float, ...]
) -> None:
    """Which part of the round trip was slow is not known. Slots would fire before they are due."""
    now = DatabaseClock(database, SlowAnswers(*seconds)).now()
    assert now <= asked(database)


@pytest.mark.parametrize("seconds", [(4.0,), (4.0, 3.0)])
def test_after_a_slow_answer_the_database_is_asked_again(
    database: PostgresDatabase, seconds: tuple[float, ...]
) -> None:
    asked(database)  # a connection is open
    before = asked(database)
    clock = DatabaseClock(database, SlowAnswers(*seconds))
    assert clock.now() >= before - SECOND


def test_monotonic_seconds_are_the_host_s(database: PostgresDatabase) -> None:
    host = ManualClock("2026-01-05T08:00:00Z")
    assert DatabaseClock(database, host).monotonic() == host.monotonic()


def test_the_time_goes_on_while_the_database_does_not_answer(database: PostgresDatabase) -> None:
    host = ManualClock("2026-01-05T08:00:00Z")
    clock = DatabaseClock(database, host)
    first = clock.now()
    database.close()
    host.advance("1h")
    assert clock.now() == first + HOUR


def test_while_one_thread_waits_for_the_database_the_others_carry_on(database: PostgresDatabase) -> None:
    host = ManualClock("2026-01-05T08:00:00Z")
    clock = DatabaseClock(database, host)
    first = clock.now()
    reported: Queue[int] = Queue()
    threads = [Thread(target=lambda: reported.put(clock.now())) for _ in range(2)]
    with ExitStack() as held:
        for _ in range(MOST_CONNECTIONS):
            held.enter_context(database.connection())
        host.advance("1h")
        for thread in threads:
            thread.start()
        assert reported.get(timeout=PATIENCE / 2) == first + HOUR
    for thread in threads:
        thread.join(30)
    assert abs(reported.get() - asked(database)) < 60 * SECOND


def test_a_clock_that_never_had_an_answer_has_no_time(database: PostgresDatabase) -> None:
    database.close()
    with pytest.raises(StoreError, match="was closed"):
        DatabaseClock(database, ManualClock("2026-01-05T08:00:00Z")).now()
