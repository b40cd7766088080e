"""The system is resumed while another node gives a schedule its next slot: no slot inside the span fires (X7, X8).

The switch did not see a schedule that a reload created inside the span and committed after its end: the first slot, in
the second of the creation, fired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import psycopg
import pytest

from everwhen.decide import status
from everwhen.operations.apply import apply
from everwhen.operations.schedules import revive_schedule
from tests.boundaries.flows import declarations
from tests.boundaries.tap import Boundary, installed, tapped
from tests.conformance.tenant import Tenant, at

Action = Callable[[Tenant], object]

_WAITING = """
SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"""
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def tap() -> Iterator[None]:
    with installed():
        yield


def reload(runtime: Tenant) -> None:
    apply(runtime.runtime, declarations(runtime, "two", [], kept={"every": "1h"}, a={"every": "3s"}))


def end(runtime: Tenant) -> object:
    return runtime.change("a", lambda s, now, shared: status.invalidate(s, now, shared, "it is gone"))


def restore(runtime: Tenant) -> None:
    runtime.change("a", status.restore)


def finish(runtime: Tenant) -> object:
    """Let the only run of `a` succeed, so that it is done."""
    runtime.edit("a", every="1m", total_repeats=1)
    runtime.wait_and_step("1m")
    return runtime.run()


NOTHING: Action = lambda runtime: None  # noqa: E731
CHANGES: dict[str, tuple[Action, Action]] = {
    "create": (NOTHING, lambda runtime: runtime.add("a", every="3s")),
    "create several": (NOTHING, lambda runtime: runtime.add_many(["b", "a"], every="3s")),
    "reload": (NOTHING, reload),
    "edit": (
        lambda runtime: runtime.add("a", every="1m", first_run="after_interval"),
        lambda runtime: runtime.edit("a", every="3s", first_run="after_interval"),
    ),
    "resume": (
        lambda runtime: (runtime.add("a", every="3s", first_run="after_interval"), runtime.pause("a")),
        lambda runtime: runtime.resume("a"),
    ),
    "restore": (
        lambda runtime: (runtime.add("a", every="3s", first_run="after_interval"), end(runtime)),
        restore,
    ),
    "revive": (
        lambda runtime: (runtime.add("a", every="1m", first_run="after_interval"), finish(runtime)),
        lambda runtime: revive_schedule(runtime.runtime, "a"),
    ),
}


class Halted:
    """A change on a thread of its own, which stops before its COMMIT."""

    def __init__(self, threads: ThreadPoolExecutor, change: Action, runtime: Tenant) -> None:
        self._reached, self._go = Event(), Event()
        self.future = threads.submit(self._run, change, runtime)
        assert self._reached.wait(PATIENCE)

    def finish(self) -> None:
        self._go.set()
        self.future.result(PATIENCE)

    def _run(self, change: Action, runtime: Tenant) -> None:
        with tapped(self._meet):
            change(runtime)

    def _meet(self, boundary: Boundary) -> None:
        if boundary.is_commit and boundary.side == "before":
            self._reached.set()
            assert self._go.wait(PATIENCE)


def until_waiting_or_done(runtime: Tenant, action: Future[Any]) -> None:
    with psycopg.connect(runtime.site.url, autocommit=True) as connection:
        while not connection.execute(_WAITING).fetchall() and not action.done():
            pass


@pytest.mark.parametrize("name", CHANGES)
def test_a_schedule_that_gets_its_slot_inside_the_span_and_is_committed_at_its_end_does_not_fire_it(
    runtime: Tenant, other: Tenant, name: str
) -> None:
    prepare, change = CHANGES[name]
    apply(runtime.runtime, declarations(runtime, "one", [], kept={"every": "1h"}))
    prepare(runtime)
    runtime.wait("1s")
    runtime.step()
    runtime.wait("1s")
    runtime.pause_system()
    paused_at = runtime.now
    runtime.wait("5s")
    with ThreadPoolExecutor() as threads:
        changing = Halted(threads, change, runtime)
        runtime.wait("2m")
        resuming = threads.submit(other.resume_system)
        until_waiting_or_done(runtime, resuming)
        changing.finish()
        resuming.result(PATIENCE)
    resumed_at = runtime.now
    runtime.step()
    assert [job.slot_at for job in runtime.jobs("a") if paused_at < job.slot_at <= resumed_at] == []
    assert runtime.check().faults == ()
    runtime.wait_and_step("2m")
    assert any(job.slot_at > resumed_at for job in runtime.jobs("a"))


def test_a_system_pause_does_not_wait_for_a_change_under_way(runtime: Tenant, other: Tenant) -> None:
    with ThreadPoolExecutor() as threads:
        changing = Halted(threads, lambda node: node.add("a", every="3s"), runtime)
        other.pause_system()
        changing.finish()
    assert runtime.step() == 0
    runtime.wait("2s")
    runtime.resume_system()
    assert runtime.reasons("a") == ["paused"]
    assert runtime.wait_and_step("1s") == 1
    assert runtime.slots("a") == ["08:00:03"] and runtime.now == at("08:00:03")
