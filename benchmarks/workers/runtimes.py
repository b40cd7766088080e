"""What the workers of everwhen share: a runtime on a separate database, filled with schedules, and witnesses."""

import json
from collections.abc import Callable, Sequence
from time import perf_counter, time_ns
from typing import Any

from benchmarks.workers.backends import backend_of
from everwhen.cli.main import collect_seldom
from everwhen.clock import Clock
from everwhen.model.instants import SECOND
from everwhen.model.message import message_target
from everwhen.model.outcome import SUCCEEDED, JobEnd, Outcome
from everwhen.model.schedule import State, Target
from everwhen.store.slots import Exchange
from everwhen.store.tick import TickReport
from everwhen.target import Run
from everwhen.version import __version__
from everwhen.wiring import Stack, open_stack
from tests.submissions import Submission, create_schedules

VERSION = __version__
HOUR = 3_600 * SECOND
START = 1_767_571_200 * SECOND  # 2026-01-05 00:00 UTC
TARGET = Target("command", json.dumps({"argv": ["true"]}))
SAYING = message_target({"text": "now"})  # fired and settled in one transaction
LOADED_AT_ONCE = 1_000
DATABASE = "EVERWHEN_BENCH_DATABASE"  # the variable that names the database for the processes of a worker

# Everything due at the full hour, with a shared limit that is updated and never reached.
HOURLY = {"every": "1h", "first_run": "after_interval", "command": "sync", "max_outstanding": 10_000_000}
GROUPS = 10


class SetClock:
    """A clock that stands still where it was set; after `run_on` it runs with the real one."""

    def __init__(self, at: int = START) -> None:
        self.at = at
        self.since: float | None = None

    def now(self) -> int:
        return self.at if self.since is None else self.at + int((perf_counter() - self.since) * SECOND)

    def monotonic(self) -> float:
        return perf_counter()

    def set(self, at: int) -> None:
        self.at, self.since = at, None

    def run_on(self) -> None:
        self.since = perf_counter()


class Witness:
    """A wrapper of the slots that records when ticks were committed, and how many jobs were settled."""

    def __init__(self, slots: Any) -> None:
        self.slots = slots
        self.commits: list[tuple[int, int]] = []  # microseconds since 1970, jobs
        self.settled = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.slots, name)

    def tick(self, now: int, **keys: Any) -> TickReport:
        report: TickReport = self.slots.tick(now, **keys)
        if report.fired:
            self.commits.append((time_ns() // 1_000, report.fired))
        return report

    def settle(self, now: int, ends: Sequence[JobEnd]) -> int:
        settled: int = self.slots.settle(now, ends)
        self.settled += settled
        return settled

    def exchange(self, now: int, ends: Sequence[JobEnd], **keys: Any) -> Exchange:
        exchanged: Exchange = self.slots.exchange(now, ends, **keys)
        self.settled += exchanged.settled
        return exchanged


class NoWork:
    """A target that does nothing."""

    async def run(self, spec: str, run: Run) -> Outcome:
        return SUCCEEDED


def a_stack(url: str, clock: Clock | None = None) -> Stack:
    """Open a stack as the serving commands do: in a separate process, with rare garbage collection."""
    collect_seldom()
    return open_stack(url, clock=clock)


def submission(name: str, group: str, fields: dict[str, Any], target: Target = TARGET) -> Submission:
    return Submission(f"{group}.{name}", fields, target, group=group)


def load(
    stack: Stack,
    count: int,
    fields: dict[str, Any] | Callable[[int], dict[str, Any]],
    name: str = "s",
    target: Target = TARGET,
) -> list[State]:
    """Create schedules through the bulk call, spread over ten groups."""
    fields_of = fields if callable(fields) else lambda _number: fields
    states = []
    for start in range(0, count, LOADED_AT_ONCE):
        numbers = range(start, min(start + LOADED_AT_ONCE, count))
        batch = [submission(f"{name}{n}", f"g{n % GROUPS}", fields_of(n), target) for n in numbers]
        states += create_schedules(stack.runtime, batch)
    return states


def load_many(stack: Stack, count: int, fields: dict[str, Any], name: str = "s", spread: int = 0) -> None:
    """Create a thousand through the bulk call, the rest as copies in SQL: for benchmarks that do not measure loading.

    `spread` sets the due instants of the copies so many microseconds apart.
    """
    states = load(stack, min(count, LOADED_AT_ONCE), fields, name)
    uids = ", ".join(f"'{state.uid}'" for state in states)
    backend = backend_of(stack.database)
    moved = {
        "uid": "copy || '-' || uid",  # neighbours in every index, like those of one call
        "schedule_id": "schedule_id || '-' || copy",
        "next_run_at": backend.later("next_run_at", f"copy * {spread}"),
    }
    originals = f"uid IN ({uids})"
    multiply(stack, "schedules", originals, count // LOADED_AT_ONCE - 1, moved)
    multiply(stack, "schedule_revisions", originals, count // LOADED_AT_ONCE - 1, moved)
    backend.tidy()


def multiply(stack: Stack, table: str, originals: str, copies: int, moved: dict[str, str]) -> None:
    """Copy the rows that the condition selects; an expression may use `copy`, which counts from 1."""
    if copies < 1:
        return
    backend = backend_of(stack.database)
    names = backend.columns(table)
    columns = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(moved.get(name, f'"{name}"') for name in names)
    backend.change(
        f"""WITH RECURSIVE copies(copy) AS (SELECT 1 UNION ALL SELECT copy + 1 FROM copies WHERE copy < {copies})
        INSERT INTO {table} ({columns}) SELECT {values} FROM {table}, copies WHERE {originals}"""
    )


def forget_jobs(stack: Stack, after: int = 0) -> None:
    """Restore the state before the first firing: no jobs (after that row), nothing outstanding, a short log."""
    backend = backend_of(stack.database)
    backend.change(
        f"DELETE FROM jobs WHERE row_id > {after}",
        "UPDATE schedules SET outstanding = 0, running_jobs = 0",
        "UPDATE limits SET outstanding = 0, running = 0",
    )
    backend.tidy()
