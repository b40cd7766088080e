"""Approving and declining schedules that wait for approval, and resuming, which may approve as well (AP2)."""

from __future__ import annotations

from everwhen.decide import approval
from everwhen.errors import AccessError, PreconditionError, UnseenRevisionError
from everwhen.model.changes import Change, Decision
from everwhen.model.limits import Shared
from everwhen.model.schedule import Schedule
from everwhen.operations.access import Caller
from everwhen.operations.schedules import Permit
from everwhen.operations.submissions import resumed
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of


def approve_schedule(runtime: Runtime, schedule_id: str, caller: Caller, *, revision: int) -> None:
    """Approve a schedule at the revision that was reviewed; it fires from then on."""

    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        _refuse_to_answer(schedule, caller)
        caller.refuse_unusable(schedule)
        return approval.approve(schedule, now, shared, revision=revision, by=caller.actor)

    _change(runtime, schedule_id, change)


def decline_schedule(runtime: Runtime, schedule_id: str, caller: Caller, *, note: str | None) -> None:
    """Delete a schedule that waits for approval, and record who declined it."""

    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        _refuse_to_answer(schedule, caller)
        return approval.decline(schedule, now, shared, note=note, by=caller.actor)

    store_of(runtime).catalogue.delete(runtime.clock.now(), schedule_id, change)
    runtime.wake_workers()


def resume_schedule(
    runtime: Runtime, schedule_id: str, caller: Caller, *, expected: int | None = None
) -> None:
    """End a pause; `expected` is the revision that was read, without which nothing is approved."""

    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        caller.refuse_unapproved(schedule)
        if expected is not None and schedule.state.revision != expected:
            raise PreconditionError(expected, schedule.state.revision)
        return resumed(schedule, now, shared, caller, expected)

    _change(runtime, schedule_id, change)


def permit_revival(caller: Caller) -> Permit:
    """Refuse to revive a schedule that waits for approval: it has to be reviewed first."""

    def permit(schedule: Schedule) -> None:
        caller.refuse_unapproved(schedule)
        if approval.is_waiting(schedule.state):
            raise UnseenRevisionError(schedule.state.revision)

    return permit


def _refuse_to_answer(schedule: Schedule, caller: Caller) -> None:
    caller.refuse_stranger(schedule)
    if caller.token.limits.needs_approval:
        raise AccessError(
            "a token whose own schedules need approval can neither approve nor decline schedules"
        )


def _change(runtime: Runtime, schedule_id: str, change: Change) -> None:
    store_of(runtime).catalogue.change(runtime.clock.now(), schedule_id, change)
    runtime.wake_scheduler()
    runtime.wake_workers()
