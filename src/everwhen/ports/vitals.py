"""What is counted about a whole database, for those who watch over it: how it stands, and what was decided since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol


class Signs(NamedTuple):
    """How a database stands at one moment. `overdue` is counted up to a bound."""

    schedules: Mapping[str, int]  # by status
    held: Mapping[str, int]  # by reason
    jobs: Mapping[str, int]  # those outstanding, by status
    breakers: Mapping[str, int]  # by state
    overdue: int
    is_paused: bool
    gathered: Mapping[str, int] = MappingProxyType(
        {}
    )  # skips that are on rows and in no event yet (L5), by reason


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


class Crowd(NamedTuple):
    """Schedules that stand alike: how many they are, and how many skips are gathered on their rows."""

    status: str
    held_reason: str | None
    skip_reason: str | None
    schedules: int
    skips: int


def counted_by(crowds: Iterable[Crowd], word: str, number: str = "schedules") -> dict[str, int]:
    """Counts by one of the fields of each crowd, where it has one.

    >>> crowds = [Crowd("active", None, None, 3, 0), Crowd("active", "at_capacity", "budget", 1, 7)]
    >>> counted_by(crowds, "status"), counted_by(crowds, "skip_reason", "skips")
    ({'active': 4}, {'budget': 7})
    """
    found: dict[str, int] = {}
    for crowd in crowds:
        key = getattr(crowd, word)
        if key is not None:
            found[key] = found.get(key, 0) + getattr(crowd, number)
    return found


def signs_of(
    crowds: Sequence[Crowd],
    jobs: Mapping[str, int],
    breakers: Mapping[str, int],
    overdue: int,
    *,
    is_paused: bool,
) -> Signs:
    """How a database stands, from what was read of it in one snapshot."""
    held, gathered = counted_by(crowds, "held_reason"), counted_by(crowds, "skip_reason", "skips")
    return Signs(counted_by(crowds, "status"), held, jobs, breakers, overdue, is_paused, gathered)
