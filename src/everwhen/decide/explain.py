"""`why`: what happened or will happen to a slot, in a sentence with its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, NamedTuple

from everwhen.decide.outlook import (
    ComingSlot,
    Conditions,
    Outlook,
    because,
    cause,
    coming_slots,
    explain_status,
    explain_system,
    foresee,
)
from everwhen.model.events import NOTHING
from everwhen.model.history import Recorded, Revision
from everwhen.model.instants import MINUTE, SECOND, format_duration, format_instant
from everwhen.model.job import FAILURES, Job
from everwhen.model.limits import Transition
from everwhen.model.node import Node
from everwhen.model.outcome import summary_of
from everwhen.model.pause import Pause
from everwhen.model.queue import Delivery
from everwhen.model.reasons import (
    CANCELLED,
    CLOSED,
    HELD,
    MISSED,
    ON_REQUEST,
    ONGOING,
    SKIPPED,
    SPANS,
    WAS_HELD,
)
from everwhen.model.schedule import Plan, Schedule, State
from everwhen.timetable.civil_time import Zone
from everwhen.timetable.trigger import OnRequest

Fate = Literal["fired", "skipped", "missed", "caught_up", "held", "pending", "span", "no_slot", "unknown"]

LATE = 10 * SECOND  # what is less is the pace of a busy machine
MOST_AHEAD = 1_000  # how many slots are searched for the next one that can fire
DELETED = "deleted"  # in place of a span's reason: a deleted schedule has none


class SkippingPause(NamedTuple):
    """The pause, of the schedule or of the system, that ended a slot which had not been decided."""

    pause: Pause
    is_of_system: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """All records about one slot of one schedule, above all the revision that was in force."""

    slot_at: int
    due_at: int
    revision: Revision
    state: State | None
    jobs: Sequence[Job] = ()
    events: Sequence[Recorded] = ()
    stopped_by: str | None = None
    pause: Pause | None = None  # that stopped it
    skipped_by: SkippingPause | None = None
    transitions: Sequence[Transition] = ()
    schedulers: Sequence[Node] = ()  # that were running at the slot
    has_lacked_workers: bool = False  # none was running when its first job was ready
    last_sign_at: int | None = None  # the last sign of any scheduler
    # The last heartbeat of a scheduler before the slot was due, or before its opening.
    heard_before: int | None = None
    started_after: int | None = None  # when the next scheduler started after that
    clock_steps: Sequence[tuple[int, int]] = ()  # forwards, over the instant at which the slot was due
    on_its_way: Delivery | None = None  # the message in a queue that the last job waits for
    retained_from: int = 0  # retention may have deleted the records of earlier slots
    present: Plan | None = None  # the revision in force now; None when the schedule is deleted
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def plan(self) -> Plan:
        return self.revision.plan

    @property
    def zone(self) -> Zone:
        return self.plan.definition.zone

    @property
    def judged_at(self) -> int:
        """Return the instant that decides what the slot lies in: of a one-shot its due_at."""
        return self.due_at if self.plan.definition.is_one_shot else self.slot_at

    @property
    def is_in_force(self) -> bool:
        """Return whether the revision was in force at the slot; before the first revision there was none."""
        return self.revision.in_force_at <= self.judged_at

    @property
    def schedule(self) -> Schedule | None:
        """Return the schedule as it is now; None when it is deleted."""
        if self.state is None or self.present is None:
            return None
        return Schedule(self.state, self.present)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One sentence, and the evidence for it; an instant that is not a slot has no evidence."""

    sentence: str
    fate: Fate
    zone: Zone
    slot_at: int | None = None
    reason: str | None = None
    next_run_at: int | None = None
    evidence: Evidence | None = None

    @property
    def job(self) -> Job | None:
        """Return the last job of the slot."""
        return self.evidence.jobs[-1] if self.evidence and self.evidence.jobs else None


class _Verdict(NamedTuple):
    fate: Fate
    text: str
    reason: str | None = None


def explain_slot(evidence: Evidence) -> Explanation:
    """Explain what happened or will happen to a slot, and what comes next."""
    zone, slot_at, state = evidence.zone, evidence.slot_at, evidence.state
    fate, text, reason = _verdict(evidence, evidence.conditions.now)
    if reason == "down":  # none was running, by definition; a killed node may look alive for a while
        evidence = replace(evidence, schedulers=())
    sentence = f"{format_instant(evidence.judged_at, zone, exact=True)} {text}."
    if following := _following(evidence, fate):
        sentence = f"{sentence} {following}"
    next_run_at = None if state is None else state.next_run_at
    return Explanation(sentence, fate, zone, slot_at, reason, next_run_at=next_run_at, evidence=evidence)


