"""What a person has to know to answer a request for approval: what the revision would fire, spend and change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from everwhen.decide import approval, edit
from everwhen.decide.budgets import OWNER_BUDGET, DailyCost, cost_per_day, estimate, usages
from everwhen.decide.reconcile import FiringTimes, firings
from everwhen.errors import LimitError, StatusError
from everwhen.model.events import Event
from everwhen.model.fields import answer_to_json
from everwhen.model.history import Revision
from everwhen.model.instants import DAY, HOUR, SECOND, to_datetime
from everwhen.model.limits import Shared
from everwhen.model.masks import masked
from everwhen.model.policy import BUDGET, Budget
from everwhen.model.queries import Entry, EventFilter
from everwhen.model.schedule import Definition, Plan, Schedule
from everwhen.model.spending import BudgetKind, Usage
from everwhen.model.token import Token, TokenLimits, refuse_beyond
from everwhen.operations.access import Caller, get_entry
from everwhen.operations.apply import KeyChange, compare_keys
from everwhen.operations.upcoming import UpcomingSlot, conditions_of, upcoming_of
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.cautions import cautions, fires_per_day
from everwhen.timetable.describe import describe, describe_dst, describe_seconds
from everwhen.timetable.occurrences import series_of

AHEAD = 7 * DAY  # from the instant after now, up to and including the last one
SHOWN_SLOTS = 5
MOST_EVENTS = 200
MONTH_DAYS = 30
WINDOWS = {"fires_per_hour": HOUR, "fires_per_day": DAY}


class BudgetRequest(NamedTuple):
    """What the revision would take of one limit of a budget in its busiest window, beside what is used now."""

    kind: BudgetKind
    name: str
    usage: Usage
    asked: int
    unit: str | None

    @property
    def exceeds(self) -> bool:
        return self.usage.used + self.asked > self.usage.most


class LimitCheck(NamedTuple):
    """One limit of the token that asked, and whether the revision is within it."""

    limit: str
    sentence: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class Review:
    """A revision that waits for approval. `before`: the revision that fired until then; None: there was none."""

    schedule_id: str
    revision: int
    sentence: str
    asked_at: int
    asked_by: str | None
    token_name: str | None
    before: int | None
    approved_at: int | None
    keys: Sequence[KeyChange]
    slots: Sequence[UpcomingSlot]
    notes: Sequence[str | None]
    firings: int
    firings_before: int | None
    busiest_day: int
    cost_per_day: DailyCost | None
    budgets: Sequence[BudgetRequest]
    limits: Sequence[LimitCheck]
    warnings: Sequence[str]


def review_schedule(runtime: Runtime, schedule_id: str, caller: Caller) -> Review:
    """Return what an approval of the current revision would allow; raise StatusError when it does not wait."""
    entry, now = get_entry(runtime, schedule_id, caller), runtime.clock.now()
    schedule = entry.schedule
    if not approval.is_waiting(schedule.state):
        raise StatusError("review", schedule.state.status, "it does not wait for approval")
    conditions = conditions_of(runtime, [schedule])
    decision = approval.approve(
        schedule, now, conditions.shared, revision=schedule.state.revision, by=caller.actor
    )
    approved, definition = Schedule(decision.after, schedule.plan, schedule.outstanding), schedule.definition
    slots, times = (
        upcoming_of(approved, SHOWN_SLOTS, conditions),
        firings(schedule.plan, decision.after, now + AHEAD + 1),
    )
    tokens = {token.token_id: token for token in store_of(runtime).tokens.all()}
    answers = _answers(runtime, schedule.state.uid)
    asked = next((one for one in answers if one.type == "schedule.approval_requested"), None)
    actor = asked.actor if asked is not None else f"token:{entry.token_id}"
    token = tokens.get((actor or "").removeprefix("token:"))
    before, approved_at = _last_in_force(runtime, schedule, answers)
    requests = tuple(_requests(schedule, conditions.shared, times, now, tokens))
    return Review(
        schedule_id=schedule.state.schedule_id,
        revision=schedule.state.revision,
        sentence=describe(definition.trigger, definition.zone),
        asked_at=entry.updated_at if asked is None else asked.at,
        asked_by=actor,
        token_name=None if token is None else token.name,
        before=None if before is None else before.revision,
        approved_at=approved_at,
        keys=() if before is None else _changed_keys(before.plan.definition, definition),
        slots=slots,
        notes=_notes(approved, slots),
        firings=_per_week(definition, times, now),
        firings_before=None if before is None else _firings_of(before.plan, now),
        busiest_day=_busiest(times, DAY),
        cost_per_day=cost_per_day(definition, now),
        budgets=requests,
        limits=() if token is None else tuple(_checks(runtime, entry, token, now)),
        warnings=(*cautions(definition.trigger, to_datetime(now).year), *_beyond(requests)),
    )


def _answers(runtime: Runtime, uid: str) -> list[Event]:
    """Return the requests for approval of a schedule, and the approvals, newest first."""
    wanted = EventFilter(uid=uid, types=("schedule.approval_requested", "schedule.approved"))
    return [one.event for one in store_of(runtime).ledger.events(wanted, limit=MOST_EVENTS)]


def _last_in_force(
    runtime: Runtime, schedule: Schedule, answers: Sequence[Event]
) -> tuple[Revision | None, int | None]:
    """Return the revision before the first one that was asked for since the last approval, and its approval."""
    first: Event | None = None
    approved: Event | None = None
    for one in answers:
        if one.type == "schedule.approved":
            approved = one
            break
        first = one
    if first is None:
        return None, None
    number = int(str(first.detail["of_revision"])) - 1
    found, _ = store_of(runtime).ledger.revisions(schedule.state.uid, limit=1, before=number + 1)
    is_approval = approved is not None and approved.detail.get("of_revision") == number
    return found[0] if found else None, approved.at if approved is not None and is_approval else None


def _changed_keys(before: Definition, after: Definition) -> list[KeyChange]:
    old, new = answer_to_json(before), answer_to_json(after)
    return [
        KeyChange(one.key, masked(one.before, one.key), masked(one.after, one.key))
        for one in compare_keys(old, new)
    ]


def _notes(schedule: Schedule, slots: Sequence[UpcomingSlot]) -> list[str | None]:
    definition = schedule.definition
    series = series_of(
        definition.trigger,
        zone=definition.zone,
        anchor_at=(schedule.state.anchor_at or 0) // SECOND,
        dst=definition.dst,
    )
    return [describe_dst(series, slot.slot_at // SECOND) for slot in slots]


# -- how often --


def _firings_of(plan: Plan, now: int) -> int:
    state = edit.create(plan, "", now, may_be_past=True).state
    return _per_week(plan.definition, firings(plan, state, now + AHEAD + 1), now)


def _per_week(definition: Definition, times: FiringTimes, now: int) -> int:
    """Return the firings of the next 7 days; where there are very many, as many as there are on average."""
    rate = fires_per_day(definition.trigger, to_datetime(now).year)
    return sum(at > now for at in times.instants) if times.until is None or rate is None else round(rate * 7)


def _busiest(times: FiringTimes, window: int) -> int:
    return max(Counter(at // window for at in times.instants).values(), default=0)


# -- how much --


def _requests(
    schedule: Schedule, shared: Shared, times: FiringTimes, now: int, tokens: dict[str, Token]
) -> Iterator[BudgetRequest]:
    definition = schedule.definition
    rate = fires_per_day(definition.trigger, to_datetime(now).year)
    for budget in definition.budgets:
        kind, name = _named(budget, tokens)
        for usage in usages(shared, budget, now):
            if usage.is_cost:
                assert budget.unit is not None
                a_month = len(times.instants) if rate is None else round(rate * MONTH_DAYS)
                count = _busiest(times, DAY) if usage.limit == "cost_per_day" else a_month
                asked = count * estimate(definition.budgets, budget.unit, shared.costs_of(schedule.state.uid))
            else:
                asked = _busiest(times, WINDOWS[usage.limit])
            yield BudgetRequest(kind, name, usage, asked, budget.unit if usage.is_cost else None)


def _named(budget: Budget, tokens: dict[str, Token]) -> tuple[BudgetKind, str]:
    if budget.key.startswith(OWNER_BUDGET):
        return "owner", budget.key.removeprefix(OWNER_BUDGET)
    if not budget.is_of_token:
        return "group", budget.key.removeprefix(BUDGET)
    token = tokens.get(budget.key.rpartition(":")[2])
    return "token", "a token" if token is None else token.name


def _beyond(requests: Sequence[BudgetRequest]) -> list[str]:
    names = dict.fromkeys(one.name for one in requests if one.exceeds)
    return [f"it asks for more than is left of the budget of {name}" for name in names]


# -- the limits of the token --


def _checks(runtime: Runtime, entry: Entry, token: Token, now: int) -> Iterator[LimitCheck]:
    limits, kind = token.limits, entry.schedule.definition.target.kind
    sentences = {
        "targets": f"target {kind} is allowed",
        "min_interval": f"fires every {describe_seconds(limits.min_interval or 1)} at most",
        "fires_per_day": f"fires {limits.fires_per_day} times a day at most",
        "ttl": f"ends within {_length(limits.ttl or 1)}",
    }
    for name, sentence in sentences.items():
        if (value := getattr(limits, name)) is None:
            continue
        try:
            refuse_beyond(TokenLimits(**{name: value}), entry.schedule.plan, now, entry.created_at)
            yield LimitCheck(name, sentence, True)
        except LimitError as error:
            yield LimitCheck(name, str(error), False)
    if limits.max_schedules is not None:
        count = store_of(runtime).catalogue.count_of_token(token.token_id)
        yield LimitCheck(
            "max_schedules", f"{count} of {limits.max_schedules} schedules", count <= limits.max_schedules
        )


def _length(seconds: int) -> str:
    text = describe_seconds(seconds)
    return text if text[0].isdigit() else f"1 {text}"
