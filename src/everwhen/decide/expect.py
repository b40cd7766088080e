"""`expect`: until when a schedule has to succeed, before an alert reports that it is silent.

`each: slot`: after the due time of every slot that should fire there is an own success within the grace. The slots come
from the calendar, so zones, clock changes and closed times make no false alarm. `within`: a success in every such span
of open time. The deadline of the first success that is missing stands on the row (`expect_at`); it moves with an own
success, and with what starts or stops the clock. It is empty while the schedule is silent: one event per silence.
"""

from __future__ import annotations

from everwhen.decide.draft import Draft
from everwhen.model.calendar import Calendar
from everwhen.model.changes import Decision
from everwhen.model.instants import SECOND, duration_text, format_instant
from everwhen.model.limits import Shared
from everwhen.model.schedule import Plan, Schedule, State

_MOST_STEPS = 10_000  # closed times in a row
_START = 30 * SECOND  # what a scheduler may take from its start to its first decision


def expected_by(plan: Plan, anchor_at: int | None, after: int) -> int | None:
    """Return the deadline of the first success that is expected after an instant; None when there is none."""
    definition = plan.definition
    calendar, grace = plan.calendar(anchor_at), definition.expect_grace or 0
    found: int | None = None
    if definition.expect_each:
        found = _next_expected(plan, calendar, after)
    elif definition.expect_within is not None:
        found = _after_open_time(calendar, after, definition.expect_within)
    return None if found is None else found + grace


def with_expectation(state: State, plan: Plan, now: int) -> State:
    """Return the row with its clock started now, if it is active and something is expected of it."""
    if not plan.definition.is_expected:
        return state if state.expect_at is None else state._replace(expect_at=None)
    is_active = state.status == "active"
    return state._replace(expect_at=expected_by(plan, state.anchor_at, now) if is_active else None)


def note_silence(schedule: Schedule, now: int, shared: Shared) -> Decision:
    """Record that a deadline has passed, once; or move it, if a success is on record or the calendar has changed."""
    state, plan = schedule.state, schedule.plan
    draft = Draft(schedule, now, shared)
    if state.expect_at is None or state.expect_at > now:
        return draft.decision()
    if state.status != "active" or not plan.definition.is_expected:
        draft.state = state._replace(expect_at=None)
        return draft.decision()
    if state.last_success_at is not None:
        # A process of the previous release counts successes and moves no deadline; quiet hours may have been edited.
        anew = expected_by(plan, state.anchor_at, state.last_success_at)
        if anew is None or anew > now:
            draft.state = state._replace(expect_at=anew)
            return draft.decision()
    detail: dict[str, object] = {
        "text": _sentence(schedule),
        "expected_by": state.expect_at,
        "last_success_at": state.last_success_at,
        "running": state.running_jobs,
    }
    draft.state = state._replace(expect_at=None)
    draft.record("schedule.silent", detail={key: value for key, value in detail.items() if value is not None})
    return draft.decision()


def leave_downtime(schedule: Schedule, since: int, until: int, shared: Shared) -> Decision:
    """Move a deadline after a time without a scheduler: it does not count, `schedule.missed` reports it.

    A slot that was due before the downtime keeps what was left of its grace. One that was due in it is expected if it
    is still on time. A clock that has started after the downtime goes on as it is.
    """
    state = schedule.state
    draft = Draft(schedule, until, shared)
    if state.expect_at is not None:  # one that passed before the downtime stays passed
        draft.state = state._replace(expect_at=_moved(state, schedule.plan, state.expect_at, since, until))
    return draft.decision()


def _moved(state: State, plan: Plan, expect_at: int, since: int, until: int) -> int | None:
    """Return a deadline without the time between."""
    if not plan.definition.expect_each:
        has_begun_since = state.last_success_at is not None and state.last_success_at >= until
        return expect_at if has_begun_since else expect_at + until - since
    grace = plan.definition.expect_grace or 0
    due_at = expect_at - grace
    if due_at > until:
        return expect_at
    if due_at <= since:
        return expect_at + until - since
    return (
        until + grace if _fires_late(state, plan, since, until) else expected_by(plan, state.anchor_at, until)
    )


def _fires_late(state: State, plan: Plan, since: int, until: int) -> bool:
    """Check whether the newest slot of a downtime is still on time after it, by its `misfire_grace`."""
    calendar = plan.calendar(state.anchor_at)
    slot_at = calendar.last_until(until)
    if slot_at is None or calendar.closed_reason(until) is not None:
        return False
    due_at = calendar.due_at(slot_at)
    is_open = since < due_at <= until and calendar.closed_reason(due_at) is None
    return is_open and until - due_at + _START <= plan.grace_of(slot_at, calendar.next_after(slot_at))


def _next_expected(plan: Plan, calendar: Calendar, after: int) -> int | None:
    """Return when the first slot after an instant is due; a deferred one at the opening, a skipped one never."""
    slot_at = calendar.next_after(after - calendar.jitter)
    for _ in range(_MOST_STEPS):
        if slot_at is None:
            return None
        due_at, following = calendar.due_at(slot_at), calendar.next_after(slot_at)
        reason = calendar.closed_reason(due_at)
        if reason is None:
            if due_at > after:
                return due_at
            slot_at = following
            continue
        opening = calendar.opening_from(due_at)
        if opening is None:
            return None
        is_replaced = following is not None and calendar.due_at(following) <= opening
        if reason in plan.defers and not is_replaced and opening > after:
            return opening
        # On to the last slot that may be due at the opening, past all others that are closed.
        slot_at = calendar.next_after(max(slot_at, opening - calendar.jitter - SECOND))
        if reason in plan.defers and following is not None:
            held = calendar.last_until(opening - 1)
            slot_at = max(following, min(held or following, slot_at or following))
    return None


def _after_open_time(calendar: Calendar, after: int, length: int) -> int | None:
    """Return the instant by which so much open time has passed."""
    at, left = after, length
    for _ in range(_MOST_STEPS):
        opening = calendar.opening_from(at)
        if opening is None:
            return None
        at = opening
        edge = calendar.closed_times.steady_until(at // SECOND) * SECOND
        if at + left <= edge:
            return at + left
        left -= max(edge - at, 0)
        at = max(edge, at + SECOND)
    return None


def _sentence(schedule: Schedule) -> str:
    state, definition = schedule.state, schedule.definition
    assert state.expect_at is not None
    by = format_instant(state.expect_at, definition.zone)
    if definition.expect_each:
        said = f"no success by {by}, after a slot that should have had one"
    else:
        said = f"no success within {duration_text(definition.expect_within)}, until {by}"
    return f"{said}; a job is still running" if state.running_jobs else said
