"""The keys of a budget as a file, a token or a call has them, and the values that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everwhen.errors import CostError
from everwhen.model.cost import parse_cost
from everwhen.model.policy import CATCH_UP_SHARE

FIRES = {"fires_per_hour": "per_hour", "fires_per_day": "per_day"}
COSTS = ("cost_per_day", "cost_per_month", "cost_per_run")


def budget_terms(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a Budget that these keys make; None when they limit nothing. Raise CostError.

    >>> budget_terms({"fires_per_day": 200, "cost_per_day": "5 USD"})
    {'per_day': 200, 'cost_per_day': 5000000, 'unit': 'USD'}
    """
    fields: dict[str, Any] = {
        field: given[name] for name, field in FIRES.items() if given.get(name) is not None
    }
    units: dict[str, str] = {}
    for name in COSTS:
        if given.get(name) is not None:
            fields[name], units[name] = _positive(name, given[name])
    if len(set(units.values())) > 1:
        found = ", ".join(f"{name} in {unit}" for name, unit in units.items())
        raise CostError(f"the costs of one budget have one unit, and these have several: {found}")
    if units:
        fields["unit"] = next(iter(units.values()))
    if not fields:
        return None
    if given.get("on_reached") not in (None, "skip"):
        fields["on_reached"] = given["on_reached"]
    share = given.get("catch_up_share")
    if share is not None and share_of(share) != CATCH_UP_SHARE:
        fields["catch_up_share"] = share_of(share)
    return fields


def _positive(name: str, text: Any) -> tuple[int, str]:
    try:
        cost = parse_cost(text)
    except CostError as error:
        raise CostError(f"{name}: {error}") from None
    if not cost.amount:
        raise CostError(f"{name} must be more than 0; leave it out, or pause the schedules")
    return cost.amount, cost.unit


def share_of(value: Any) -> int:
    """Return a share in per cent: `50%`, or the number.

    >>> share_of("25%"), share_of(100)
    (25, 100)
    """
    text = str(value).strip().removesuffix("%").strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or int(text[:9]) > 100:
        raise CostError(f'catch_up_share: "{value}" is not a share of 0% to 100%')
    return int(text)