def _following(evidence: Evidence, fate: Fate) -> str | None:
    """Say what fires next, what prevents it, and how to continue."""
    schedule, conditions = evidence.schedule, evidence.conditions
    if schedule is None:
        return None
    zone = schedule.definition.zone
    stopped = explain_status(schedule, conditions) or explain_system(conditions, zone)
    if stopped is not None:
        return stopped
    slots = coming_slots(schedule, conditions, conditions.now + 1)
    first = next(slots, None)
    if first is None:
        waits = schedule.definition.is_chain and schedule.state.outstanding
        return "The next slot is counted from the end of the run in flight." if waits else None
    if fate == "pending":
        is_blocked = first.slot_at == evidence.slot_at and first.outlook.reason is not None
        return _first_to_fire(evidence, first, slots) if is_blocked else None
    if first.outlook.reason is None:
        return f"Next: {format_instant(first.due_at, zone, exact=True)}."
    fated = _fated(schedule.plan, first.outlook, first.due_at)
    further = _first_to_fire(evidence, first, slots)
    at = format_instant(first.due_at, zone, exact=True)
    return f"Next: {at}, which {fated}.{' ' + further if further else ''}"


def _first_to_fire(evidence: Evidence, blocked: ComingSlot, slots: Iterator[ComingSlot]) -> str:
    """Name the first slot that nothing prevents, and the command for an earlier one."""
    plan = evidence.present or evidence.plan
    text = []
    if blocked.outlook.fate != "held":
        can_fire = next((slot for slot in islice(slots, MOST_AHEAD) if slot.outlook.fate != "skipped"), None)
        if can_fire is not None:
            at = can_fire.outlook.until if can_fire.outlook.fate == "held" else can_fire.due_at
            shown = format_instant(at or can_fire.due_at, plan.definition.zone, exact=True)
            text.append(f"The next to fire: {shown}.")
    breaker = plan.definition.breaker
    if blocked.outlook.reason == "circuit_open" and breaker is not None:
        text.append(f"To close the breaker now: everwhen system breaker {breaker.key} --reset.")
    return " ".join(text)


def _fated(plan: Plan, outlook: Outlook, due_at: int) -> str:
    """Return `will be skipped because …` or `will be held until … because …`."""
    why = because(plan, outlook, due_at)
    if outlook.fate == "skipped":
        return f"will be skipped because {why}"
    until = "" if outlook.until is None else f" until {format_instant(outlook.until, plan.definition.zone)}"
    return f"will be held{until} because {why}"


def _verdict(evidence: Evidence, now: int) -> _Verdict:
    if evidence.jobs:
        return _Verdict("fired", _fired(evidence) + _given_up(evidence))
    found = _on_record(evidence) or _on_the_row(evidence)
    if found is not None:
        return found
    if evidence.stopped_by == DELETED:
        return _Verdict("span", "lies after the schedule was deleted")
    if evidence.stopped_by is not None:
        text = SPANS[evidence.stopped_by]
        if evidence.judged_at > now:
            text = ONGOING.get(evidence.stopped_by, text)
        elif evidence.pause is not None:
            text = f"{text} {evidence.pause.text(evidence.zone)}"
        return _Verdict("span", text, evidence.stopped_by)
    state = evidence.state
    if state is not None and state.status == "active" and evidence.slot_at >= (state.next_slot_at or now):
        return _to_come(evidence, now)
    return _Verdict("unknown", f"has no entry: {_no_entry(evidence)}")


def _no_entry(evidence: Evidence) -> str:
    """Say why a slot has no record although the schedule was not stopped and is not about to decide it."""
    since = format_instant(max(evidence.revision.in_force_at, evidence.retained_from), evidence.zone)
    if not evidence.is_in_force and evidence.revision.revision == 1:
        return (
            f"the schedule was created only at {format_instant(evidence.revision.in_force_at, evidence.zone)}"
        )
    if not evidence.is_in_force or evidence.slot_at < evidence.retained_from:
        return f"it lies beyond retention, the record begins at {since}"
    return "the schedule had no such slot when it was due; `everwhen db check` says whether one is missing"


