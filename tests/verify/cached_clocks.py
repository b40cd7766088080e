"""Nodes that know the database's clock from their last question, as on PostgreSQL: a step reaches them later (E8).

One database in memory, whose transactions read its clock; every node asks it once a second and carries the time on by
itself in between. A scheduler records a step when it looks at its clock, which it does before every evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from everwhen.decide import approval, status
from everwhen.engine.ticker import Ticker
from everwhen.engine.watches import ClockWatch
from everwhen.errors import SchedulerError
from everwhen.model.changes import Change, Decision
from everwhen.model.events import Event
from everwhen.model.limits import Shared
from everwhen.model.outcome import SUCCEEDED, JobEnd
from everwhen.model.schedule import Schedule
from everwhen.operations import schedules as operations
from everwhen.store.opened import store_of
from everwhen.store.postgres.clock import FRESH
from everwhen.testing.manual import ManualClock
from everwhen.verify.ledger import LedgerReport, check_ledger
from tests.conformance.stores import sqlite_in_memory
from tests.conformance.tenant import START, submission
from tests.submissions import create_schedule, update_schedule

Action = Callable[[Any], object]
LOOK_EVERY = 1.0  # seconds: the longest sleep of a scheduler's loop


class CachedClock:
    """The database's clock, asked at most once a second."""

    def __init__(self, database: ManualClock) -> None:
        self._database = database
        self._ask()

    def now(self) -> int:
        if self.monotonic() - self._asked >= FRESH:
            self._ask()
        return self._offset + self._elapsed()

    def monotonic(self) -> float:
        return self._database.monotonic()

    def _ask(self) -> None:
        self._asked = self.monotonic()
        self._offset = self._database.now() - self._elapsed()

    def _elapsed(self) -> int:
        return round(self.monotonic() * 1_000_000)


class Node:
    """A scheduler with its API. `do` is what a person asks of it."""

    def __init__(self, name: str, database: ManualClock, runtime: Any) -> None:
        self.name = name
        self.clock = CachedClock(database)
        self.runtime = replace(store_of(runtime), clock=self.clock)
        self._watch = ClockWatch(self.clock)
        self._ticker = Ticker(self.runtime.slots, self.clock)
        self.looked_at = self.clock.monotonic()

    def loop(self) -> None:
        """Run the scheduler's loop once: look at the clock, record a step, decide what is due."""
        self.looked_at = self.clock.monotonic()
        step = self._watch.look()
        if step is not None:
            event = Event("scheduler.clock_stepped", self.clock.now(), detail=step.detail)
            self.runtime.slots.record([event])
        self.runtime.slots.heartbeat(self._watch.now, node=self.name, version="test", is_scheduler=True)
        while self._ticker.step():
            pass

    def work(self) -> None:
        claimed = self.runtime.slots.claim_jobs(self.clock.now(), node=self.name, limit=100)
        ends = [JobEnd(one.job.job_id, one.job.fence, SUCCEEDED) for one in claimed]
        self.runtime.slots.settle(self.clock.now(), ends)

    def do(self, action: Action) -> bool:
        """Return whether the action was possible."""
        try:
            action(self.runtime)
        except SchedulerError:
            return False
        return True


class Cluster:
    """Two such nodes. Time passes in them alike; `step` sets the database's clock."""

    def __init__(self) -> None:
        self.database = ManualClock(START)
        self._site = sqlite_in_memory()
        self._stack = self._site.open(self.database)
        self.nodes = [Node(name, self.database, self._stack.runtime) for name in ("n1", "n2")]

    def command(self, action: Action) -> bool:
        """Do it in a process of its own, which has just asked for the time."""
        return Node("command", self.database, self._stack.runtime).do(action)

    def close(self) -> None:
        self._stack.close()
        self._site.close()

    def wait(self, milliseconds: int) -> None:
        """Let time pass; no scheduler sleeps for longer than a second."""
        self.database.advance(timedelta(milliseconds=milliseconds))
        for node in self.nodes:
            if self.database.monotonic() - node.looked_at >= LOOK_EVERY:
                node.loop()

    def step(self, seconds: int) -> None:
        self.database.step(f"{seconds}s")

    def come_to_rest(self) -> None:
        """Let every node notice every step, and catch up with every slot."""
        for _ in range(12):
            self.wait(1_000)

    def check(self) -> LedgerReport:
        with store_of(self._stack.runtime).ledger.history() as record:
            return check_ledger(record, self.database.now())


# -- actions of people, by name --


def create(name: str, **fields: Any) -> Action:
    return lambda runtime: create_schedule(runtime, submission(name, **fields))


def edit(name: str, **fields: Any) -> Action:
    return lambda runtime: update_schedule(runtime, submission(name, **fields))


def change(name: str, decide: Change) -> Action:
    return lambda runtime: runtime.catalogue.change(runtime.clock.now(), name, decide)


def approve(schedule: Schedule, now: int, shared: Shared) -> Decision:
    return approval.approve(schedule, now, shared, revision=schedule.state.revision, by="person")


def actions(name: str, **fields: Any) -> dict[str, Action]:
    """Return every kind of event in the life of a schedule, and those of the system."""
    return {
        "create": create(name, **fields),
        "edit": edit(name, **fields | {"every": "4s"}),
        "edit back": edit(name, **fields),
        "pause": lambda runtime: operations.pause_schedule(runtime, name),
        "resume": lambda runtime: operations.resume_schedule(runtime, name),
        "invalidate": change(name, partial(status.invalidate, reason="it is gone")),
        "restore": change(name, status.restore),
        "request approval": change(name, partial(approval.request, actor="person")),
        "approve": change(name, approve),
        "revive": lambda runtime: operations.revive_schedule(runtime, name),
        "delete": lambda runtime: operations.delete_schedule(runtime, name),
        "pause the system": operations.pause_system,
        "resume the system": operations.resume_system,
    }
