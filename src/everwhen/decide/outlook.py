"""The prediction for future slots, as far as it is known now: the rules of `decide.tick.judge` in advance.

Overlap, guard and capacity are left out: the jobs that run now do not predict those that will run then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, NamedTuple

from everwhen.decide import breaker as breakers
from everwhen.decide import budgets
from everwhen.decide.slots import NextSlot, interval_of, slot_after_span
from everwhen.model.calendar import Calendar
from everwhen.model.cost import Cost
from everwhen.model.events import Event
from everwhen.model.instants import MINUTE, format_instant, to_datetime
from everwhen.model.limits import FOR_EVER, Shared
from everwhen.model.one_line import one_line
from everwhen.model.pause import Pause, pause_of
from everwhen.model.reasons import AHEAD, PRESENT, ScheduleCheckResult, ScheduleSkipReason
from everwhen.model.schedule import Plan, QuietHoursPolicy, Schedule, State
from everwhen.timetable.civil_time import Zone
from everwhen.timetable.trigger import OnRequest
from everwhen.timetable.windows import EVERY_WEEKDAY, QuietWindow

SYSTEM = "system"
APPROVAL = "approval"


@dataclass(frozen=True, slots=True)
class Conditions:
    """The present conditions outside the schedule: limits and breakers, and since when the system is paused.

    `source`: where the schedule in question is declared, if it is over and the answer says how to use it again.
    `pause`, `system_pause`: that of the schedule and that of the system, as far as an answer describes them.
    """

    now: int = 0
    shared: Shared = field(default_factory=Shared)
    system_paused_at: int | None = None
    source: str | None = None
    pause: Pause | None = None
    system_pause: Pause | None = None


class Outlook(NamedTuple):
    """The prediction for one slot. `until`: when the reason ends, if that is known; a held slot fires then.

    `clause`: what prevents the slot, where that is more than the words of the reason.
    """

    fate: Literal["fires", "skipped", "held"] = "fires"
    reason: str | None = None
    until: int | None = None
    clause: str | None = None


class ComingSlot(NamedTuple):
    """A future slot. `is_estimate`: it depends on when an earlier run or a pause ends."""

    slot_at: int
    due_at: int
    outlook: Outlook
    is_estimate: bool = False


_FIRES = Outlook()


def foresee(
    plan: Plan, calendar: Calendar, slot_at: int, due_at: int, conditions: Conditions, uid: str = ""
) -> Outlook:
    """Predict what happens to a slot if only the time changes: the first rule of `judge` that certainly applies."""
    if conditions.system_paused_at is not None:
        return Outlook("skipped", SYSTEM)
    return (
        _closed(plan, calendar, slot_at, due_at)
        or _broken(plan, due_at, conditions.shared)
        or _spent(plan, uid, due_at, conditions.shared)
        or _FIRES
    )


def coming_slots(
    schedule: Schedule, conditions: Conditions, start: int = 0, until: int = FOR_EVER
) -> Iterator[ComingSlot]:
    """Yield the slots of one schedule that are due in [start, until), each with its prediction; first a held one."""
    held = _held(schedule, conditions)
    if held is not None and start <= held.due_at < until:
        yield held
    begins = next_to_come(schedule)
    if begins is None:
        return
    calendar, uid = schedule.plan.calendar(begins.anchor_at), schedule.state.uid
    # A new anchor is counted from the end of a pause, which is still to come.
    is_moved = begins.anchor_at != schedule.state.anchor_at
    for slot_at, due_at, is_estimate in _slots(schedule, calendar, begins, start):
        if due_at >= until:
            return
        if due_at >= start:
            outlook = foresee(schedule.plan, calendar, slot_at, due_at, conditions, uid=uid)
            yield ComingSlot(slot_at, due_at, outlook, is_estimate or is_moved)


def explain_status(schedule: Schedule, conditions: Conditions) -> str | None:
    """Say why a schedule that is not active fires nothing, and how to continue; None when it is active."""
    state = schedule.state
    match state.status:
        case "active":
            return None
        case "paused":
            text = _paused_sentence(schedule, conditions.pause or pause_of(state, None))
        case "invalid":
            healing = "It goes on by itself when a reload, an edit or a restart finds it valid"
            text = f"invalid: {state.status_reason or 'no reason is on record'}. {healing}"
        case "done" | "dead":  # pragma: no branch
            text = f"{state.status}{_end_sentence(state)}. {_revive_hint(schedule, conditions)}"
    return f"The schedule is {text}."


def explain_system(conditions: Conditions, zone: Zone) -> str | None:
    """Say since when the system is paused, and how to continue; None when it is not."""
    if conditions.system_paused_at is None:
        return None
    pause = conditions.system_pause or Pause(None, at=conditions.system_paused_at)
    return f"The system has been paused {pause.text(zone)}: nothing fires. To go on: everwhen system resume."


def because(plan: Plan, outlook: Outlook, due_at: int) -> str:
    """Return the clause that says what prevents a future slot."""
    assert outlook.reason is not None
    if outlook.clause is not None:
        return outlook.clause
    text = cause(AHEAD, outlook.reason, plan, due_at, were="will be")
    if outlook.reason not in PRESENT or outlook.until is None:
        return text
    return f"{text} until {format_instant(outlook.until, plan.definition.zone)}"


# -- the rules of `judge`, in its order --


def _closed(plan: Plan, calendar: Calendar, slot_at: int, due_at: int) -> Outlook | None:
    reason = calendar.closed_reason(due_at)
    if reason is None:
        return None
    opening = calendar.opening_from(due_at)
    if reason not in plan.defers or opening is None:
        return Outlook("skipped", reason, opening)
    following = None if plan.definition.is_chain else calendar.next_after(slot_at)
    if following is not None and calendar.due_at(following) <= opening:
        return Outlook("skipped", "superseded")
    return Outlook("held", reason, opening)


def _broken(plan: Plan, due_at: int, shared: Shared) -> Outlook | None:
    rule = plan.definition.breaker
    if rule is None:
        return None
    breaker = shared.breaker(rule.key)
    if breaker.state != "open" or breaker.opened_at is None:
        return None  # closed, or the outcome of its probe decides
    probes_at = breaker.opened_at + rule.reset_after
    return Outlook("skipped", "circuit_open", probes_at) if due_at < probes_at else None


def _spent(plan: Plan, uid: str, due_at: int, shared: Shared) -> Outlook | None:
    refused = budgets.refusal(shared, uid, plan.definition.budgets, due_at)
    if refused is None or not refused.is_lasting:
        return None if refused is None else Outlook("skipped", "budget", refused.refill_at)
    return Outlook("skipped", "budget", clause=_beyond(refused))


def _beyond(refused: budgets.Refusal) -> str:
    """Say that a run is expected to cost more than an empty window has, and what helps."""
    budget, usage, needs = refused
    assert budget.unit is not None
    return (
        f"a run is expected to cost {Cost(needs, budget.unit)}, and {usage.limit} of {budget.key} is "
        f"{Cost(usage.most, budget.unit)}: set cost_per_run, or raise the limit"
    )


# -- which slots --


def _held(schedule: Schedule, conditions: Conditions) -> ComingSlot | None:
    """Return the slot that the schedule holds: until its opening, or until its key has a place, which nobody knows."""
    state = schedule.state
    if state.held_slot_at is None or state.held_due_at is None:
        return None
    opening = state.release_at if state.held_key is None else None
    outlook = Outlook("held", state.held_reason, opening)
    if conditions.system_paused_at is not None:
        outlook = Outlook("skipped", SYSTEM)
    elif opening is not None and (state.next_run_at or FOR_EVER) <= opening:
        outlook = Outlook("skipped", "superseded")
    return ComingSlot(state.held_slot_at, state.held_due_at, outlook)


def next_to_come(schedule: Schedule) -> NextSlot | None:
    """Return the next slot of the row, or the first slot after a pause that has an end."""
    state = schedule.state
    if state.next_slot_at is not None and state.next_run_at is not None:
        return NextSlot(state.anchor_at, state.next_slot_at, state.next_run_at)
    ends_by_itself = state.status == "paused" and state.resume_at is not None
    if not ends_by_itself or isinstance(schedule.definition.trigger, OnRequest):
        return None
    assert state.resume_at is not None
    return slot_after_span(schedule.plan, state.anchor_at, state.resume_at, state.last_slot_at)


def _slots(
    schedule: Schedule, calendar: Calendar, begins: NextSlot, start: int
) -> Iterator[tuple[int, int, bool]]:
    if begins.slot_at is None or begins.due_at is None:
        return
    if schedule.definition.is_chain:  # one exact slot; the rest as if every run took no time
        interval = interval_of(schedule.plan)
        for number in count(max(-(-(start - begins.due_at) // interval), 0)):  # pragma: no branch
            further = number * interval
            yield begins.slot_at + further, begins.due_at + further, number > 0
    slot_at: int | None = begins.slot_at
    if start - calendar.jitter > begins.slot_at:
        slot_at = calendar.first_from(start - calendar.jitter)
    while slot_at is not None:
        yield slot_at, calendar.due_at(slot_at), False
        slot_at = calendar.next_after(slot_at)


def _paused_sentence(schedule: Schedule, pause: Pause) -> str:
    state, zone = schedule.state, schedule.definition.zone
    if pause.by == APPROVAL:
        approve = f"everwhen schedules approve {state.schedule_id} --revision {state.revision}"
        since = "" if pause.at is None else f" since {format_instant(pause.at, zone)}"
        asked = f", asked for by {one_line(pause.name, 100)}" if pause.name else ""
        return f"waiting for the approval of an operator{since}{asked}. To approve it: {approve}"
    resume = f"everwhen schedules resume {state.schedule_id}"
    if pause.by == "config":
        resume = "remove it, then everwhen config reload"
    now = " now" if pause.until is not None else ""
    return f"{f'paused {pause.text(zone)}'.rstrip()}. To go on{now}: {resume}"


def _end_sentence(state: State) -> str:
    if state.status == "dead":
        return f" after {state.current_retry:,} failures in a row" if state.current_retry else ""
    return ": its time had passed already" if state.status_reason == "in_the_past" else ""


def _revive_hint(schedule: Schedule, conditions: Conditions) -> str:
    from everwhen.decide.status import can_revive  # commands that only read import this module

    schedule_id, source = schedule.state.schedule_id, conditions.source or ""
    if can_revive(schedule, conditions.now):
        return f"To start it anew: everwhen schedules revive {schedule_id}"
    where = f": everwhen schedules update {schedule_id}"
    if source == "config" or source.startswith("python:"):  # an update is refused
        where = " in the configuration file" if source == "config" else " in the program that declares it"
    return f"It has no slot to come; to use it again, give it a new time{where}"


def check_schedule(schedule: Schedule, now: int, shared: Shared) -> ScheduleCheckResult:
    """Check status, overlap, capacity and due time, then closed times, breaker, budget and guard; report the first."""
    reason = _first_reason(schedule, now, shared)
    return ScheduleCheckResult(reason is None, reason)


def _first_reason(schedule: Schedule, now: int, shared: Shared) -> ScheduleSkipReason | None:
    state, definition = schedule.state, schedule.definition
    capacity, guard = definition.capacity, definition.guard
    if isinstance(definition.trigger, OnRequest):
        return "unsupported_type"
    if state.status != "active":
        return "disabled"
    if state.outstanding and definition.if_running == "skip":
        return "already_running"
    is_limited = definition.if_running in ("skip", "allow")  # the other values enqueue the job, which waits
    if is_limited and capacity is not None and shared.limit(capacity.key).outstanding >= capacity.limit:
        return "at_capacity"
    if state.next_run_at is None or state.next_run_at > now:
        return "not_due"
    closed = schedule.plan.calendar(state.anchor_at).closed_reason(now)
    if closed is not None:
        return closed
    if breakers.gate(shared, definition.breaker, now) == "shut":
        return "circuit_open"
    if budgets.refusal(shared, state.uid, definition.budgets, now) is not None:
        return "budget"
    if is_limited and guard is not None and shared.limit(guard.key).outstanding >= guard.limit:
        return "outstanding_limit"
    return None


_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


def cause(
    text: Mapping[str, str], reason: str, plan: Plan, at: int, *, were: str = "were", are: str = "are"
) -> str:
    """Return the clause for a reason, with the schedule's own figures."""
    return text[reason].format_map(_figures(plan, at) | {"were": were, "are": are})


