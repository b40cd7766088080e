"""Streams follow commit order: an event is never passed before a smaller one appears (L4)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection

from everwhen.model.events import Event
from tests.conformance.tenant import Tenant

_WRITE = "INSERT INTO audit_events (type, at) VALUES ('auth.denied', now()) RETURNING id"


@contextmanager
def an_open_transaction(house: Tenant) -> Iterator[Connection[Any]]:
    """Somebody who has begun, and takes their time."""
    with psycopg.connect(house.site.url) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield connection


def write(connection: Connection[Any]) -> int:
    row = connection.execute(_WRITE).fetchone()
    assert row is not None
    return int(row[0])


def after(house: Tenant, event_id: int) -> list[int]:
    return [recorded.id for recorded in house.house.ledger.events_after(event_id, limit=100)]


def test_a_stream_waits_for_a_transaction_that_may_still_write(house: Tenant) -> None:
    with an_open_transaction(house) as slow:
        mine = write(slow)
        house.house.slots.record([Event("auth.denied", house.now)])
        assert after(house, 0) == []
        slow.commit()
    first, second = after(house, 0)
    assert first == mine < second


def test_nothing_is_passed_when_numbers_and_transactions_come_in_another_order(house: Tenant) -> None:
    with an_open_transaction(house) as older, an_open_transaction(house) as younger:
        small = write(younger)
        large = write(older)
        older.commit()
        assert after(house, 0) == [large]  # nothing older is open, so nothing can come before it any more
        younger.commit()
    assert small < large
    assert after(house, large) == [small]
    assert after(house, small) == []


def test_a_stream_in_portions_sees_everything_once(house: Tenant) -> None:
    house.house.slots.record([Event("auth.denied", house.now)] * 7)
    seen: list[int] = []
    while some := house.house.ledger.events_after(seen[-1] if seen else 0, limit=3):
        seen += [recorded.id for recorded in some]
    assert len(seen) == len(set(seen)) == 7


def test_a_cursor_that_retention_has_taken_goes_on_above_it(house: Tenant) -> None:
    house.house.slots.record([Event("auth.denied", house.now)] * 3)
    first, *rest = after(house, 0)
    with psycopg.connect(house.site.url) as connection:
        connection.execute("DELETE FROM audit_events WHERE id = %s", (first,))
    assert after(house, first) == rest
