"""Schedules whose function only one process has: they are invalid once that process is gone.

Jobs that it left, and those that somebody triggers afterwards, stand in a queue that only it served. They would stay
there for ever, and keep the schedule from running when its id is added again. So other processes of the program serve
that queue from then on: such a job fails, or runs the function that was added meanwhile.

The target of such a schedule names the program and the process. The nodes of that process begin with both
(`node_name`), so its heartbeat shows whether it runs.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from everwhen.model.queries import ScheduleFilter
from everwhen.model.schedule import Definition, State, Status
from everwhen.operations.schedules import get_schedule, invalidate_schedule
from everwhen.operations.system import is_alive
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

_PAGE = 500


def node_name(program: str, process: str) -> str:
    return f"{program}-{process}"


class Orphans(NamedTuple):
    """The queues that nobody serves any more, and whether other processes that live have schedules of their own."""

    queues: frozenset[str]
    has_others: bool


def invalidate_orphans(runtime: Runtime, program: str, own: str, reason: str) -> Orphans:
    """Invalidate the schedules of a program whose process is gone."""
    now = runtime.clock.now()
    alive = [node.node for node in store_of(runtime).upkeep.nodes() if is_alive(node, now)]
    has_others, queues = False, set()
    for state in (*_python_schedules(runtime, "active"), *_python_schedules(runtime, "invalid")):
        definition = get_schedule(runtime, state.schedule_id).definition
        process = _process_of(definition, program)
        if process is None or process == own:
            continue
        if any(node.startswith(f"{node_name(program, process)}-") for node in alive):
            has_others = True
            continue
        queues.add(definition.queue)
        if state.status == "active":
            invalidate_schedule(runtime, state.schedule_id, reason)
    return Orphans(frozenset(queues), has_others)


def _python_schedules(runtime: Runtime, status: Status) -> list[State]:
    found: list[State] = []
    while True:
        after = found[-1].schedule_id if found else None
        wanted = ScheduleFilter(status, target="python")
        page = store_of(runtime).catalogue.states(wanted, limit=_PAGE, after=after)
        found += page
        if len(page) < _PAGE:
            return found


def _process_of(definition: Definition, program: str) -> str | None:
    """Return the process that has the function of a schedule; None when others can run it, or it is another's."""
    spec = json.loads(definition.target.spec)
    process: str | None = spec.get("process")
    return process if spec.get("name") == program else None
