"""Retention: how long the record is kept, and the order in which a pass deletes old rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from everwhen.model.instants import DAY

Kept = Literal[
    "output",
    "jobs",
    "audit",
    "breaker_transitions",
    "messages",
    "requests",
    "listeners",
    "alerts",
    "deliveries",
    "nodes",
]


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages after which rows may be deleted; outstanding jobs are never deleted."""

    jobs: int = 30 * DAY
    audit: int = 90 * DAY
    breaker_transitions: int = 90 * DAY
    messages: int = 30 * DAY
    output: int = 7 * DAY
    alerts: int = 90 * DAY
    deliveries: int = 30 * DAY


class Cutoffs(NamedTuple):
    """Instants before which rows may be deleted."""

    jobs: int
    audit: int
    breaker_transitions: int
    messages: int
    output: int
    requests: int = 0
    listeners: int = 0
    alerts: int = 0
    deliveries: int = 0


class RetentionPosition(NamedTuple):
    """The position of a pass: the table, and the row after which it continues."""

    what: Kept
    after: int = 0


PASS_START = RetentionPosition("output")
ORDER: tuple[Kept, ...] = get_args(Kept)
LISTENERS_KEPT = 30 * DAY  # at least: the cursor of a name that nobody uses


class Portion(NamedTuple):
    """The result of one step of a pass: how many rows it deleted (or would delete), and where the next step begins.

    `examined` bounds the rows that it looked at, `seconds` is how long it kept the writer.
    """

    what: Kept
    rows: int
    next: RetentionPosition | None
    examined: int = 0
    seconds: float = 0.0


def place_after(place: RetentionPosition, last: int | None) -> RetentionPosition | None:
    """Return the next place: after the row `last`, or the start of the next table when this one is finished (None)."""
    if last is not None:
        return RetentionPosition(place.what, last)
    following = ORDER.index(place.what) + 1
    return RetentionPosition(ORDER[following]) if following < len(ORDER) else None
