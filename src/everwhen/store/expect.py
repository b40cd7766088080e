"""Deadlines of `expect`: those that passed, and those that a downtime or a system pause moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from everwhen.decide.expect import leave_downtime, note_silence, with_expectation
from everwhen.model.changes import Decision
from everwhen.model.limits import Coverage, Shared
from everwhen.model.schedule import Schedule, State
from everwhen.store.commit import commit_decisions
from everwhen.store.dialect import Statement
from everwhen.store.load import schedules_of
from everwhen.store.schedule_rows import IS_PAUSED, STATE
from everwhen.store.transaction import Snapshot, Transaction

PORTION = 500
MOST_DOWNTIMES = 1_000  # the last ones of one look
_MOVED_UNTIL = "downtime_until"  # a setting: the end of the last downtime for which deadlines were moved

# idx_schedules_expect, from its front; whole.
NEXT_EXPECTED = Statement(f"""
SELECT min(expect_at) FROM schedules WHERE expect_at IS NOT NULL AND NOT {IS_PAUSED}""")
_OVER = Statement(f"""
SELECT {STATE} FROM schedules WHERE expect_at IS NOT NULL AND expect_at <= :now::instant
ORDER BY expect_at LIMIT :limit""")
_ALL = Statement(f"""
SELECT {STATE} FROM schedules INDEXED BY idx_schedules_expect WHERE expect_at IS NOT NULL ORDER BY uid""")

# nodes, whole: one row per start of a process.
_SCHEDULERS = Statement("""
SELECT node, started_at, heartbeat_at, stopped_at IS NULL AND lost_at IS NULL AND heartbeat_at > :oldest::instant
FROM nodes WHERE is_scheduler""")

Decide = Callable[[Schedule, Shared], Decision]


class Downtimes(NamedTuple):
    """The times without a scheduler for which no deadline was moved yet.

    `is_settled`: no other one may show yet. A node whose lease lasts, and that has been silent since before this one
    started, may be alive.
    """

    spans: list[tuple[int, int]]
    is_settled: bool


def find_downtimes(tx: Snapshot, now: int, *, node: str, lease: int) -> Downtimes:
    """Return the downtimes until now by the recorded heartbeats; a node is alive until its lease has ended."""
    moved_until = _moved_until(tx, now)
    possible, certain = [(now, now)], [(now, now)]
    for name, started_at, heartbeat_at, is_alive in tx.rows(_SCHEDULERS, oldest=now - lease):
        longest = max(heartbeat_at, now) if is_alive else heartbeat_at
        possible.append((started_at, longest))
        certain.append((started_at, longest if name == node else heartbeat_at))
    spans, unclear = (
        [gap for gap in Coverage.merge(stretches).gaps() if moved_until < gap[1] <= now]
        for stretches in (possible, certain)
    )
    return Downtimes(spans[-MOST_DOWNTIMES:], is_settled=spans == unclear)


def note_silences(tx: Transaction, now: int) -> int:
    """Record the schedules whose deadline has passed, at most one portion; return how many rows were looked at."""
    return _decide_all(
        tx, _states(tx, _OVER, now=now, limit=PORTION), now, lambda s, m: note_silence(s, now, m)
    )


def move_deadlines(tx: Transaction, since: int, until: int) -> None:
    """Move all deadlines after a time in which no scheduler was alive, once, however many nodes start after it."""
    begin = max(since, _moved_until(tx, until))
    if begin < until:
        tx.put_setting(_MOVED_UNTIL, str(until))
        _decide_all(tx, _states(tx, _ALL), until, lambda s, m: leave_downtime(s, begin, until, m))


def start_expectations(tx: Transaction, now: int) -> None:
    """Start all clocks that are running anew, after a pause of the system."""

    def start(schedule: Schedule, _shared: Shared) -> Decision:
        before = schedule.state
        after = with_expectation(before, schedule.plan, now)
        return Decision(before, after, schedule.plan, (), (), cancelled=())

    _decide_all(tx, _states(tx, _ALL), now, start)


def _moved_until(tx: Snapshot, now: int) -> int:
    """Return until when downtimes are done with; 0 when none is, or when the clock was put back since."""
    until = int(tx.settings().get(_MOVED_UNTIL, "0"))
    return until if until <= now else 0


def _states(tx: Transaction, statement: Statement, **values: object) -> list[State]:
    return [State._make(row) for row in tx.rows_to_change(statement, **values)]


def _decide_all(tx: Transaction, states: list[State], now: int, decide: Decide) -> int:
    for start in range(0, len(states), PORTION):
        shared = Shared()
        schedules = schedules_of(tx, states[start : start + PORTION])
        commit_decisions(tx, [decide(schedule, shared) for schedule in schedules], shared, now)
    return len(states)
