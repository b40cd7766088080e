"""Two nodes, interleaved statement by statement: whatever one does between two statements of the other.

The first stops before one of its statements and time passes; the second runs up to one of its own, or to its end, or
until it has to wait for the first; then the first runs to its end, and the second after it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

from everwhen.errors import SchedulerError, StoreError
from tests.boundaries.benches import Bench, PostgresBench, Run, SqliteBench, recover
from tests.boundaries.crowd import ACTIONS, CROWD, Action
from tests.boundaries.process import Process
from tests.boundaries.tap import Boundary, tapped
from tests.servers.everwhen_database import PostgresDatabase

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

END = 10_000  # no action has as many statements
STRIDE = 7  # the second stops at a different statement each time
PATIENCE = 60.0
LOCK = "LOCK"  # counts as a statement: a node that waits there has read the clock already

_WAITING = """
SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"""


class Node:
    """One action of one node on a separate thread, which stops before one of its statements."""

    def __init__(self, runtime: Process, action: Action, known: Any, stop: int) -> None:
        self._act: Callable[[], object] = lambda: action(runtime, known)
        self._stop = stop
        self._go = Event()
        self.halted = Event()  # it has stopped, it waits for the other, or it is done
        self.statements: list[str] = []
        self.error: BaseException | None = None
        self._thread = Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def go(self) -> None:
        self.halted.clear()
        self._go.set()

    def join(self) -> None:
        self._go.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it never ends"

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with tapped(self._meet, lambda: self._pass(LOCK), self.halted.set):
                self._act()
        except SchedulerError as error:
            self.error = error if isinstance(error, StoreError) else None  # a refusal is a valid answer
        except BaseException as error:
            self.error = error
        finally:
            self.halted.set()

    def _meet(self, boundary: Boundary) -> None:
        if boundary.side == "before":
            self._pass(boundary.statement)

    def _pass(self, statement: str) -> None:
        number = len(self.statements)
        self.statements.append(statement)
        if number == self._stop:
            self.halted.set()
            assert self._go.wait(PATIENCE)


class Encounter:
    """A prepared database with two nodes on it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._runtimes = (run.runtime, run.another_node())
        url = run.runtime.site.url
        self._monitor = psycopg.connect(url, autocommit=True) if url.startswith("postgres") else None

    def meet(self, names: tuple[str, str], stops: tuple[int, int]) -> int:
        """Interleave two actions and return how many statements the second sent."""
        first, second = (
            Node(runtime, ACTIONS[name], self._run.known, stop)
            for runtime, name, stop in zip(self._runtimes, names, stops, strict=True)
        )
        first.start()
        self._wait_for(first)
        self._run.runtime.clock.advance("1m")
        second.start()
        self._wait_for(second)
        first.go()
        self._wait_for(first)
        for node in (second, first):
            node.join()
        for node in (first, second):
            if node.error is not None:
                raise node.error
        self._prove()
        return len(second.statements)

    def _prove(self) -> None:
        recover(self._run, *self._runtimes, pauses=("2m", "2m"))
        policies = {policy.policy_id for policy in self._runtimes[0].runtime.catalogue.policies()}
        for schedule in self._runtimes[0].runtime.catalogue.soonest(100):
            assert schedule.definition.quiet_hours_id in policies | {None}

    def _wait_for(self, node: Node) -> None:
        while not node.halted.wait(0.001) and not node.is_done:
            if self._monitor is not None and self._monitor.execute(_WAITING).fetchall():
                return

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.close()
        self._run.close()


def meet(bench: Bench, names: tuple[str, str], stops: tuple[int, int]) -> int:
    encounter = Encounter(bench.begin())
    try:
        return encounter.meet(names, stops)
    except BaseException as error:
        error.add_note(f"{names[0]} stopped at {stops[0]}, {names[1]} at {stops[1]}")
        raise
    finally:
        encounter.close()


def stops_of(bench: Bench, name: str) -> list[int]:
    """Return where the first may stop: nowhere, or before a statement. In one transaction of SQLite's writer one stop
    is enough."""
    run = bench.begin()
    node = Node(run.runtime, ACTIONS[name], run.known, END)
    node.start()
    node.join()
    run.close()
    stops, is_turn = [END], False
    for number, statement in enumerate(node.statements):
        if not is_turn:
            stops.append(number)
        is_turn = statement == "BEGIN IMMEDIATE" or (is_turn and statement not in ("COMMIT", "ROLLBACK"))
    return stops


def interleave(bench: Bench, first: str, second: str) -> None:
    for stop in stops_of(bench, first):
        length = meet(bench, (first, second), (stop, END))
        meet(bench, (first, second), (stop, stop * STRIDE % length))


PAIRS = [(first, second) for first in ACTIONS for second in ACTIONS]
every_pair = pytest.mark.parametrize(
    ("first", "second"), PAIRS, ids=[f"{first} and {second}" for first, second in PAIRS]
)


@every_pair
def test_two_nodes_on_postgresql_never_undo_or_repeat_each_other(
    everwhen_on_18: PostgresDatabase, first: str, second: str
) -> None:
    interleave(PostgresBench(everwhen_on_18, CROWD), first, second)


@every_pair
def test_two_nodes_on_sqlite_never_undo_or_repeat_each_other(folder: Path, first: str, second: str) -> None:
    interleave(SqliteBench(folder, CROWD), first, second)
