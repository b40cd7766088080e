"""Deadlines of `expect`: those that passed, and those that a downtime or a system pause moves."""

from __future__ import annotations

from collections.abc import Callable

from everwhen.decide.expect import leave_downtime, note_silence, with_expectation
from everwhen.model.changes import Decision
from everwhen.model.limits import Shared
from everwhen.model.schedule import Schedule, State
from everwhen.store.commit import commit_decisions
from everwhen.store.dialect import Statement
from everwhen.store.load import schedules_of
from everwhen.store.schedule_rows import IS_PAUSED, STATE
from everwhen.store.transaction import Transaction

PORTION = 500
LEFT = "downtime_left"  # a setting: the beginning of the last downtime whose deadlines were moved

# idx_schedules_expect, from its front; whole.
NEXT_EXPECTED = Statement(f"""
SELECT min(expect_at) FROM schedules WHERE expect_at IS NOT NULL AND NOT {IS_PAUSED}""")
_OVER = Statement(f"""
SELECT {STATE} FROM schedules WHERE expect_at IS NOT NULL AND expect_at <= :now::instant
ORDER BY expect_at LIMIT :limit""")
_ALL = Statement(f"""
SELECT {STATE} FROM schedules INDEXED BY idx_schedules_expect WHERE expect_at IS NOT NULL ORDER BY uid""")

Decide = Callable[[Schedule, Shared], Decision]


def note_silences(tx: Transaction, now: int) -> int:
    """Record the schedules whose deadline has passed, at most one portion; return how many rows were looked at."""
    return _decide_all(
        tx, _states(tx, _OVER, now=now, limit=PORTION), now, lambda s, m: note_silence(s, now, m)
    )


def move_deadlines(tx: Transaction, since: int, now: int) -> None:
    """Move all deadlines after a time in which no scheduler was alive, once, however many nodes start after it."""
    if tx.settings().get(LEFT) == str(since):
        return
    tx.put_setting(LEFT, str(since))
    _decide_all(tx, _states(tx, _ALL), now, lambda s, m: leave_downtime(s, since, now, m))


def start_expectations(tx: Transaction, now: int) -> None:
    """Start all clocks that are running anew, after a pause of the system."""

    def start(schedule: Schedule, _shared: Shared) -> Decision:
        before = schedule.state
        after = with_expectation(before, schedule.plan, now)
        return Decision(before, after, schedule.plan, (), (), cancelled=())

    _decide_all(tx, _states(tx, _ALL), now, start)


def _states(tx: Transaction, statement: Statement, **values: object) -> list[State]:
    return [State._make(row) for row in tx.rows_to_change(statement, **values)]


def _decide_all(tx: Transaction, states: list[State], now: int, decide: Decide) -> int:
    for start in range(0, len(states), PORTION):
        shared = Shared()
        schedules = schedules_of(tx, states[start : start + PORTION])
        commit_decisions(tx, [decide(schedule, shared) for schedule in schedules], shared, now)
    return len(states)
