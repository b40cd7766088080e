"""A message that is fired and over in one moment leaves what firing, starting and settling it would have left."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.model.changes import Decision
from everwhen.model.message import message_target
from everwhen.store import tick as flow
from everwhen.store.lanes import Lane
from everwhen.store.publish import publish_at_once
from everwhen.store.sqlite.database import SqliteDatabase
from everwhen.store.sqlite.transaction import SqliteTransaction
from everwhen.store.transaction import Due, Transaction
from tests.conformance.tenant import Tenant
from tests.store.test_settle_fast import UndoneError, a_runtime

HELLO = message_target({"text": "hello", "structured": {"a": 1}})
LOOK_BACK = 10_000_000


def none_at_once(_tx: Transaction, decisions: Sequence[Decision], _now: int) -> Sequence[Decision]:
    return decisions


def left_by_a_tick(runtime: Tenant) -> list[Any]:
    """All rows after an evaluation, without the numbers that say in which order they were written; it is undone."""
    seen: list[Any] = []

    def work(connection: sqlite3.Connection) -> None:
        due = Due(runtime.now, runtime.now - LOOK_BACK, 500, False)
        report = flow.evaluate(SqliteTransaction(connection, runtime.stack.plans), due, stagger=0)
        seen.append(report)
        for table in ("schedules", "jobs", "messages", "audit_events", "limits", "circuit_breakers"):
            rows = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in rows.description]
            seen.append(
                sorted(repr([*zip(names, row, strict=True)][names[0] in ("row_id", "id") :]) for row in rows)
            )
        raise UndoneError

    database = runtime.stack.database
    assert isinstance(database, SqliteDatabase)
    with pytest.raises(UndoneError):
        database.write(Lane.TICK, work)
    return seen


def fields() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"every": st.sampled_from(["5s", "10s", "1h"])},
        optional={
            "if_running": st.sampled_from(["skip", "queue", "cancel", "allow"]),
            "max_outstanding": st.integers(1, 2),
            "max_concurrent": st.integers(1, 2),
            "total_repeats": st.integers(1, 2),
            "max_retries": st.integers(0, 2),
            "timeout": st.just("1m"),
            "jitter": st.just("2s"),
            "payload": st.just({"b": 2}),
            "interval_from": st.just("completion"),
            "catch_up": st.sampled_from(["skip", "run_once", "run_all"]),
            "circuit_breaker": st.just({"threshold": 1, "reset_after": "30m"}),
            "target": st.just(HELLO),
        },
    )


@settings(max_examples=100)
@given(
    schedules=st.lists(st.tuples(fields(), st.booleans()), min_size=1, max_size=5),
    waits=st.lists(st.sampled_from([2, 5, 10, 40]), min_size=1, max_size=3),
)
def test_messages_published_at_once_leave_what_the_full_path_leaves(
    schedules: list[tuple[dict[str, Any], bool]], waits: list[int]
) -> None:
    with a_runtime() as runtime:
        for number, (rule, is_triggered) in enumerate(schedules):
            runtime.add(f"g.s{number}", group="g", **{"target": HELLO, **rule})
            if is_triggered:
                runtime.trigger(f"g.s{number}")
        for wait in [0, *waits]:
            runtime.wait(timedelta(seconds=wait))
            runtime.beat()
            at_once = left_by_a_tick(runtime)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(flow, "publish_at_once", none_at_once)
                by_full_path = left_by_a_tick(runtime)
            assert at_once == by_full_path
            runtime.step()
        assert runtime.check().is_clean


def test_a_plain_message_is_written_once_and_one_behind_others_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[Decision] = []

    def watched(tx: Transaction, decisions: Sequence[Decision], now: int) -> Sequence[Decision]:
        left[:] = publish_at_once(tx, decisions, now)
        return left

    monkeypatch.setattr(flow, "publish_at_once", watched)
    with a_runtime() as runtime:
        runtime.add("behind", every="1h", if_running="queue")
        runtime.step()
        runtime.edit(
            "behind", every="1h", if_running="queue", target=HELLO
        )  # its first job is a command still
        runtime.add("plain", every="1h", target=HELLO)
        runtime.add("limited", every="1h", target=HELLO, max_outstanding=3)
        runtime.add("counted", every="1h", target=HELLO, total_repeats=3)
        runtime.step()
        runtime.wait("1h")
        runtime.tick()
        assert {decision.after.schedule_id for decision in left} == {"behind", "limited", "counted"}
        assert runtime.statuses("plain")[-1] == runtime.statuses("limited")[-1] == "succeeded"
        assert sorted(runtime.statuses("behind")) == ["queued", "queued"]