def _on_record(evidence: Evidence) -> _Verdict | None:
    for recorded in reversed(evidence.events):
        event = recorded.event
        if event.type == "schedule.skipped" and event.reason is not None:
            judged_at = None if "last" in event.detail else event.at
            return _skipped(evidence, event.reason, event.slot_count, event.detail, judged_at)
        if event.type == "schedule.missed" and event.reason is not None:
            why = cause(MISSED, event.reason, evidence.plan, evidence.due_at)
            why += _heard_of(evidence) if event.reason == "down" else ""
            return _Verdict("missed", f"was missed: {why}{_rest(event.slot_count)}", event.reason)
        if event.type == "schedule.caught_up":
            others = event.slot_count - 1
            stood = f"stood for it and {others:,} others" if others else "stood for it"
            return _Verdict("caught_up", f"was missed; job {event.job_id} {stood}")
    return None


def _on_the_row(evidence: Evidence) -> _Verdict | None:
    """Return what is only on the schedule's row so far: a gathered skip, or a held slot."""
    state = evidence.state
    if state is None:
        return None
    first, last = state.skip_first_at, state.skip_last_at
    is_gathered = first is not None and last is not None and first <= evidence.slot_at <= last
    if is_gathered and state.skip_reason is not None:
        detail = NOTHING if state.skip_held is None else {"held": state.skip_held}
        return _skipped(evidence, state.skip_reason, 1, detail)
    if state.held_slot_at != evidence.slot_at or state.held_reason is None:
        return None
    why = _closing(evidence, state.held_reason, state.held_since, were="are")
    why = why or cause(HELD, state.held_reason, evidence.plan, evidence.due_at, were="are")
    opening = state.release_at if state.held_key is None else None
    until = "" if opening is None else f" until {format_instant(opening, evidence.zone)}"
    return _Verdict("held", f"is held{until}: {why}", state.held_reason)


def _to_come(evidence: Evidence, now: int) -> _Verdict:
    if evidence.judged_at <= now:
        return _Verdict("pending", _undecided(evidence, now))
    state = evidence.state
    calendar, uid = evidence.plan.calendar(state.anchor_at if state else None), state.uid if state else ""
    outlook = foresee(
        evidence.plan, calendar, evidence.slot_at, evidence.due_at, evidence.conditions, uid=uid
    )
    if outlook.reason is None:
        return _Verdict("pending", "will fire")
    return _Verdict("pending", _fated(evidence.plan, outlook, evidence.due_at), outlook.reason)


def _heard_of(evidence: Evidence, instant: str = "it") -> str:
    """Name the last heartbeat before an instant at which no scheduler ran, and the next start after it."""
    if evidence.heard_before is None:
        before = f"; there is no heartbeat of one before {instant} on record"
    else:
        before = f"; the last heartbeat before {instant} was at {format_instant(evidence.heard_before, evidence.zone)}"
    if evidence.started_after is None:
        return before
    return f"{before}, the next start at {format_instant(evidence.started_after, evidence.zone)}"


def _undecided(evidence: Evidence, now: int) -> str:
    """Describe a slot that is due and not decided; without a recent sign of a scheduler, none is deciding it."""
    if now - evidence.due_at <= MINUTE:
        return "is being decided"
    if evidence.last_sign_at is None:
        return "is not decided yet: no scheduler has run on this database"
    if now - evidence.last_sign_at <= MINUTE:
        return "is not decided yet: a scheduler is running, and behind"
    last = format_instant(evidence.last_sign_at, evidence.zone)
    return f"is not decided yet: no scheduler is running, the last sign of one was at {last}"


def _skipped(
    evidence: Evidence,
    reason: str,
    count: int,
    detail: Mapping[str, object],
    judged_at: int | None = None,
) -> _Verdict:
    """Say why a slot was skipped; of one that was held before, also why it was held, and what became of its opening."""
    held = detail.get("held")
    if not isinstance(held, str):
        why = _closing(evidence, reason, judged_at) or _deferring(evidence, reason)
        why = why or _paused(evidence, reason) or cause(SKIPPED, reason, evidence.plan, evidence.due_at)
        return _Verdict("skipped", f"was skipped: {why}{_rest(count)}", reason)
    held_at, opening_at = _instant(detail, "held_at"), _instant(detail, "opening_at")
    began = _closing(evidence, held, held_at) or cause(HELD, held, evidence.plan, evidence.due_at, are="were")
    opening = "" if opening_at is None else f", {_passed(evidence, opening_at, judged_at)}"
    # A held slot is judged by the instant at which it is decided again.
    at = evidence.due_at if judged_at is None else judged_at
    why = _paused(evidence, reason) or cause(SKIPPED, reason, evidence.plan, at)
    text = f"it was held because {began}{opening}, and {why.removeprefix(WAS_HELD)}"
    return _Verdict("skipped", f"was skipped: {text}{_rest(count)}", reason)


