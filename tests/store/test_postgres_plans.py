"""What a statement reads does not depend on what the tables held when its plan was made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

from everwhen.store.dialect import EARLIEST, Statement
from everwhen.store.job_rows import NEXT_READY, SHARES
from everwhen.store.ledger import RUNNING_SINCE
from everwhen.store.postgres.adapters import At
from everwhen.store.postgres.snapshot import PEEK_READY, PEEK_SHARES
from everwhen.store.requests import WAITING
from everwhen.wiring import Stack, open_stack

_HERD = """
INSERT INTO jobs (job_id, uid, schedule_id, revision, number, retry, origin, status, slot_at, due_at, is_ready,
    is_counted, queue, created_at, ready_at)
SELECT 'herd-' || n, 'u' || n, 'herd', 1, 1, 0, 'manual', 'queued', now(), now(), true, true, 'default', now(), %s
FROM generate_series(1, 5000) AS n"""


@pytest.fixture
def stack(postgres_url: str) -> Iterator[Stack]:
    opened = open_stack(postgres_url)
    yield opened
    opened.close()


def pages_read(
    connection: psycopg.Connection[Any], statement: Statement, values: Mapping[str, object]
) -> int:
    plan: Any = connection.execute(
        b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.postgres, values
    ).fetchone()
    (found,) = json.loads(plan[0]) if isinstance(plan[0], str) else plan[0]
    return int(found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"])


def test_a_claim_looks_at_the_first_of_a_herd_and_not_at_all_of_it(stack: Stack) -> None:
    now = stack.runtime.clock.now()
    with stack.database.connection() as connection:
        connection.execute("VACUUM (ANALYZE) jobs")  # it is known to be empty
        connection.execute(_HERD, (At(now),))
        values = {"now": At(now), "mark": At(EARLIEST), "queues": None}
        assert pages_read(connection, PEEK_READY[False], {**values, "limit": 10}) < 40
        assert pages_read(connection, NEXT_READY, values) < 20


def test_a_look_for_slow_runs_passes_over_those_that_wait_or_are_over(stack: Stack) -> None:
    now = stack.runtime.clock.now()
    with stack.database.connection() as connection:
        connection.execute("VACUUM (ANALYZE) jobs")  # it is known to be empty
        connection.execute(_HERD, (At(now),))
        assert pages_read(connection, RUNNING_SINCE, {"until": At(now), "limit": 1_000}) < 20


def test_a_look_for_requests_passes_over_those_that_are_carried_out(stack: Stack) -> None:
    with stack.database.connection() as connection:
        connection.execute("VACUUM (ANALYZE) requests")  # it is known to be empty
        connection.execute("""
INSERT INTO requests (request_id, action, schedule_id, body, created_at, status, ended_at)
SELECT 'r' || n, 'trigger', 's' || n, '{}', now(), CASE WHEN n % 500 = 0 THEN 'waiting' ELSE 'done' END,
    CASE WHEN n % 500 = 0 THEN NULL ELSE now() END FROM generate_series(1, 5000) AS n""")
        assert pages_read(connection, WAITING, {"after": 0, "limit": 100}) < 60


def test_who_reads_the_ledger_may_go_through_whole_tables(stack: Stack) -> None:
    with stack.database.snapshot() as connection:
        names = ("enable_seqscan", "enable_bitmapscan")
        assert [connection.execute(f"SHOW {name}").fetchall()[0][0] for name in names] == ["on", "on"]
    with stack.database.connection() as connection:
        assert connection.execute("SHOW enable_seqscan").fetchall()[0][0] == "off"


_OF_OWNERS = """
INSERT INTO jobs (job_id, uid, schedule_id, revision, number, retry, origin, status, slot_at, due_at, is_ready,
    is_counted, queue, created_at, ready_at, share)
SELECT 'job-' || n, 'u' || n, 'herd', 1, 1, 0, 'manual', 'queued', now(), now(), true, true, 'default', now(),
    %s + n * interval '1 microsecond', CASE WHEN n > 20000 THEN '["bob", null]' ELSE '["ann", null]' END
FROM generate_series(1, 20003) AS n"""


@pytest.mark.parametrize("is_known", [False, True])
def test_a_claim_finds_the_jobs_of_an_owner_behind_those_of_another_without_reading_them(
    stack: Stack, is_known: bool
) -> None:
    now = stack.runtime.clock.now()
    with stack.database.connection() as connection:
        connection.execute("VACUUM (ANALYZE) jobs")  # it is known to be empty
        connection.execute(_OF_OWNERS, (At(now),))
        if is_known:
            connection.execute("ANALYZE jobs")
        values = {"mark": At(EARLIEST), "until": At(now + 10**9), "queues": None, "limit": 10}
        shares = {**values, "start": ""}
        peek = {**values, "shares": ['["bob", null]', '["ann", null]']}
        for is_delivery in (False, True):
            assert pages_read(connection, SHARES[is_delivery], shares) < 60
            assert pages_read(connection, PEEK_SHARES[is_delivery], peek) < 160
