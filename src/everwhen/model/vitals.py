"""Counts over a whole database for monitoring: its current condition, and what was decided since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from everwhen.model.instants import SECOND


class Signs(NamedTuple):
    """The condition of a database at one moment. `overdue` is counted up to a bound."""

    schedules: Mapping[str, int]  # by status
    held: Mapping[str, int]  # by reason
    jobs: Mapping[str, int]  # outstanding ones, by status
    breakers: Mapping[str, int]  # by state
    overdue: int
    is_paused: bool
    gathered: Mapping[str, int] = MappingProxyType({})  # skips on rows, in no event yet, by reason
    alerts: Mapping[str, int] = MappingProxyType({})  # open ones, by severity
    undelivered: int = 0  # messages of alerts that are yet to be sent


class FeedDelay(NamedTuple):
    """The open transaction that holds the event feed back. `pid`: None for a prepared one; `age`: in microseconds."""

    pid: int | None
    application: str
    age: int

    @property
    def seconds(self) -> int:
        return self.age // SECOND

    def __str__(self) -> str:
        """Describe it in a sentence.

        >>> print(FeedDelay(4711, "psql", 95_000_000))
        the event feed is delayed: a transaction of psql, pid 4711, has been open for 95s; end it, and the feed goes on
        """
        pid = "" if self.pid is None else f", pid {self.pid}"
        text = f"a transaction of {self.application or 'a program without a name'}{pid}, has been open"
        return f"the event feed is delayed: {text} for {self.seconds}s; end it, and the feed goes on"


class Holder(NamedTuple):
    """An outstanding job that has a place of a limit."""

    job_id: str
    schedule_id: str
    status: str
    node: str | None
    started_at: int | None
    guard_key: str | None
    capacity_key: str | None


class Mark(NamedTuple):
    """The position up to which was counted; its numbers have a meaning for one kind of database only."""

    events: int
    jobs: int


class Tally(NamedTuple):
    """What was committed between two marks: slots by the type and reason of their events, firings by origin."""

    slots: Mapping[tuple[str, str], int]
    fired: Mapping[str, int]
    mark: Mark


class Crowd(NamedTuple):
    """Schedules in the same condition: how many there are, and how many skips their rows count."""

    status: str
    held_reason: str | None
    skip_reason: str | None
    schedules: int
    skips: int


def counted_by(crowds: Iterable[Crowd], word: str, number: str = "schedules") -> dict[str, int]:
    """Add up the counts by one field of each crowd, where it is set.

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
    """Compute the condition of a database from what was read of it in one snapshot."""
    return Signs(
        schedules=counted_by(crowds, "status"),
        held=counted_by(crowds, "held_reason"),
        jobs=jobs,
        breakers=breakers,
        overdue=overdue,
        is_paused=is_paused,
        gathered=counted_by(crowds, "skip_reason", "skips"),
    )


# The copy of an installation from one database to another: the mark on its source, and what the target
# received.


class Move(NamedTuple):
    """The mark on a source: which copy is being made, or was made, to which address (shown without its password)."""

    copy_id: str
    to: str
    state: Literal["moving", "moved"]
    at: int


class ReplacedText(NamedTuple):
    """A text with characters that the target cannot hold (NUL, invalid UTF-8), each replaced by U+FFFD."""

    table: str
    key: str
    column: str


class Received(NamedTuple):
    """The rows of this copy in the target. `is_new` is False where the copy had arrived earlier."""

    rows: Mapping[str, int]
    replaced: Sequence[ReplacedText]
    replaced_count: int
    foreign: Sequence[str]
    is_new: bool