def _instant(detail: Mapping[str, object], name: str) -> int | None:
    instant = detail.get(name)
    return instant if isinstance(instant, int) else None


def _passed(evidence: Evidence, opening_at: int, judged_at: int | None) -> str:
    """Say that an opening passed while nobody decided the held slot, and whether a scheduler was running then."""
    text = f"its opening at {format_instant(opening_at, evidence.zone)} passed"
    started = evidence.started_after
    if evidence.heard_before is None or started is None or started > (judged_at or started):
        return f"{text} before a scheduler came to it"
    return f"{text} while no scheduler was running{_heard_of(evidence, 'that')}"


def _paused(evidence: Evidence, reason: str) -> str | None:
    """Say who had paused what when a slot was ended before its decision; None: something else ended it."""
    if reason != "paused" or evidence.skipped_by is None:
        return None
    pause, is_of_system = evidence.skipped_by
    what = "system" if is_of_system else "schedule"
    return f"{f'the {what} was paused {pause.text(evidence.zone)}'.rstrip()}, before it was decided"


def _deferring(evidence: Evidence, reason: str) -> str | None:
    """Say why a slot that was missed in a closed time, and so was never held, gave way to a later one."""
    closed = evidence.plan.calendar(None).closed_reason(evidence.due_at)
    if reason != "superseded" or closed is None:
        return None
    return (
        f"{cause(CLOSED, closed, evidence.plan, evidence.due_at)}, and the next slot came before the opening"
    )


def _closing(evidence: Evidence, reason: str, judged_at: int | None, were: str = "were") -> str | None:
    """Say what closed time a late slot came into; None if it was not open when due, or was not judged later."""
    closed_reason = evidence.plan.calendar(None).closed_reason
    if judged_at is None or closed_reason(evidence.due_at) is not None or closed_reason(judged_at) != reason:
        return None
    late = "it was late"
    if reason != "outside_window":  # whose clause has the instant
        late += f", decided at {format_instant(judged_at, evidence.zone)}"
    return f"{late}, and {cause(CLOSED, reason, evidence.plan, judged_at, were=were)}"


def _waiting(evidence: Evidence) -> str:
    """Say where a ready job waits."""
    sent = evidence.on_its_way
    if sent is None:
        return "its job waits"
    again = f" (message {sent.number})" if sent.number > 1 else ""
    since = format_instant(sent.handed_over_at, evidence.zone)
    return f'its job waits for a worker of the queue "{sent.queue}", which has it since {since}{again}'


def _fired(evidence: Evidence) -> str:
    jobs = evidence.jobs
    first, last = jobs[0], jobs[-1]
    word = f"was caught up{_late(evidence)}" if first.origin == "catch_up" else f"fired{_late(evidence)}"
    if last.origin == "retry" and last.status == "queued":
        times = "once" if len(jobs) == 2 else f"{len(jobs) - 1} times"
        error = _error_of(jobs[-2])
        return f"{word}; its job failed {times} ({error}) and waits for its retry ({last.job_id})"
    ended = {
        "queued": _waiting(evidence),
        "running": "its job is running",
        "succeeded": "its job succeeded",
        "failed": f"its job failed: {_error_of(last)}",
        "timed_out": "its job timed out",
        "lost": "its job was lost",
        "cancelled": CANCELLED.get(last.reason or "", "its job was cancelled"),
    }[last.status]
    attempts = f" after {len(jobs)} attempts" if len(jobs) > 1 else ""
    return f"{word}; {_waited(evidence)}{ended}{attempts} ({last.job_id})"


def _waited(evidence: Evidence) -> str:
    """Say for how long the first job of a slot waited until it began; nothing where it began at once."""
    wait = waiting_time(evidence.jobs)
    if wait < LATE:
        return ""
    why = ", because no worker was running" if evidence.has_lacked_workers else ""
    return f"its job began only {format_duration(wait)} later{why}; "


