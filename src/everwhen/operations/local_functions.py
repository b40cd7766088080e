"""Schedules whose function only one process has: they are invalid once that process is gone.

The target of such a schedule names the program and the process. The nodes of that process begin with both
(`node_name`), so its heartbeat tells whether it lives.
"""

from __future__ import annotations

import json

from everwhen.model.queries import ScheduleFilter
from everwhen.model.schedule import State
from everwhen.operations.schedules import get_schedule, invalidate_schedule
from everwhen.operations.system import is_alive
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

_PAGE = 500


def node_name(program: str, process: str) -> str:
    return f"{program}-{process}"


def invalidate_orphans(runtime: Runtime, program: str, own: str, reason: str) -> bool:
    """Invalidate the schedules of a program whose process is gone; return whether other processes still have some."""
    now = runtime.clock.now()
    alive = [node.node for node in store_of(runtime).upkeep.nodes() if is_alive(node, now)]
    has_others = False
    for state in _python_schedules(runtime):
        process = _process_of(runtime, state, program)
        if process is None or process == own:
            continue
        if any(node.startswith(f"{node_name(program, process)}-") for node in alive):
            has_others = True
        else:
            invalidate_schedule(runtime, state.schedule_id, reason)
    return has_others


def _python_schedules(runtime: Runtime) -> list[State]:
    found: list[State] = []
    while True:
        after = found[-1].schedule_id if found else None
        wanted = ScheduleFilter("active", target="python")
        page = store_of(runtime).catalogue.states(wanted, limit=_PAGE, after=after)
        found += page
        if len(page) < _PAGE:
            return found


def _process_of(runtime: Runtime, state: State, program: str) -> str | None:
    """Return the process that has the function of a schedule; None when others can run it, or it is another's."""
    spec = json.loads(get_schedule(runtime, state.schedule_id).definition.target.spec)
    process: str | None = spec.get("process")
    return process if spec.get("name") == program else None
