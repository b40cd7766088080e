"""Schedules whose function only one process has: they are invalid once that process is gone.

Jobs that it left, and those that somebody triggers afterwards, stand in a queue that only it served. They would stay
there for ever, and keep the schedule from running when its id is added again. So other processes of the program serve
that queue from then on: such a job fails, or runs the function that was added meanwhile.

The queue of such a schedule names the program and the process. The nodes of that process begin with both
(`node_name`), so its heartbeat shows whether it runs.

This is asked before the first firing, and at heartbeats while other processes have such schedules. So it takes one
statement however many schedules there are, and writes only those whose process is gone, a bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from everwhen.decide import status
from everwhen.decide.draft import Draft
from everwhen.model.changes import Decision
from everwhen.model.limits import Shared
from everwhen.model.schedule import Schedule
from everwhen.model.values import program_of
from everwhen.operations.system import is_alive
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

AT_ONCE = 100  # schedules in one transaction
MOST = 1_000  # schedules at one heartbeat: it must not be late for them


def node_name(program: str, process: str) -> str:
    return f"{program}-{process}"


class Orphans(NamedTuple):
    """The queues that nobody serves any more, and whether there may be more orphans at the next heartbeat."""

    queues: frozenset[str]
    may_have_more: bool


def invalidate_orphans(runtime: Runtime, program: str, own: str, reason: str) -> Orphans:
    """Invalidate the schedules of a program whose process is gone."""
    catalogue, now = store_of(runtime).catalogue, runtime.clock.now()
    is_active = catalogue.local_queues()
    processes = {queue: _process_of(queue, program) for queue in is_active}
    others = {queue: process for queue, process in processes.items() if process not in (None, own)}
    if not others:
        return Orphans(frozenset(), may_have_more=False)
    alive = [node.node for node in store_of(runtime).upkeep.nodes() if is_alive(node, now)]
    served = {
        queue
        for queue, process in others.items()
        if any(node.startswith(f"{node_name(program, str(process))}-") for node in alive)
    }
    orphaned = frozenset(others.keys() - served)
    has_more = any(is_active[queue] for queue in orphaned) and _invalidate_some(runtime, orphaned, reason)
    return Orphans(orphaned, may_have_more=bool(served) or has_more)


def _invalidate_some(runtime: Runtime, queues: Collection[str], reason: str) -> bool:
    """Invalidate the active schedules of these queues, at most `MOST`; return whether there may be more."""
    decide = partial(_invalidate, queues=queues, reason=reason)
    for _ in range(MOST // AT_ONCE):
        changed = store_of(runtime).catalogue.change_local(runtime.clock.now(), queues, decide, limit=AT_ONCE)
        if changed < AT_ONCE:
            return False
    return True


def _invalidate(
    schedule: Schedule, now: int, shared: Shared, *, queues: Collection[str], reason: str
) -> Decision:
    if schedule.definition.queue not in queues:  # added again, a moment ago
        return Draft(schedule, now, shared).decision()
    return status.invalidate(schedule, now, shared, reason)


def _process_of(queue: str, program: str) -> str | None:
    """Return the process that a queue names; None when the queue belongs to another program.

    >>> _process_of("default@shop/3f2a91bc", "shop"), _process_of("default@shop/3f2a91bc", "bank")
    ('3f2a91bc', None)
    """
    name, _, process = (program_of(queue) or "").rpartition("/")
    return process if name == program else None
