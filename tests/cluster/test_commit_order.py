"""Streams follow commit order: an event is never passed before a smaller one appears (L4)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection

from everwhen.config.sections.notify import rules_in
from everwhen.engine.notifier import Notifier
from everwhen.model.events import Event
from everwhen.model.queries import AlertFilter
from tests.conformance.tenant import Tenant

_WRITE = "INSERT INTO audit_events (type, at) VALUES ('auth.denied', now()) RETURNING id"
_CHANGE = "INSERT INTO audit_events (type, at, detail) VALUES (%s, now(), %s)"


@contextmanager
def an_open_transaction(runtime: Tenant) -> Iterator[Connection[Any]]:
    """Somebody who has begun, and takes their time."""
    with psycopg.connect(runtime.site.url) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield connection


def write(connection: Connection[Any]) -> int:
    row = connection.execute(_WRITE).fetchone()
    assert row is not None
    return int(row[0])


def after(runtime: Tenant, event_id: int) -> list[int]:
    return [recorded.id for recorded in runtime.runtime.ledger.events_after(event_id, limit=100)]


def test_a_stream_waits_for_a_transaction_that_may_still_write(runtime: Tenant) -> None:
    with an_open_transaction(runtime) as slow:
        mine = write(slow)
        runtime.runtime.slots.record([Event("auth.denied", runtime.now)])
        assert after(runtime, 0) == []
        slow.commit()
    first, second = after(runtime, 0)
    assert first == mine < second


def test_nothing_is_passed_when_numbers_and_transactions_come_in_another_order(runtime: Tenant) -> None:
    with an_open_transaction(runtime) as older, an_open_transaction(runtime) as younger:
        small = write(younger)
        large = write(older)
        older.commit()
        assert after(runtime, 0) == [large]  # nothing older is open, so nothing can come before it any more
        younger.commit()
    assert small < large
    assert after(runtime, large) == [small]
    assert after(runtime, small) == []


def test_an_alert_that_was_closed_by_the_older_transaction_stays_closed(runtime: Tenant) -> None:
    """The one that closes a breaker may have begun first, and waited for the row that the other one had."""
    rules = rules_in([{"http": {"url": "http://receiver"}, "group_wait": 0}])
    notifier = Notifier(runtime.runtime, lambda: rules, {}, node=lambda: runtime.node, is_threaded=False)
    notifier.begin()
    detail = '{"key": "p:poll"}'
    with an_open_transaction(runtime) as older, an_open_transaction(runtime) as younger:
        younger.execute(_CHANGE, ("breaker.opened", detail))
        younger.commit()
        older.execute(_CHANGE, ("breaker.closed", detail))
        older.commit()
    notifier.step()
    (alert,) = runtime.runtime.alerts.list(AlertFilter(), limit=9)
    assert (alert.class_, alert.state) == ("breaker.opened", "resolved")
    notifier.release()


def test_a_stream_in_portions_sees_everything_once(runtime: Tenant) -> None:
    runtime.runtime.slots.record([Event("auth.denied", runtime.now)] * 7)
    seen: list[int] = []
    while some := runtime.runtime.ledger.events_after(seen[-1] if seen else 0, limit=3):
        seen += [recorded.id for recorded in some]
    assert len(seen) == len(set(seen)) == 7


def test_a_cursor_that_retention_has_taken_goes_on_above_it(runtime: Tenant) -> None:
    runtime.runtime.slots.record([Event("auth.denied", runtime.now)] * 3)
    first, *rest = after(runtime, 0)
    with psycopg.connect(runtime.site.url) as connection:
        connection.execute("DELETE FROM audit_events WHERE id = %s", (first,))
    assert after(runtime, first) == rest


# -- jobs --

_ENQUEUE = """
INSERT INTO jobs (job_id, uid, schedule_id, revision, number, retry, origin, slot_at, due_at, is_ready, is_counted,
    queue, created_at, status, ended_at, released_at)
