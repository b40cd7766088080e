"""Each change of a row is written once: as a function and as SQL it does the same, and touches no other column."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.model import row_changes
from everwhen.model.row_changes import RowChange
from everwhen.model.schedule import State

COUNTERS = [name for name, value in State._field_defaults.items() if value == 0]
INSTANTS = [name for name in State._fields if name.endswith("_at")]
NOW = 50

# What each change does to a row in which every counter is 7, every instant 3 and every text None.
EXPECTED: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("reach", (9,), {"last_slot_at": 9}),
    ("reach", (2,), {"last_slot_at": 3}),
    ("fire", (NOW, 9), {"fire_count": 8, "outstanding": 8, "last_fired_at": NOW, "last_slot_at": 9}),
    (
        "fire_and_move_on",
        (NOW, 9, 12, 13),
        {
            "fire_count": 8,
            "outstanding": 8,
            "last_fired_at": NOW,
            "last_slot_at": 9,
            "next_slot_at": 12,
            "next_run_at": 13,
        },
    ),
    ("move_on", (None, None), {"next_slot_at": None, "next_run_at": None}),
    ("request", (True,), {"fire_count": 8, "outstanding": 8}),
    ("request", (False,), {"fire_count": 8}),
    ("defer", (), {"waiting": 8}),
    ("retry", (), {"outstanding": 8, "waiting": 8, "retries_waiting": 8}),
    ("start", (1, -1, -1, NOW), {"running_jobs": 8, "waiting": 6, "retries_waiting": 6, "last_run_at": NOW}),
    ("start", (1, 0, 0, None), {"running_jobs": 8}),
    ("end_job", (), {"outstanding": 6}),
    ("release", (), {"running_jobs": 6}),
    (
        "succeed",
        (NOW, "j"),
        {
            "run_count": 8,
            "current_repeat": 8,
            "current_retry": 0,
            "failed_slots": 0,
            "last_success_at": NOW,
            "last_success_job_id": "j",
        },
    ),
    (
        "fail",
        ("boom", "ValueError"),
        {"error_count": 8, "current_retry": 8, "last_error": "boom", "last_error_type": "ValueError"},
    ),
    ("fail_slot", (True,), {"failed_slots": 8}),
    ("fail_slot", (False,), {"failed_slots": 8, "current_retry": 0}),
    ("end_slot", (NOW,), {"last_completed_at": NOW}),
    ("cancel", (True, False), {"outstanding": 6, "waiting": 6}),
    ("cancel", (True, True), {"outstanding": 6, "waiting": 6, "retries_waiting": 6}),
    ("ran", (5,), {"last_run_at": 5}),
    ("ran", (2,), {}),
    (
        "end_well",
        (NOW, "j", 5),
        {
            "last_run_at": 5,
            "outstanding": 6,
            "running_jobs": 6,
            "run_count": 8,
            "current_repeat": 8,
            "current_retry": 0,
            "failed_slots": 0,
            "last_completed_at": NOW,
            "last_success_at": NOW,
            "last_success_job_id": "j",
        },
    ),
]


def a_row(**fields: Any) -> State:
    row = State(1, "a1b2c3d4e5f6", "a", None, 1, "active", 3, 3, 3)
    return row._replace(**{**dict.fromkeys(COUNTERS, 7), **dict.fromkeys(INSTANTS, 3), **fields})


@pytest.mark.parametrize(("name", "arguments", "expected"), EXPECTED)
def test_a_change_sets_the_columns_that_it_names_and_no_others(
    name: str, arguments: tuple[Any, ...], expected: dict[str, Any]
) -> None:
    change: Callable[..., State] = getattr(row_changes, name)
    changed = change(a_row(), *arguments)
    assert type(changed) is State
    assert changed == a_row()._replace(**expected)


def test_a_first_slot_is_reached_whatever_its_instant() -> None:
    assert row_changes.reach(a_row(last_slot_at=None), 1).last_slot_at == 1


COUNTS = st.fixed_dictionaries(dict.fromkeys(COUNTERS, st.integers(0, 1_000)))


@settings(max_examples=500)
@given(
    counts=COUNTS,
    now=st.integers(1, 1 << 50),
    started=st.tuples(*[st.integers(-1, 1)] * 3),
    own=st.booleans(),
)
def test_the_sql_of_a_change_writes_what_its_function_returns(
    counts: dict[str, int], now: int, started: tuple[int, int, int], own: bool
) -> None:
    before = a_row(**counts)
    sql = row_changes.ENDED_WELL.to_sql(now=":now", job_id=":job_id", run_at=":run_at")
    ended = {"now": now, "job_id": "j", "run_at": now - 1}
    assert updated(before, sql, ended) == row_changes.end_well(before, now, "j", now - 1)
    running, waiting, retries = started
    run_at = now if own else None
    sql = row_changes.STARTED.to_sql(running=":a", began_waiting=":b", began_retries=":c", run_at=":run_at")
    values = {"a": running, "b": waiting, "c": retries, "run_at": run_at}
    assert updated(before, sql, values) == row_changes.start(before, running, waiting, retries, run_at)


def updated(state: State, assignments: str, values: dict[str, Any]) -> State:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE schedules ({', '.join(State._fields)})")
        connection.execute(f"INSERT INTO schedules VALUES ({', '.join('?' * len(state))})", state)
        connection.execute(f"UPDATE schedules SET {assignments}", values)
        return State._make(connection.execute("SELECT * FROM schedules").fetchone())
    finally:
        connection.close()


def test_two_changes_of_one_column_cannot_be_united() -> None:
    with pytest.raises(ValueError, match="both changes set outstanding"):
        _ = row_changes.FIRED | row_changes.OVER


@pytest.mark.parametrize("value", ["outstandign + 1", "now"])
def test_a_change_with_a_name_that_nobody_gives_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="unclear names"):
        row_changes._change_state(RowChange({"outstanding": value}))