def waiting_time(jobs: Sequence[Job]) -> int:
    """Return for how long the first job of a slot, the oldest first, was ready and had not begun.

    A job that was rescued has forgotten its first start.
    """
    if not jobs or jobs[0].started_at is None or jobs[0].rescues:
        return 0
    return jobs[0].started_at - ready_at(jobs[0])


def ready_at(job: Job) -> int:
    """Return from when on a job might have begun."""
    return max(job.created_at, job.not_before or 0)


def _late(evidence: Evidence) -> str:
    """Say by how much the slot fired late, and why; nothing where it was on time."""
    delay = lateness(evidence.jobs, evidence.due_at)
    if delay < LATE:
        return ""
    return f" {format_duration(delay)} late, {_cause_of_delay(evidence, delay)}"


def lateness(jobs: Sequence[Job], due_at: int) -> int:
    """Return for how long the first job of a slot, the oldest first, was not there although the slot was due."""
    return jobs[0].created_at - due_at if jobs else 0


def _cause_of_delay(evidence: Evidence, delay: int) -> str:
    plan, zone = evidence.plan, evidence.zone
    silence = (evidence.heard_before, evidence.started_after)
    for verb, (before, after) in (
        ("no scheduler ran", silence),
        *(("the clock was set", step) for step in evidence.clock_steps),
    ):
        if before is not None and after is not None:
            return f"because {verb} from {format_instant(before, zone)} to {format_instant(after, zone)}"
    calendar = plan.calendar(evidence.slot_at)  # whose grid the slot is on
    closed = calendar.closed_reason(evidence.due_at)
    if closed is not None:
        return f"because {cause(CLOSED, closed, plan, evidence.due_at)}"
    limits = [cause(HELD, reason, plan, evidence.due_at, are="were") for reason in _limits_of(plan)]
    held = f"it was held: {' or '.join(limits)}" if limits else ""
    # A slot that is not held is missed where it is so late.
    if held and delay > plan.grace_of(evidence.slot_at, calendar.next_after(evidence.slot_at)):
        return f"because {held}"
    return "because a scheduler was running and came to it late" + (f", or {held}" if held else "")


def _limits_of(plan: Plan) -> list[str]:
    """Return the reasons for which the slots of a schedule may be held until there is a place."""
    limits = {"outstanding_limit": plan.definition.guard, "at_capacity": plan.definition.capacity}
    return [reason for reason, limit in limits.items() if limit is not None]


def _error_of(job: Job) -> str:
    return summary_of(job.error or job.status, job.error_type)


def _given_up(evidence: Evidence) -> str:
    """Say what a failed slot that is not retried means for its schedule."""
    last, definition, state = evidence.jobs[-1], evidence.plan.definition, evidence.state
    if last.status not in FAILURES or definition.max_retries is None:
        return ""
    is_used_up = last.retry >= definition.max_retries
    text = "; its retries are used up" if is_used_up else "; it is not tried again"
    if definition.on_exhausted == "continue":
        return f"{text}, and the schedule goes on (on_exhausted: continue)"
    if state is not None and state.status == "dead" and state.last_completed_at == last.ended_at:
        return f"{text}, and the schedule died (on_exhausted: stop)"
    return text


def _rest(count: int) -> str:
    return f" (one of {count:,} in a row)" if count > 1 else ""


def no_slot(plan: Plan, at: int, before: int | None, after: int | None) -> Explanation:
    """Explain that an instant is not a slot of the schedule, and name the nearest ones."""
    zone = plan.definition.zone
    near = [format_instant(slot, zone) for slot in (before, after) if slot is not None]
    verb = "are" if len(near) > 1 else "is"
    text = f"; the nearest {verb} {' and '.join(near)}" if near else ""
    return Explanation(f"No slot at {format_instant(at, zone)}{text}.", "no_slot", zone)


def no_slot_yet(plan: Plan, schedule: Schedule | None, conditions: Conditions) -> Explanation:
    """Explain that no slot has come due, and that none is expected at present."""
    zone = plan.definition.zone
    stopped = None
    if schedule is not None:
        stopped = explain_status(schedule, conditions) or explain_system(conditions, zone)
    is_asked = isinstance(plan.definition.trigger, OnRequest)
    text = f"No request has fired it yet: it {ON_REQUEST}." if is_asked else "No slot has come yet."
    return Explanation(f"{text} {stopped}" if stopped else text, "no_slot", zone)