VALUES (%s, 'elsewhere', 'elsewhere', 1, 1, 0, 'manual', now(), now(), false, false, 'default', now(), 'succeeded',
    now(), now()) RETURNING row_id"""


def enqueue(connection: Connection[Any], name: str) -> int:
    row = connection.execute(_ENQUEUE, (name,)).fetchone()
    assert row is not None
    return int(row[0])


def jobs_after(runtime: Tenant, row_id: int) -> list[int]:
    return [one.row_id for one in runtime.runtime.firings.after(row_id, limit=100)]


def forget(runtime: Tenant) -> None:
    with psycopg.connect(runtime.site.url) as connection:
        connection.execute("DELETE FROM jobs WHERE uid = 'elsewhere'")  # the checker knows no such schedule


def test_a_stream_waits_for_a_job_that_may_still_come(runtime: Tenant) -> None:
    with an_open_transaction(runtime) as slow, an_open_transaction(runtime) as quick:
        small = enqueue(slow, "small")
        large = enqueue(quick, "large")
        quick.commit()
        assert jobs_after(runtime, 0) == []
        slow.commit()
    assert jobs_after(runtime, 0) == [small, large]
    forget(runtime)


def test_no_job_is_passed_when_the_younger_transaction_has_the_smaller_number(runtime: Tenant) -> None:
    """The younger one is beyond the upper end of every snapshot, and open all the same."""
    mark = runtime.runtime.vitals.mark()
    with an_open_transaction(runtime) as older, an_open_transaction(runtime) as younger:
        small = enqueue(younger, "small")
        large = enqueue(older, "large")
        older.commit()
        assert small < large
        assert jobs_after(runtime, 0) == []
        first = runtime.runtime.vitals.tally(mark)
        assert first.fired == {}
        younger.commit()
    assert jobs_after(runtime, 0) == [small, large]
    assert runtime.runtime.vitals.tally(first.mark).fired == {"manual": 2}
    forget(runtime)


def test_a_job_that_is_rolled_back_holds_nobody_up_afterwards(runtime: Tenant) -> None:
    with an_open_transaction(runtime) as failing, an_open_transaction(runtime) as other:
        enqueue(failing, "never")
        kept = enqueue(other, "kept")
        other.commit()
        assert jobs_after(runtime, 0) == []
        failing.rollback()
    assert jobs_after(runtime, 0) == [kept]
    forget(runtime)


def test_a_reader_that_begins_and_has_patience_misses_no_job_that_may_still_come(runtime: Tenant) -> None:
    with an_open_transaction(runtime) as slow, an_open_transaction(runtime) as quick:
        small = enqueue(slow, "small")
        large = enqueue(quick, "large")
        quick.commit()
        with ThreadPoolExecutor(1) as pool:
            hasty = runtime.neighbour().runtime.firings
            assert hasty.last() == large  # and `small` comes later, before it
            beginning = pool.submit(runtime.neighbour().runtime.firings.last, 30.0)
            assert not beginning.done()
            slow.commit()
            assert beginning.result() == large
    assert small < large
    assert jobs_after(runtime, 0) == [small, large]
    with an_open_transaction(runtime):
        assert runtime.neighbour().runtime.firings.last(0.05) == large  # it does not wait for ever
    forget(runtime)


def test_many_writers_at_once_and_a_reader_that_never_goes_back(runtime: Tenant) -> None:
    """Whatever the reader has passed, nothing appears in front of it."""
    is_over = threading.Event()
    written: list[int] = []

    def write_some(name: str) -> None:
        with psycopg.connect(runtime.site.url) as connection:
            for number in range(60):
                connection.execute("SELECT pg_current_xact_id()")
                written.append(enqueue(connection, f"{name}-{number}"))
                if number % 7 == 0:
                    connection.execute("SELECT pg_sleep(0.005)")  # its number is drawn, and nobody sees it
                connection.commit()

    def read() -> list[int]:
        seen: list[int] = []
        while not is_over.is_set() or jobs_after(runtime, seen[-1] if seen else 0):
            seen += jobs_after(runtime, seen[-1] if seen else 0)
        return seen

    with ThreadPoolExecutor(4) as pool:
        reading = pool.submit(read)
        writing = [pool.submit(write_some, name) for name in "abc"]
        for one in writing:
            one.result()
        is_over.set()
        seen = reading.result()
    assert seen == sorted(written)
    forget(runtime)
