"""What is counted about a whole database, for those who watch over it: how it stands, and what was decided since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol


class Signs(NamedTuple):
    """How a database stands at one moment. `overdue` is counted up to a bound."""

    schedules: Mapping[str, int]  # by status
    held: Mapping[str, int]  # by reason
    jobs: Mapping[str, int]  # those outstanding, by status
    breakers: Mapping[str, int]  # by state
    overdue: int
    is_paused: bool


class Mark(NamedTuple):
    """Up to where was counted, in the words of one kind of database."""

    events: int
    jobs: int


class Tally(NamedTuple):
    """What was committed between two marks: slots by the type and reason of their events, firings by origin."""

    slots: Mapping[tuple[str, str], int]
    fired: Mapping[str, int]
    mark: Mark


class Vitals(Protocol):
    """Counts; each verb reads one snapshot, and none is asked more often than somebody looks."""

    def signs(self, overdue_since: int, *, most_overdue: int) -> Signs:
        """How it stands; overdue is what should have fired before that instant."""
        ...

    def mark(self) -> Mark:
        """Here counting may begin."""
        ...

    def tally(self, since: Mark) -> Tally:
        """What was committed since; tallies that follow each other count each event and each firing once."""
        ...


def counted_by(rows: Iterable[tuple[str | None, str | None, int]], column: int) -> dict[str, int]:
    """Counts by one of the two words of each row, where it has one.

    >>> counted_by([("active", None, 3), ("active", "at_capacity", 1)], 0)
    {'active': 4}
    """
    found: dict[str, int] = {}
    for row in rows:
        word = row[column]
        if isinstance(word, str):
            found[word] = found.get(word, 0) + row[2]
    return found
