"""Requests for approval as they are answered."""

from __future__ import annotations

from everwhen.model.cost import amount_number
from everwhen.model.spending import BudgetKind, BudgetLevel, LimitName
from everwhen.operations import reviews
from everwhen.views.jobs import JobCost
from everwhen.views.shape import Object, View, When, each, field
from everwhen.views.slots import PreviewSlot
from everwhen.views.system import KeyChange


def _amount(one: reviews.BudgetRequest, amount: int) -> float:
    return amount_number(amount) if one.usage.is_cost else amount


class BudgetRequest(View):
    """What a revision would take of one limit of a budget, in the busiest window of the next 7 days."""

    kind: BudgetKind
    name: str
    limit: LimitName = field("usage.limit")
    currency: str | None = field("unit")
    used: float = field(lambda one: _amount(one, one.usage.used), about="In the current window.")
    estimated: float | None = field(
        lambda one: amount_number(one.usage.estimated) if one.usage.is_cost else None,
        about="Of a cost: the estimates in the used amount.",
    )
    asked: float = field(lambda one: _amount(one, one.asked))
    most: float = field(lambda one: _amount(one, one.usage.most))
    level: BudgetLevel = field(lambda one: one.usage.level or "ok", about="Without what is asked for.")
    refill_at: When = field("usage.ends_at")


class LimitCheck(View):
    """One limit of the token that asked."""

    limit: str = field(examples=["min_interval"])
    sentence: str = field(examples=["fires every hour at most"])
    is_met: bool


class Review(View):
    """What a person has to know before they approve or decline a revision."""

    schedule_id: str
    revision: int
    sentence: str = field(about="The trigger in words.")
    asked_at: When
    asked_by: str | None = field(about="The token that asked, as the audit names it.")
    token_name: str | None
    before_revision: int | None = field("before", about="The revision that fired until then.")
    approved_at: When | None = field(about="When that revision was approved; null: it needed no approval.")
    keys: list[KeyChange] = field(via=each(KeyChange.of), about="What differs from that revision.")
    items: list[PreviewSlot] = field(
        lambda found: [
            PreviewSlot.of(slot, note=note) for slot, note in zip(found.slots, found.notes, strict=True)
        ],
        about="The next slots, if it is approved now.",
    )
    firings_per_week: int = field("firings", about="In the next 7 days, if it is approved now.")
    firings_per_week_before: int | None = field(
        "firings_before", about="Those of the revision that fired until then."
    )
    busiest_day: int = field(about="The most firings of one of these days, in UTC.")
    cost_per_day: JobCost | None = field(
        via=lambda cost: JobCost.of_cost(cost.mean),
        about="On average, when every run costs as much as it may (cost_per_run); null: not known.",
    )
    most_cost_per_day: JobCost | None = field(
        "cost_per_day",
        via=lambda cost: JobCost.of_cost(cost.most),
        about="On its busiest day in UTC, with all retries, when every run costs as much as it may; null: not known.",
    )
    budgets: list[BudgetRequest] = field(via=each(BudgetRequest.of))
    limits: list[LimitCheck] = field(via=each(LimitCheck.of), about="Limits of the token that asked.")
    warnings: list[str] = field(via=list, about="What a person should look at.")


def review_to_json(found: reviews.Review) -> Object:
    return Review.of(found)
