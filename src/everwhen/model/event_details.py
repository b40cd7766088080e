"""What the values in the detail of an event mean, for programs that read them.

Details store instants as microseconds and amounts as millionths, with which the ledger counts. Every surface shows
instants as text, and amounts in their unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from everwhen.model.cost import amount_number

# The instants in details, beside all that end in `_at`.
_INSTANTS = frozenset(("expected_by", "first", "from", "last", "to", "until", "window"))
_AMOUNTS = frozenset(("estimated", "most", "used"))


def readable_details(
    detail: Mapping[str, object], instant_text: Callable[[int], str | None]
) -> dict[str, object]:
    """Return a detail whose instants are text and whose amounts are in their unit.

    >>> readable_details({"refill_at": 0, "used": 1_800_000, "unit": "USD", "job_id": None}, lambda _: "1970")
    {'refill_at': '1970', 'used': 1.8, 'unit': 'USD', 'job_id': None}
    >>> readable_details({"used": 8, "is_last": True}, lambda _: "1970")
    {'used': 8, 'is_last': True}
    """
    has_unit = isinstance(detail.get("unit"), str)

    def readable(key: str, value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        if key in _INSTANTS or key.endswith("_at"):
            return instant_text(value)
        return amount_number(value) if has_unit and key in _AMOUNTS else value

    return {key: readable(key, value) for key, value in detail.items()}
