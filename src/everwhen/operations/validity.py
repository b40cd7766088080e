"""Repeated checks of invalid schedules: one that is found valid becomes active by itself (R7)."""

from __future__ import annotations

from collections.abc import Callable

from everwhen.model.group import Groups
from everwhen.model.schedule import Definition
from everwhen.operations.groups import stays_unusable
from everwhen.operations.schedules import get_schedule, list_schedules, restore_schedule
from everwhen.runtime import Runtime

FaultOf = Callable[[str, Definition], str | None]
"""Returns why a schedule with this id and definition cannot run now; None when it can."""

_PAGE = 500


def restore_valid_schedules(
    runtime: Runtime, fault_of: FaultOf, groups: Callable[[], Groups] = dict
) -> list[str]:
    """Restore every invalid schedule that has no fault any more and whose owner may use its group; return their ids."""
    restored: list[str] = []
    after: str | None = None
    while page := list_schedules(runtime, status="invalid", limit=_PAGE, after=after):
        for state in page:
            schedule = get_schedule(runtime, state.schedule_id)
            if stays_unusable(runtime, groups(), schedule):
                continue
            if schedule.plan.fault is None and fault_of(state.schedule_id, schedule.definition) is None:
                restore_schedule(runtime, state.schedule_id)
                restored.append(state.schedule_id)
        after = page[-1].schedule_id
    return restored
