"""Why: what became of a slot, in a sentence, from the record (L3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from everwhen.model.history import Recorded
from everwhen.model.instants import moment_of
from everwhen.model.job import Job
from everwhen.model.schedule import Plan, State
from everwhen.timetable.civil_time import Zone

Fate = Literal["fired", "skipped", "missed", "caught_up", "held", "pending", "span", "no_slot", "unknown"]

SKIPPED: Mapping[str, str] = {
    "excluded_day": "was skipped: the schedule does not run on that day (not_on)",
    "outside_window": "was skipped: it lay outside the window only_between",
    "quiet_hours": "was skipped: quiet hours were in force",
    "circuit_open": "was skipped: the circuit breaker was open",
    "already_running": "was skipped: an earlier run was still going (if_running: skip)",
    "retrying": "was skipped: an earlier slot was still waiting for its turn or its retry (if_running: skip)",
    "queue_full": "was skipped: the queue of waiting jobs was full (queue_limit)",
    "budget": "was skipped: the budget of firings was spent",
    "superseded": "was skipped: it was held, and the next slot came first",
    "edited": "was skipped: the schedule's times were edited before it was decided",
    "paused": "was skipped: the schedule was stopped before it was decided",
}
MISSED: Mapping[str, str] = {
    "down": "was missed: no scheduler was running then",
    "late": "was missed: the scheduler was running but came too late for it",
    "catch_up_limit": "was missed: more slots had been missed than catch_up_limit allows to run",
    "circuit_open": "was missed: the circuit breaker was open when it could have been caught up",
    "budget": "was missed: the budget of firings was spent when it could have been caught up",
}
HELD: Mapping[str, str] = {
    "outstanding_limit": "is held: as many jobs of its kind as max_outstanding allows are outstanding",
    "at_capacity": "is held: its group runs as many jobs as max_concurrent allows",
    "excluded_day": "is held until the schedule opens: it does not run on that day",
    "outside_window": "is held until the schedule opens: it lies outside the window",
    "quiet_hours": "is held until the schedule opens: quiet hours are in force",
}
SPANS: Mapping[str, str] = {
    "paused": "lies in a span in which the schedule was paused",
    "invalid": "lies in a span in which the schedule could not run as configured",
    "done": "lies after the schedule was done",
    "dead": "lies after the schedule died of too many failures",
    "in_the_past": "was already past when the schedule was declared",
    "system": "lies in a span in which the whole system was paused",
}
CHECKS: Mapping[str, str] = {
    "unsupported_type": "is fired by a request, never by the clock",
    "disabled": "does not fire: the schedule is not active",
    "not_due": "is not due yet",
}
CANCELLED: Mapping[str, str] = {
    "pause": "its job was cancelled because the schedule was paused",
    "done": "its job was cancelled because the schedule was done",
    "dead": "its job was cancelled because the schedule died",
    "deleted": "its job was cancelled because the schedule was deleted",
    "overlap": "its job was cancelled by the next slot (if_running: cancel)",
    "circuit_open": "its job was cancelled because the circuit breaker opened",
    "person": "its job was cancelled by a person",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """One sentence first, then the evidence under it."""

    sentence: str
    fate: Fate
    slot_at: int | None
    reason: str | None = None
    job: Job | None = None
    events: Sequence[Recorded] = ()
    next_run_at: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the record holds about one slot of one schedule."""

    slot_at: int
    zone: Zone
    state: State | None
    jobs: Sequence[Job] = ()
    events: Sequence[Recorded] = ()
    stopped_by: str | None = None


def explain_slot(evidence: Evidence, now: int) -> Explanation:
    """What became of a slot, or will."""
    state, slot_at = evidence.state, evidence.slot_at
    when = spoken(evidence.zone, slot_at)
    next_run_at = state.next_run_at if state is not None else None
    fate, reason, words = _fate(evidence, now)
    sentence = f"{when} {words}."
    if next_run_at is not None and next_run_at > now and fate != "pending":
        sentence += f" Next: {spoken(evidence.zone, next_run_at)}."
    job = evidence.jobs[-1] if evidence.jobs else None
    return Explanation(sentence, fate, slot_at, reason, job, evidence.events, next_run_at)


def _fate(evidence: Evidence, now: int) -> tuple[Fate, str | None, str]:
    if evidence.jobs:
        return "fired", None, _fired(evidence.jobs)
    for recorded in reversed(evidence.events):
        event = recorded.event
        if event.type == "schedule.skipped" and event.reason is not None:
            return "skipped", event.reason, SKIPPED[event.reason] + _rest(event.slot_count)
        if event.type == "schedule.missed" and event.reason is not None:
            return "missed", event.reason, MISSED[event.reason] + _rest(event.slot_count)
        if event.type == "schedule.caught_up":
            return (
                "caught_up",
                None,
                f"was missed; job {event.job_id} stood for it and {event.slot_count - 1} others",
            )
    state = evidence.state
    gathered = None if state is None else _gathered(state, evidence.slot_at)
    if gathered is not None:
        return "skipped", gathered, SKIPPED[gathered]
    if state is not None and state.held_slot_at == evidence.slot_at and state.held_reason is not None:
        return "held", state.held_reason, HELD[state.held_reason]
    if evidence.stopped_by is not None:
        return "span", evidence.stopped_by, SPANS[evidence.stopped_by]
    if state is not None and state.status == "active" and evidence.slot_at >= (state.next_slot_at or now):
        return "pending", None, "will fire" if evidence.slot_at > now else "is being decided"
    return "unknown", None, "has no entry: it lies before the schedule, after its end, or beyond retention"


def _gathered(state: State, slot_at: int) -> str | None:
    """The reason of a slot that is counted on the row until its run of equal skips ends (L5)."""
    first, last = state.skip_first_at, state.skip_last_at
    if state.skip_reason is None or first is None or last is None or not first <= slot_at <= last:
        return None
    return state.skip_reason


def _fired(jobs: Sequence[Job]) -> str:
    first, last = jobs[0], jobs[-1]
    word = "was caught up" if first.origin == "catch_up" else "fired"
    if last.origin == "retry" and last.status == "queued":
        times = "once" if len(jobs) == 2 else f"{len(jobs) - 1} times"
        return f"{word}; its job failed {times} ({jobs[-2].error}) and waits for its retry ({last.job_id})"
    ended = {
        "queued": "its job waits",
        "running": "its job is running",
        "succeeded": "its job succeeded",
        "failed": f"its job failed: {last.error}",
        "timed_out": "its job timed out",
        "lost": "its job was lost",
        "cancelled": CANCELLED.get(last.reason or "", "its job was cancelled"),
    }[last.status]
    attempts = f" after {len(jobs)} attempts" if len(jobs) > 1 else ""
    return f"{word}; {ended}{attempts} ({last.job_id})"


def _rest(count: int) -> str:
    return f" (one of {count:,} in a row)" if count > 1 else ""


def no_slot(plan: Plan, at: int, before: int | None, after: int | None) -> Explanation:
    """The instant asked about is none of the schedule's."""
    zone = plan.definition.zone
    near = [spoken(zone, slot) for slot in (before, after) if slot is not None]
    words = f"; the nearest are {' and '.join(near)}" if near else ""
    return Explanation(f"No slot at {spoken(zone, at)}{words}.", "no_slot", None)


def spoken(zone: Zone, instant: int) -> str:
    """An instant as a person says it: time, weekday, date, on the wall of the schedule's zone."""
    moment = moment_of(instant).astimezone(zone.tzinfo)
    return f"{moment:%H:%M:%S} on {moment:%A}, {moment.day} {moment:%B %Y}".replace(":00 on", " on", 1)
