"""Where the searches for due rows and ready jobs begin: never behind one that is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from everwhen.model.instants import SECOND
from everwhen.operations.jobs import trigger_schedule
from everwhen.store.dialect import EARLIEST
from everwhen.store.job_rows import NEXT_READY
from everwhen.store.opened import store_of
from everwhen.store.postgres.adapters import At
from everwhen.store.postgres.watermark import DISTANCE, Watermark
from everwhen.testing import ManualClock
from everwhen.wiring import Stack, open_stack
from tests.conformance.tenant import submission
from tests.submissions import create_schedules

NOW = 1_774_735_200 * SECOND


def a_mark_at(instant: int) -> Watermark:
    mark = Watermark()
    with mark.search() as look:  # the first look is without bound
        assert look.at == EARLIEST
    mark.raise_to(instant)
    return mark


def test_it_follows_the_evaluations_at_a_distance() -> None:
    mark = a_mark_at(NOW)
    with mark.search() as look:
        assert look.at == NOW - DISTANCE


def test_it_is_not_lowered_by_an_evaluation_that_is_behind() -> None:
    mark = a_mark_at(NOW)
    mark.raise_to(NOW - 3_600 * SECOND)
    assert mark.at == NOW - DISTANCE


def test_what_is_written_below_it_lowers_it() -> None:
    mark = a_mark_at(NOW)
    mark.lower([None, NOW, NOW - 60 * SECOND])
    assert mark.at == NOW - 60 * SECOND


def test_what_a_whole_look_finds_below_it_lowers_it() -> None:
    mark = Watermark()
    mark.raise_to(NOW)
    with mark.search() as look:
        look.found = NOW - 60 * SECOND
    assert mark.at == NOW - 60 * SECOND


# -- ready jobs --

_RAN = """
INSERT INTO jobs (job_id, uid, schedule_id, revision, number, retry, origin, status, slot_at, due_at, is_ready,
    is_counted, queue, created_at, ready_at)
SELECT 'old-' || n, 'gone', 'gone', 1, n, 0, 'manual', 'queued', now(), now(), true, true, 'default', now(), %s
FROM generate_series(1, 20000) AS n"""
_OVER = "UPDATE jobs SET status = 'succeeded', ready_at = NULL, released_at = now() WHERE uid = 'gone'"


@pytest.fixture
def stack(postgres_url: str) -> Iterator[Stack]:
    opened = open_stack(postgres_url)
    yield opened
    opened.close()


def claimed(stack: Stack) -> list[str]:
    taken = store_of(stack.runtime).slots.claim_jobs(stack.runtime.clock.now(), node="n", limit=100)
    return [one.job.schedule_id for one in taken]


def pages_read(stack: Stack, mark: int) -> int:
    with stack.database.connection() as connection:
        plan: Any = connection.execute(
            b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + NEXT_READY.postgres,
            {"mark": At(mark), "queues": None},
        ).fetchone()
    (found,) = json.loads(plan[0]) if isinstance(plan[0], str) else plan[0]
    return int(found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"])


def test_an_idle_claim_does_not_pass_the_jobs_that_ran_since_an_old_snapshot_was_opened(stack: Stack) -> None:
    long_ago = stack.runtime.clock.now() - 3_600 * SECOND
    with psycopg.connect(stack.database.url) as old, stack.database.connection() as connection:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM jobs")
        connection.execute(_RAN, (At(long_ago),))
        connection.execute(_OVER)
        assert claimed(stack) == []
        mark = store_of(stack.runtime).slots._store._marks.ready.at  # type: ignore[attr-defined]
        assert pages_read(stack, EARLIEST) > 200
        assert pages_read(stack, mark) < 20


def test_a_job_that_waits_for_capacity_is_not_passed_by(stack: Stack) -> None:
    """However long: the mark stays below it."""
    fields: dict[str, Any] = {"every": "24h", "if_running": "queue", "max_concurrent": 1}
    create_schedules(stack.runtime, [submission(f"g.{n}", group="g", **fields) for n in range(2)])
    store_of(stack.runtime).slots.tick(stack.runtime.clock.now(), limit=10, behind=False)
    with stack.database.connection() as connection:
        connection.execute("UPDATE jobs SET ready_at = ready_at - interval '1 hour'")
    first = claimed(stack)
    assert (len(first), claimed(stack)) == (1, [])
    with stack.database.connection() as connection:
        connection.execute("UPDATE limits SET running = 0")
    assert sorted(first + claimed(stack)) == ["g.0", "g.1"]


def test_a_job_of_a_clock_that_was_put_back_is_ready_at_once(postgres_url: str) -> None:
    clock = ManualClock()
    stack = open_stack(postgres_url, clock=clock)
    try:
        create_schedules(stack.runtime, [submission("a", every="24h", first_run="after_interval")])
        assert claimed(stack) == []
        clock.step(-3_600)
        trigger_schedule(stack.runtime, "a")
        assert claimed(stack) == ["a"]
    finally:
        stack.close()


def test_a_dispatcher_finds_what_others_wrote_below_its_mark(stack: Stack) -> None:
    with closing(open_stack(stack.database.url)) as other:
        create_schedules(other.runtime, [submission("a", every="24h")])
        store_of(other.runtime).slots.tick(other.runtime.clock.now(), limit=10, behind=False)
    with stack.database.connection() as connection:
        connection.execute("UPDATE jobs SET ready_at = ready_at - interval '1 hour'")
    now = stack.runtime.clock.now()
    store_of(stack.runtime).slots._store._marks.ready.raise_to(now)  # type: ignore[attr-defined]
    (delivery,) = store_of(stack.runtime).outbox.hand_over(now, limit=10, until=now + SECOND)
    assert delivery.job_id.endswith("-n1-rc0")
