"""A benchmark of this database on this machine: it creates, fires and runs schedules of its own as no-ops.

It needs a database that no other process uses; it refuses one that already has schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everwhen.errors import SchedulerError
from everwhen.model.declare import Declared, declare
from everwhen.model.outcome import SUCCEEDED, JobEnd
from everwhen.model.schedule import Target
from everwhen.operations.schedules import create_declared
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

BATCH = 500
NODE = "bench"
SINGLE = 200
IDLE = 500
_NOTHING = Target("command", '{"argv": ["true"]}')


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: how many of what in how many seconds."""

    what: str
    count: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.count / max(self.seconds, 1e-9)


def bench(runtime: Runtime, count: int, progress: Callable[[float], None]) -> Iterator[Figure]:
    """Measure one step after another, each on the state that the previous one left."""
    if store_of(runtime).ledger.counts().schedules:
        raise SchedulerError(
            "the benchmark needs an empty database, but this one has schedules; name another one"
        )
    works: list[tuple[str, int, Callable[[], object]]] = [
        ("schedules created one by one", SINGLE, lambda: _create(runtime, SINGLE, "single", 1)),
        ("schedules created in bulk", count, lambda: _create(runtime, count, "bulk", 1_000)),
        ("slots fired", count + SINGLE, lambda: _fire(runtime)),
        ("jobs claimed and settled", count + SINGLE, lambda: _work(runtime)),
        ("looks with nothing due", IDLE, lambda: _look(runtime)),
    ]
    for number, (what, size, work) in enumerate(works):
        progress(number / len(works))
        begun = runtime.clock.monotonic()
        work()
        yield Figure(what, size, runtime.clock.monotonic() - begun)


def _create(runtime: Runtime, count: int, name: str, at_once: int) -> None:
    fields, now, zone = {"every": "1h"}, runtime.clock.now(), runtime.timezone
    for first in range(0, count, at_once):
        names = [f"{name}-{number}" for number in range(first, min(first + at_once, count))]
        new = [
            Declared(one, fields, _NOTHING, declare(one, fields, target=_NOTHING, now=now, timezone=zone))
            for one in names
        ]
        create_declared(runtime, new, source="api")


def _fire(runtime: Runtime) -> None:
    while store_of(runtime).slots.tick(runtime.clock.now(), limit=BATCH, behind=False).fired:
        pass


def _work(runtime: Runtime) -> None:
    store = store_of(runtime)
    while claimed := store.slots.claim_jobs(runtime.clock.now(), node=NODE, limit=BATCH):
        ends = [JobEnd(one.job.job_id, one.job.fence, SUCCEEDED) for one in claimed]
        store.slots.settle(runtime.clock.now(), ends)


def _look(runtime: Runtime) -> None:
    for _ in range(IDLE):
        store_of(runtime).slots.tick(runtime.clock.now(), limit=BATCH, behind=False)
