"""The fast path of a settlement writes what the full path writes, row for row."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.model.limits import Shared
from everwhen.model.outcome import SUCCEEDED, JobEnd, NewMessage, Outcome
from everwhen.store.commit import write_shared
from everwhen.store.lanes import Lane
from everwhen.store.settle import settle_fast, settle_full, settle_jobs
from everwhen.store.sqlite.database import SqliteDatabase
from everwhen.store.sqlite.transaction import SqliteTransaction
from everwhen.store.transaction import Transaction
from everwhen.testing.manual import ManualClock
from tests.conformance.stores import Capabilities, sqlite_in_memory
from tests.conformance.tenant import FAILED, START, Tenant, end_of

Settle = Callable[[Transaction, Sequence[JobEnd], int], int]
ALONE = Capabilities(several_processes=False)


class UndoneError(Exception):
    """Ends a transaction that is only looked at."""


@contextmanager
def a_runtime() -> Iterator[Tenant]:
    site = sqlite_in_memory()
    tenant = Tenant(site, ALONE, ManualClock(START))
    try:
        yield tenant
    finally:
        tenant.close()
        site.close()


def settle_by_full_path(tx: Transaction, ends: Sequence[JobEnd], now: int) -> int:
    shared = Shared()
    settled = settle_full(tx, ends, shared, now)
    write_shared(tx, shared, now)
    return settled


def what_it_writes(runtime: Tenant, settle: Settle, ends: Sequence[JobEnd]) -> tuple[int, list[str]]:
    """How many ends counted, and the database after it, which is then undone."""
    seen: list[tuple[int, list[str]]] = []

    def work(connection: sqlite3.Connection) -> None:
        settled = settle(SqliteTransaction(connection, runtime.stack.plans), ends, runtime.now)
        seen.append((settled, list(connection.iterdump())))
        raise UndoneError

    database = runtime.stack.database
    assert isinstance(database, SqliteDatabase)
    with pytest.raises(UndoneError):
        database.write(Lane.SETTLE, work)
    return seen[0]


def fields() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"every": st.sampled_from(["10s", "1h"])},
        optional={
            "if_running": st.sampled_from(["skip", "queue", "allow"]),
            "max_outstanding": st.integers(1, 3),
            "max_concurrent": st.integers(1, 3),
            "total_repeats": st.integers(1, 2),
            "max_retries": st.integers(0, 2),
            "interval_from": st.just("completion"),
            "circuit_breaker": st.just({"threshold": 1, "reset_after": "30m"}),
        },
    )


def outcomes() -> st.SearchStrategy[Outcome]:
    message = NewMessage("e1", "g.s0", "0123456789ab", None, "job", "{}")
    return st.sampled_from(
        [
            *[SUCCEEDED] * 4,
            Outcome("succeeded", result="fine \x00"),
            Outcome("succeeded", also=message),
            Outcome("succeeded", awaits="hash"),
            Outcome("succeeded", events='{"type": "ready"}'),
            Outcome("succeeded", is_still_running=True),
            FAILED,
            Outcome("timed_out", is_still_running=True),
            Outcome("cancelled"),
        ]
    )


def befall(runtime: Tenant, what: str, name: str) -> None:
    """What may happen to a schedule while a job of its runs."""
    if what == "deleted":
        runtime.delete(name)
    elif what == "edited":
        runtime.edit(name, group="g", every="2h", total_repeats=1)
    elif what == "paused" and runtime.state(name).status == "active":
        runtime.pause(name)
    elif what == "triggered" and runtime.state(name).status == "active":
        runtime.trigger(name)
    elif what == "cancelled":
        for job in [job for job in runtime.jobs(name) if job.is_outstanding][-1:]:
            runtime.cancel(job.job_id)


FATES = ["nothing"] * 4 + ["deleted", "edited", "paused", "triggered", "cancelled"]


SCHEDULES = st.lists(st.tuples(fields(), st.sampled_from(FATES), st.booleans()), min_size=1, max_size=5)
REPORTED = st.lists(st.tuples(outcomes(), st.sampled_from([0, 0, 0, 0, 0, 1])), min_size=10, max_size=10)
Schedules = list[tuple[dict[str, Any], str, bool]]


@settings(max_examples=150)  # of up to ten ends each
@given(schedules=SCHEDULES, reported=REPORTED, again=st.booleans(), has_failed=st.booleans())
def test_a_fast_settlement_writes_what_the_full_one_writes(
    schedules: Schedules, reported: list[tuple[Outcome, int]], again: bool, has_failed: bool
) -> None:
    compare_settlements(schedules, reported, again=again, has_failed=has_failed)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=5_000, derandomize=False)
@given(schedules=SCHEDULES, reported=REPORTED, again=st.booleans(), has_failed=st.booleans())
def test_a_fast_settlement_writes_what_the_full_one_writes_in_many_cases(
    schedules: Schedules, reported: list[tuple[Outcome, int]], again: bool, has_failed: bool
) -> None:
    compare_settlements(schedules, reported, again=again, has_failed=has_failed)


def compare_settlements(
    schedules: Schedules, reported: list[tuple[Outcome, int]], *, again: bool, has_failed: bool
) -> None:
    with a_runtime() as runtime:
        for number, (rule, _, is_triggered) in enumerate(schedules):
            runtime.add(f"g.s{number}", group="g", **rule)
            if is_triggered:
                runtime.trigger(f"g.s{number}")
        runtime.step()
        if has_failed:
            runtime.run(outcome=FAILED)
            runtime.wait_and_step("1h")
        claimed = runtime.claim()
        runtime.wait("11s")
        runtime.beat()
        runtime.step()
        for number, (_, fate, _) in enumerate(schedules):
            befall(runtime, fate, f"g.s{number}")
        pairs = list(zip(claimed, reported, strict=False))
        ends = [end_of(one, outcome) for one, (outcome, _) in pairs]
        ends = [end._replace(fence=end.fence + off) for end, (_, (_, off)) in zip(ends, pairs, strict=True)]
        ends += ends[:1] if again else []
        assert what_it_writes(runtime, settle_jobs, ends) == what_it_writes(
            runtime, settle_by_full_path, ends
        )


def left_by_the_fast_path(runtime: Tenant, ends: Sequence[JobEnd]) -> Sequence[JobEnd]:
    left: list[Sequence[JobEnd]] = []

    def settle(tx: Transaction, ends: Sequence[JobEnd], now: int) -> int:
        left.append(settle_fast(tx, ends, Shared(), now))
        return 0

    what_it_writes(runtime, settle, ends)
    return left[0]


def test_a_plain_success_takes_the_fast_path_and_one_that_others_wait_for_does_not() -> None:
    with a_runtime() as runtime:
        runtime.add("plain", every="1h", max_outstanding=1)
        runtime.add("counted", every="1h", total_repeats=2)
        runtime.add("chained", every="1h", interval_from="completion")
        runtime.add("broken", every="1h", circuit_breaker={"threshold": 1, "reset_after": "30m"})
        runtime.add("queued", every="1h", if_running="queue")
        runtime.step()
        claimed = {one.job.schedule_id: end_of(one) for one in runtime.claim()}
        runtime.trigger("queued")
        left = left_by_the_fast_path(runtime, list(claimed.values()))
        assert {end.job_id for end in left} == {
            claimed[name].job_id for name in ("counted", "chained", "broken", "queued")
        }