def _time(zone: Zone, instant: int) -> str:
    return f"{zone.localized(to_datetime(instant)):%H:%M:%S}".removesuffix(":00")


def _figures(plan: Plan, at: int) -> dict[str, object]:
    definition = plan.definition
    zone = definition.zone
    return {
        "time": _time(zone, at),
        "weekday": f"{zone.localized(to_datetime(at)):%A}",
        "window": f"{definition.only_between} {zone.name}" if definition.only_between else "of then",
        "quiet": "of then" if plan.quiet is None else _quiet(plan.quiet, at),
        "breaker": definition.breaker.key if definition.breaker else "of then",
        "guard": "no more" if definition.guard is None else _jobs(definition.guard.limit),
        "capacity": "no more" if definition.capacity is None else _jobs(definition.capacity.limit),
        "group": definition.group or "its group",
        "budgets": ", ".join(budget.key for budget in definition.budgets) or "of then",
        "queue_limit": definition.queue_limit,
        "catch_up_limit": definition.catch_up_limit,
    }


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _quiet(policy: QuietHoursPolicy, at: int) -> str:
    """Return `nights (Mon Tue Wed Thu Fri 22:00-07:00 Europe/Paris)`, for example, with all windows."""
    spans = [_quiet_window(window) for window in policy.hours.windows]
    if policy.hours.dates:
        spans.append("its dates")
    return f"{policy.name or policy.policy_id} ({', '.join(spans)} {policy.hours.zone.name})"


