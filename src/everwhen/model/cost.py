"""What a run uses up: an amount of one unit, such as `0.42 USD` or `2000000 TOKENS`. Units are never converted.

Amounts are whole millionths of their unit, so that sums are exact on every database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, NamedTuple

from everwhen.errors import CostError, shown

MILLION = 1_000_000
MOST = 10**12 * MILLION  # of one amount
MOST_COUNTED = 1 << 62  # of a sum: a run may report anything
REPORTS_KEPT = 20
UNMEASURED_AFTER = 10  # runs in a row without a report

_UNIT = re.compile(r"[A-Z]{3,12}")
_COST = re.compile(r"\s*(\d{1,13}(?:\.\d{1,18})?)\s+([A-Z]{3,12})\s*", re.ASCII)
_EXPECTED = "a number and a unit of 3 to 12 capitals, such as 0.42 USD"


class Cost(NamedTuple):
    """An amount, in millionths, of one unit."""

    amount: int
    unit: str

    def __str__(self) -> str:
        return f"{amount_text(self.amount)} {self.unit}"


# Of a run that found nothing to do: it gives back what it had reserved, and its cost says nothing about that of others.
NOTHING = Cost(0, "")


def parse_cost(text: Any) -> Cost:
    """Parse `0.42 USD`; raise CostError for anything else.

    >>> parse_cost("0.42 USD")
    Cost(amount=420000, unit='USD')
    """
    found = _COST.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise CostError(f'"{shown(str(text))}" is not {_EXPECTED}')
    return _cost(Decimal(found[1]), found[2])


def cost_of(value: Any) -> Cost:
    """Return a cost that a run reports: `0.42 USD`, or an object with amount and currency; raise CostError.

    >>> str(cost_of({"amount": 0.42, "currency": "USD"}))
    '0.42 USD'
    """
    if isinstance(value, Cost):
        return value
    if not isinstance(value, Mapping):
        return parse_cost(value)
    amount, unit = value.get("amount"), value.get("currency")
    if not isinstance(unit, str) or not _UNIT.fullmatch(unit):
        raise CostError(f'currency "{shown(str(unit))}" is not a unit of 3 to 12 capitals, such as USD')
    if isinstance(amount, bool) or not isinstance(amount, int | float | str | Decimal):
        raise CostError(f'amount "{shown(str(amount))}" is not a number')
    try:
        return _cost(Decimal(str(amount)), unit)
    except InvalidOperation:
        raise CostError(f'amount "{shown(str(amount))}" is not a number') from None


def _cost(number: Decimal, unit: str) -> Cost:
    if not number.is_finite() or not 0 <= number <= MOST // MILLION:
        raise CostError(f"an amount is 0 to {MOST // MILLION:,} {unit}")
    return Cost(int((number * MILLION).to_integral_value(ROUND_HALF_UP)), unit)


def amount_text(amount: int) -> str:
    """Return an amount in its unit.

    >>> amount_text(420_000), amount_text(5_000_000), amount_text(1)
    ('0.42', '5', '0.000001')
    """
    whole, part = divmod(amount, MILLION)
    return f"{whole}.{part:06}".rstrip("0").rstrip(".")


def amount_number(amount: int) -> float | int:
    """Return an amount in its unit as a JSON number.

    >>> amount_number(420_000), amount_number(5_000_000)
    (0.42, 5)
    """
    return amount // MILLION if amount % MILLION == 0 else float(amount_text(amount))


# What a job has reserved, as its row holds it: the amount and the unit for every budget, by key.


Reserved = dict[str, Cost]


def reserved_text(reserved: Reserved) -> str | None:
    """Return the text for a job's row; None when nothing is reserved."""
    return json.dumps(reserved, separators=(",", ":")) if reserved else None


def reserved_in(text: str | None) -> Reserved:
    return {} if text is None else {key: Cost(*cost) for key, cost in json.loads(text).items()}


# What the runs of a schedule have reported.


class ScheduleCosts(NamedTuple):
    """The last reports of a schedule, oldest first, and how many runs in a row have reported nothing since."""

    uid: str
    reports: tuple[Cost, ...] = ()
    unreported: int = 0

    def reported(self, cost: Cost) -> ScheduleCosts:
        return ScheduleCosts(self.uid, (*self.reports, cost)[-REPORTS_KEPT:])

    def not_reported(self) -> ScheduleCosts:
        return self._replace(unreported=min(self.unreported + 1, MOST_COUNTED))

    def mean(self, unit: str) -> int | None:
        """Return the mean of the reports in a unit, rounded up; None when there are none."""
        amounts = [cost.amount for cost in self.reports if cost.unit == unit]
        return -(-sum(amounts) // len(amounts)) if amounts else None

    @property
    def row(self) -> tuple[str, str, int]:
        return self.uid, json.dumps(self.reports, separators=(",", ":")), self.unreported


def costs_of_row(row: Iterable[Any]) -> ScheduleCosts:
    uid, reports, unreported = row
    return ScheduleCosts(uid, tuple(Cost(*cost) for cost in json.loads(reports)), unreported)
