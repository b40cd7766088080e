"""Whether the reason of each skip, miss and hold can be true, by what else is on record.

A reason is refused when the record shows that it was not so; where the record does not say, nothing is refused, and the
entry counts as not judged: a quiet-hours policy that was written since, the hour that the clock showed twice, what
retention has deleted, and all that an earlier release may have written (`judged_from`).

The rules of the tick are asked in their order (closed times, breaker, overlap, budget, limits), so a later reason is
also refused where an earlier one certainly applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everwhen.model.calendar import Calendar
from everwhen.model.events import Event
from everwhen.model.history import OF_SLOTS, STARTS, STOPS, Circumstances, Recorded, ScheduleHistory
from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.limits import FOR_EVER
from everwhen.model.schedule import Definition, Plan
from everwhen.timetable.trigger import Every
from everwhen.verify.circumstances import (
    BreakerStates,
    BudgetsReached,
    FiringDays,
    Occupied,
    SchedulersAlive,
)
from everwhen.verify.entries import LedgerFault, fault_of
from everwhen.verify.periods import SystemSpan
from everwhen.verify.slots import slots_between

CLOSED = ("excluded_day", "outside_window", "quiet_hours")
SAMPLES = 20  # slots of a range that are judged, beside its first and its last
UNKNOWN = "what it would be judged by is not on record"
Verdict = str | None
"""Why a reason is false; None where it can be true; UNKNOWN."""


@dataclass(slots=True)
class Background:
    """What the reasons of all schedules are judged by. `tolerance`: see `circumstances`."""

    record: Circumstances
    is_known: bool  # without them only what the record of a schedule itself shows is judged
    spans: Sequence[SystemSpan]
    switches: Sequence[int]  # instants at which a pause of the system or a time before a restore ended
    twice: Sequence[tuple[int, int]]  # the times that the clock showed twice
    breakers: BreakerStates
    budgets: BudgetsReached
    alive: SchedulersAlive
    tolerance: int = MINUTE
    retained_from: int = 0
    fired: FiringDays = field(default_factory=FiringDays)
    claims: list[tuple[LedgerFault, Sequence[str], int]] = field(default_factory=list)
    judged: int = 0
    unjudged: int = 0

    def is_clear(self, first: int, last: int) -> bool:
        """Return whether the order of instants around this time is certain."""
        return not any(start <= last and first <= end for start, end in self.twice)

    def faults(self) -> Iterator[LedgerFault]:
        """Yield the budgets that nothing had been spent of; they count attempts of all schedules."""
        for fault, keys, at in self.claims:
            if not self.fired.has(keys, at - self.tolerance, at + self.tolerance):
                yield fault


def background_of(
    record: Circumstances | None,
    system: Sequence[Recorded],
    spans: Sequence[SystemSpan],
    *,
    retained_from: int,
    tolerance: int,
) -> Background:
    known = record or Circumstances()
    steps = [
        (int(str(event.detail.get("from", 0))), int(str(event.detail.get("to", 0))))
        for _, event in system
        if event.type == "scheduler.clock_stepped"
    ]
    return Background(
        record=known,
        is_known=record is not None,
        spans=spans,
        switches=[event.at for _, event in system if event.type in ("system.resumed", "system.restored")],
        twice=[(end - tolerance, start + tolerance) for start, end in steps if end < start],
        breakers=BreakerStates(known.transitions, is_whole=not retained_from),
        budgets=BudgetsReached(known.reached),
        alive=SchedulersAlive(known, steps),
        tolerance=tolerance,
        retained_from=retained_from,
    )


class Case(NamedTuple):
    """A slot that did not fire, and what was in force when that was decided, between `first` and `last`.

    `at` is the instant of its entry; `changes` are the types of the events of that instant that begin or end a period.
    """

    plan: Plan
    calendar: Calendar
    slot_at: int
    due_at: int
    at: int
    first: int
    last: int
    reason: str
    detail: Mapping[str, object]
    occupied: Occupied
    around: Background
    changes: frozenset[str]
    earlier: Sequence[Plan]  # the revisions that were in force before, since the slot was due
    is_active: bool

    @property
    def definition(self) -> Definition:
        return self.plan.definition

    @property
    def is_held(self) -> bool:
        return "held" in self.detail

    @property
    def following(self) -> int | None:
        trigger = self.definition.trigger
        if self.definition.is_chain and isinstance(trigger, Every):
            return self.slot_at + trigger.seconds * SECOND
        return self.calendar.next_after(self.slot_at)

    @property
    def window(self) -> tuple[int, int]:
        """Return when it was decided, as far as transactions show it."""
        return self.first - self.around.tolerance, self.last + self.around.tolerance

    @property
    def is_range(self) -> bool:
        return "last" in self.detail

    @property
    def has_its_policy(self) -> bool:
        """Return whether the quiet-hours policy is the one that was in force: only its last version is on record."""
        quiet_id = self.definition.quiet_hours_id
        if quiet_id is None or not self.around.is_known:
            return True
        written_at = self.around.record.policies.get(quiet_id, FOR_EVER)
        return written_at <= min(self.first, self.due_at) - self.around.tolerance

    def closed_reason(self, at: int) -> str | None:
        """Return the reason for which the schedule is closed at an instant, or UNKNOWN."""
        reason = self.calendar.closed_reason(at)
        return reason if self.has_its_policy or reason in CLOSED[:2] else UNKNOWN

    def is_late(self) -> bool:
        """Return whether it was missed when it was decided: it was too late, or the next one was due."""
        following = self.following
        is_last = self.definition.is_chain or following is None or self.calendar.due_at(following) > self.at
        return not is_last or self.at - self.due_at > self.plan.grace_of(self.slot_at, following)


class _ReasonCheck:
    """The way through the events of a schedule; it knows what is in force at each."""

    def __init__(self, history: ScheduleHistory, occupied: Occupied, around: Background) -> None:
        self._history = history
        self._occupied = occupied
        self._around = around
        self._revisions = {revision.revision: revision.plan for revision in history.revisions}
        self._plan: Plan | None = None
        self._plans: list[tuple[int, Plan]] = []  # those before it, with the instant at which each ended
        self._anchor_at: int | None = None
        self._is_active = False
        self._edited_at = -1
        self._changes = _changes_by_instant(history.events)

    def faults(self, now: int) -> Iterator[LedgerFault]:
        for _, event in self._history.events:
            self._follow(event)
            if event.type in OF_SLOTS and event.type != "schedule.caught_up":
                yield from self._judge_event(event)
        yield from self._judge_row(now)

    def _follow(self, event: Event) -> None:
        if event.type in ("schedule.created", "schedule.updated"):
            number = event.detail.get("revision", 1)
            if self._plan is not None:
                self._plans.append((event.at, self._plan))
                self._edited_at = event.at
            self._plan = self._revisions.get(int(str(number)))
        if event.type in STOPS:
            self._is_active = False
        elif event.type in STARTS or event.type == "schedule.created":
            self._is_active = True
        if "anchor_at" in event.detail:
            anchor = event.detail["anchor_at"]
            self._anchor_at = anchor if isinstance(anchor, int) else None

    def _judge_event(self, event: Event) -> Iterator[LedgerFault]:
        around = self._around
        if self._plan is None or event.slot_at is None or event.reason is None:
            return
        if min(event.at, event.slot_at) < max(around.record.judged_from, around.retained_from):
            around.unjudged += event.slot_count
            return
        around.judged += event.slot_count
        for case in [self._case(slot_at, event) for slot_at in self._samples(event)]:
            verb = f"was {event.type.removeprefix('schedule.')}"
            yield from self._tell(case, _judge(case, event), verb)

    def _tell(self, case: Case, verdict: Verdict, verb: str) -> Iterator[LedgerFault]:
        if verdict is None:
            return
        if verdict is UNKNOWN:
            self._around.unjudged += 1
            self._around.judged -= 1
            return
        sentence = f"it {verb}, reason {case.reason}, and {verdict}"
        fault = fault_of(self._history, "reason", case.slot_at, sentence)
        if verdict is not NOTHING_SPENT:
            yield fault
            return
        self._around.claims.append((fault, [budget.key for budget in case.definition.budgets], case.at))

    def _case(self, slot_at: int, event: Event) -> Case:
        assert self._plan is not None
        plan = self._plan
        calendar = plan.calendar(self._anchor_at)
        due_at = calendar.due_at(slot_at)
        first = last = event.at
        if "last" in event.detail and event.reason in GATHERED:
            # They were decided one after another, each on time.
            first = due_at
            last = min(due_at + plan.grace_of(slot_at, calendar.next_after(slot_at)), event.at)
        return Case(
            plan=plan,
            calendar=calendar,
            slot_at=slot_at,
            due_at=due_at,
            at=event.at,
            first=first,
            last=last,
            reason=event.reason or "",
            detail=event.detail,
            occupied=self._occupied,
            around=self._around,
            changes=self._changes.get(event.at, frozenset()),
            earlier=[one for until, one in self._plans if until >= due_at],
            is_active=self._is_active,
        )

    def _samples(self, event: Event) -> Sequence[int]:
        """Return the slots of an event that are judged: of a range some, among them its first and its last."""
        assert event.slot_at is not None and self._plan is not None
        first, last = event.detail.get("first"), event.detail.get("last")
        if event.slot_count == 1 or not isinstance(first, int) or not isinstance(last, int):
            return [event.slot_at]
        ends = [first, last]
        # Between the ends of what was missed lie slots with other entries: closed times in the open, and vice versa.
        is_whole = event.reason in OVERLAPS and not self._plan.definition.is_chain
        if not is_whole:
            return ends
        slots = slots_between(self._plan.calendar(self._anchor_at), first, last)
        return [*ends, *slots[1 : -1 : max(len(slots) // SAMPLES, 1)]]

    # -- the row --

    def _judge_row(self, now: int) -> Iterator[LedgerFault]:
        state = self._history.state
        if state is None or self._plan is None:
            return
        if state.skip_count and state.skip_first_at is not None and state.skip_reason is not None:
            ends = {"first": state.skip_first_at, "last": state.skip_last_at}
            held = {} if state.skip_held is None else {"held": state.skip_held}
            gathered = Event(
                "schedule.skipped",
                now,
                slot_at=state.skip_first_at,
                reason=state.skip_reason,
                slot_count=state.skip_count,
                detail={**held, **ends},
            )
            yield from self._judge_event(gathered)
        if state.held_slot_at is None or state.held_since is None or state.held_reason is None:
            return
        around = self._around
        if state.held_since <= max(around.record.judged_from - 1, around.retained_from - 1, self._edited_at):
            around.unjudged += 1
            return
        around.judged += 1
        hold = Event(
            "schedule.skipped", state.held_since, slot_at=state.held_slot_at, reason=state.held_reason
        )
        case = self._case(state.held_slot_at, hold)
        yield from self._tell(case, _hold(case, state.held_reason, state.held_since), "is held")


def check_reasons(
    history: ScheduleHistory, occupied: Occupied, around: Background, now: int
) -> Iterator[LedgerFault]:
    """Yield every reason of one history that cannot be true."""
    return _ReasonCheck(history, occupied, around).faults(now)


def _changes_by_instant(events: Sequence[Recorded]) -> dict[int, frozenset[str]]:
    """Return, by instant, the types of the events that begin or end a period: one commit has one instant."""
    found: dict[int, frozenset[str]] = {}
    for _, event in events:
        is_edit = event.type == "schedule.updated" and "anchor_at" in event.detail
        if is_edit or event.type in STOPS:
            found[event.at] = found.get(event.at, frozenset()) | {event.type}
    return found


# -- the rules --

NOTHING_SPENT = "no limit of its budgets is on record as used up, and nothing counted for them that day"
GATHERED = ("already_running", "retrying", "queue_full", "circuit_open", "budget")
OVERLAPS = ("already_running", "retrying", "queue_full")


def _never(case: Case) -> Verdict:
    return "that is not a reason of such an entry"


def _judge(case: Case, event: Event) -> Verdict:
    if "origin" in event.detail:
        return _REQUESTS.get(case.reason, _never)(case)
    rules = _MISSES if event.type == "schedule.missed" else _SKIPS
    verdict = rules.get(case.reason, _never)(case)
    if verdict is None and case.is_held:
        return _was_held(case)
    if verdict is None and case.is_range:
        return _counted(case, event.type, event.slot_count)
    return verdict


def _closed(case: Case) -> Verdict:
    """Closed when due, else when decided; a held slot when decided."""
    closed, at = case.closed_reason(case.due_at), case.due_at
    if case.is_held:
        closed, at = case.closed_reason(case.at), case.at
    elif closed is None and (case.is_range or not case.is_late()):
        at = min(case.following or case.at, case.at) if case.is_range else case.at
        closed = case.closed_reason(at)
    if closed != case.reason:
        return UNKNOWN if closed is UNKNOWN else "that did not close it"
    defers = case.reason in case.plan.defers and not case.is_held
    if defers and case.calendar.opening_from(at) is not None:
        return "it was to be held until the opening"
    return None


def _superseded(case: Case) -> Verdict:
    following = case.following
    if following is None or case.definition.is_chain:
        return "no slot follows it"
    following_at = case.calendar.due_at(following)
    if case.is_held:
        return None if following_at <= case.at else "the next slot was not due"
    if not case.has_its_policy:
        return UNKNOWN
    if case.closed_reason(case.due_at) not in case.plan.defers:
        return "nothing had held it, or would have"
    opening = case.calendar.opening_from(case.due_at)
    return (
        None if opening is not None and following_at <= opening else "its opening came before the next slot"
    )


def _counted(case: Case, kind: str, slot_count: int) -> Verdict:
    """Count the slots of a range that may have its reason, where that depends on closed times."""
    is_missed = kind == "schedule.missed"
    if case.definition.is_chain or not case.has_its_policy or not (is_missed or case.reason in CLOSED):
        return None
    first, last = (int(str(case.detail[name])) for name in ("first", "last"))
    count = 0 if is_missed else 1  # one that was late when the closed time began
    for reason, slots in case.calendar.runs(slots_between(case.calendar, first, last)):
        if is_missed and reason in case.plan.defers:
            count += 1  # the newest of those that were deferred
        elif reason == (None if is_missed else case.reason):
            count += len(slots)
    return None if slot_count <= count else f"only {count} slots of its range can have that reason"


def _stopped(case: Case) -> Verdict:
    """Judge a slot that a stop ended: of the schedule, in the same commit, or of the system, or by a restore."""
    if any(change in STOPS for change in case.changes):
        return None
    tolerance = case.around.tolerance
    is_switched = any(abs(at - case.at) <= tolerance for at in case.around.switches)
    return None if is_switched else "nothing had stopped the schedule"


def _edited(case: Case) -> Verdict:
    return None if "schedule.updated" in case.changes else "its times were not edited then"


def _live(rule: Callable[[Case], Verdict]) -> Callable[[Case], Verdict]:
    """Judge a reason that only a slot on time can have, or a held one, outside closed times."""

    def judge(case: Case) -> Verdict:
        if case.first == case.last == case.at and not case.is_held and case.is_late():
            return "it had been missed by then"
        closed = [case.closed_reason(case.at)] if case.first == case.at else []
        if not case.is_held:
            closed.append(case.closed_reason(case.due_at))
        for reason in closed:
            if reason in CLOSED:
                return f"{reason} comes first, which applied"
        return rule(case) if case.around.is_clear(*case.window) else UNKNOWN

    return judge


def _circuit_open(case: Case, *, cooled: bool = False) -> Verdict:
    rule = case.definition.breaker
    if rule is None:
        return "it has no circuit breaker"
    if not case.around.is_known:
        return UNKNOWN
    may_be_open = case.around.breakers.may_be_open(rule, *case.window, cooled=cooled)
    if may_be_open is None:
        return UNKNOWN
    return None if may_be_open else f"the breaker {rule.key} was not open"


def _behind_breaker(case: Case) -> Verdict:
    """Return a fault if the breaker, which is asked before, certainly refused the slot."""
    rule = case.definition.breaker
    if rule is None or not case.around.is_known:
        return None
    is_open = case.around.breakers.is_open(rule, *case.window)
    return f"the breaker {rule.key} was open, which comes first" if is_open else None


def _already_running(case: Case) -> Verdict:
    if case.definition.if_running != "skip":
        return f"if_running is {case.definition.if_running}"
    if not case.occupied.busy.touch(*case.window):
        return "no job of it was queued or running"
    return _behind_breaker(case)


def _retrying(case: Case) -> Verdict:
    if case.definition.if_running != "skip":
        return f"if_running is {case.definition.if_running}"
    if not case.occupied.waiting.touch(*case.window):
        return "no job of it was waiting"
    if case.occupied.surely_busy.cover(*case.window):
        return "a job of it was queued or running"
    return _behind_breaker(case)


def _queue_full(case: Case) -> Verdict:
    if case.definition.if_running != "queue":
        return f"if_running is {case.definition.if_running}"
    queued = case.occupied.queued.count(*case.window)
    if queued < case.definition.queue_limit:
        return f"{queued} jobs of it were queued, of {case.definition.queue_limit}"
    return _behind_breaker(case)


def _budget(case: Case) -> Verdict:
    if not case.definition.budgets:
        return "it has no budget"
    if not case.around.is_known:
        return UNKNOWN
    if not case.around.budgets.may_be_spent(case.definition.budgets, *case.window):
        return UNKNOWN if _is_spaced(case) else "no limit of its budgets is on record as used up then"
    # A slot behind a window that is caught up does not ask for jobs in flight.
    asks = case.definition.if_running == "skip" and not case.definition.catch_up_policy.startswith("run_all")
    if asks and case.occupied.surely_busy.cover(*case.window):
        return "a job of it was queued or running, which comes first"
    return _behind_breaker(case)


# -- misses --


def _missed(rule: Callable[[Case], Verdict], *, catches_up: bool) -> Callable[[Case], Verdict]:
    """Judge a slot that was too late; `catches_up`: whether the reason needs a policy that catches up."""

    def judge(case: Case) -> Verdict:
        if not case.is_late():
            return "it was on time and the newest"
        closed = case.closed_reason(case.due_at)
        if closed in CLOSED and closed not in case.plan.defers:
            return f"{closed} comes first, which applied"
        skips = case.definition.catch_up_policy == "skip"
        if catches_up and skips:
            return "its policy is to catch nothing up"
        if not catches_up and not skips and case.calendar.opening_from(case.at) is not None:
            return "its policy is to catch it up" if case.has_its_policy else UNKNOWN
        return rule(case)

    return judge


def _down(case: Case) -> Verdict:
    if not case.around.is_known or not case.around.is_clear(case.due_at, case.at):
        return UNKNOWN
    was_alive = case.around.alive.was_alive(case.due_at, case.at, case.around.tolerance)
    return "a scheduler was alive" if was_alive else None


def _late(case: Case) -> Verdict:
    if not case.around.is_known or not case.around.is_clear(case.due_at, case.at):
        return UNKNOWN
    was_down = case.around.alive.was_down(case.due_at, case.around.tolerance)
    return "no scheduler was alive" if was_down else None


def _beyond_limit(case: Case) -> Verdict:
    if not case.definition.catch_up_policy.startswith("run_all"):
        return f"its policy is {case.definition.catch_up_policy}"
    limit = case.definition.catch_up_limit
    later = len(slots_between(case.calendar, case.slot_at + 1, case.at))
    if case.definition.is_chain:
        return "a chain has one slot at a time"
    return None if later >= limit else f"only {later} slots follow it, of the {limit} that are caught up"


def _not_caught_up(case: Case) -> Verdict:
    return _circuit_open(case, cooled=True)


def _is_spaced(case: Case) -> bool:
    """Return whether `min_interval` may have refused: the last firing may be one of a schedule that it replaced."""
    return any(budget.min_interval is not None for budget in case.definition.budgets)


def _share_spent(case: Case) -> Verdict:
    budgets = case.definition.budgets
    if not budgets:
        return "it has no budget"
    is_counted = any(budget.unit is not None for budget in budgets)  # how much a run needs is not on record
    if is_counted or _is_spaced(case) or not case.around.is_known or not case.around.is_clear(*case.window):
        return UNKNOWN
    return None if case.around.budgets.may_be_spent(budgets, *case.window) else NOTHING_SPENT


# -- holds --


def _was_held(case: Case) -> Verdict:
    """Judge the reason of a hold that ended: by the revision in force, or one since the slot was due."""
    held, held_at, opening_at = (case.detail.get(name) for name in ("held", "held_at", "opening_at"))
    instants = [at for at in (held_at, opening_at) if isinstance(at, int)]
    if instants != sorted(instants) or any(not case.due_at <= at <= case.at for at in instants):
        return "its hold does not lie between its due time and its entry"
    begun = held_at if isinstance(held_at, int) else case.due_at
    verdicts = [
        _hold(case._replace(plan=plan, calendar=plan.calendar(None)), held, begun)
        for plan in (case.plan, *case.earlier)
    ]
    if all(verdict is not None and verdict is not UNKNOWN for verdict in verdicts):
        return f"it was held, reason {held}, and {verdicts[0]}"
    if not isinstance(opening_at, int) or case.earlier or case.closed_reason(opening_at) in (None, UNKNOWN):
        return None
    return "what it names is not an opening"


def _hold(case: Case, reason: object, held_at: int) -> Verdict:
    definition = case.definition
    if reason in ("outstanding_limit", "at_capacity"):
        limit = definition.guard if reason == "outstanding_limit" else definition.capacity
        if limit is None:
            return "it has no such limit"
        enqueues = definition.if_running in ("queue", "cancel")
        return f"if_running is {definition.if_running}" if enqueues else None
    if reason not in CLOSED:
        return "that is not a reason of a hold"
    if reason not in case.plan.defers:
        return "the schedule defers no such slot"
    reasons = [case.closed_reason(at) for at in (case.due_at, held_at)]
    if reason in reasons:
        return None
    return UNKNOWN if UNKNOWN in reasons else "that did not close it"


# -- requests --


def _request_refused(case: Case) -> Verdict:
    end_at = case.definition.end_at
    if not case.is_active:
        return None
    first, last = case.window
    is_spanned = any(span.after <= last and first <= span.until for span in case.around.spans)
    is_over = end_at is not None and case.at >= end_at * SECOND
    return None if is_spanned or is_over else "nothing had stopped the schedule"


def _request_met_jobs(case: Case) -> Verdict:
    if case.definition.if_running != "skip":
        return f"if_running is {case.definition.if_running}"
    is_busy = case.occupied.busy.touch(*case.window) or case.occupied.waiting.touch(*case.window)
    return None if is_busy or not case.around.is_clear(*case.window) else "no job of it was outstanding"


Rules = Mapping[str, Callable[[Case], Verdict]]

_SKIPS: Rules = {
    **dict.fromkeys(CLOSED, _closed),
    "superseded": _superseded,
    "paused": _stopped,
    "edited": _edited,
    "circuit_open": _live(_circuit_open),
    "already_running": _live(_already_running),
    "retrying": _live(_retrying),
    "queue_full": _live(_queue_full),
    "budget": _live(_budget),
}
_MISSES: Rules = {
    "down": _missed(_down, catches_up=False),
    "late": _missed(_late, catches_up=False),
    "catch_up_limit": _missed(_beyond_limit, catches_up=True),
    "circuit_open": _missed(_not_caught_up, catches_up=True),
    "budget": _missed(_share_spent, catches_up=True),
}
_REQUESTS: Rules = {
    "paused": _request_refused,
    "already_running": _request_met_jobs,
    "queue_full": _queue_full,
}
