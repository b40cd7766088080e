"""How long the record is kept, and the walk over what may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from everwhen.model.instants import DAY

Kept = Literal["output", "jobs", "audit", "breaker_transitions", "messages", "nodes"]


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages beyond which things may go; what is outstanding never does."""

    jobs: int = 30 * DAY
    audit: int = 90 * DAY
    breaker_transitions: int = 90 * DAY
    messages: int = 30 * DAY
    output: int = 7 * DAY


class Cutoffs(NamedTuple):
    """Instants before which things may go."""

    jobs: int
    audit: int
    breaker_transitions: int
    messages: int
    output: int


class Place(NamedTuple):
    """Where a pass stands: in which table, behind which of its rows."""

    what: Kept
    after: int = 0


FRONT = Place("output")
ORDER: tuple[Kept, ...] = ("output", "jobs", "audit", "breaker_transitions", "messages", "nodes")


class Portion(NamedTuple):
    """What one step of a pass did: how many rows went (or would go), and where the next begins, if there is one."""

    what: Kept
    rows: int
    next: Place | None


def place_after(place: Place, last: int | None) -> Place | None:
    """The next place: behind that row, or, where the table is done (None), the next table's front."""
    if last is not None:
        return Place(place.what, last)
    following = ORDER.index(place.what) + 1
    return Place(ORDER[following]) if following < len(ORDER) else None