def _quiet_window(quiet: QuietWindow) -> str:
    if quiet.weekdays == EVERY_WEEKDAY:
        return str(quiet.window)
    days = " ".join(name for number, name in enumerate(_DAYS) if quiet.weekdays >> number & 1)
    return f"{days} {quiet.window}"


def overdue_since(schedule: Schedule) -> int | None:
    """Return when the next slot is overdue: its due_at plus the gap to the following slot, at least 1m."""
    state = schedule.state
    if state.next_slot_at is None or state.next_run_at is None:
        return None
    return state.next_run_at + _patience(schedule, state.next_slot_at)


def held_too_long_since(schedule: Schedule) -> int | None:
    """Return the same for the held slot; one that waits for an opening is never overdue."""
    state = schedule.state
    if state.held_slot_at is None or state.held_since is None or state.held_key is None:
        return None
    return state.held_since + _patience(schedule, state.held_slot_at)


def overdue_event(schedule: Schedule, slot_at: int, since: int, now: int) -> Event:
    state = schedule.state
    is_held = slot_at == state.held_slot_at
    detail = {"due_at": state.held_due_at if is_held else state.next_run_at, "overdue_at": since}
    reason, about = state.held_reason if is_held else None, (state.schedule_id, state.uid, state.owner)
    return Event("schedule.overdue", now, *about, slot_at=slot_at, reason=reason, detail=detail)


def _patience(schedule: Schedule, slot_at: int) -> int:
    if schedule.definition.is_chain:
        return MINUTE
    following = schedule.plan.calendar(schedule.state.anchor_at).next_after(slot_at)
    return MINUTE if following is None else max(following - slot_at, MINUTE)
