"""The ledger, to be read: jobs, events, breaker transitions, and whole histories for the checker.

Nothing here writes. Lists are read newest first, in pages: `before` is the last number of the page before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from everwhen.model.breaker import Breaker, Transition
from everwhen.model.events import EventType
from everwhen.model.history import History, Recorded
from everwhen.model.job import Job, JobStatus, Origin
from everwhen.model.output import OutputPiece
from everwhen.model.schedule import Status
from everwhen.model.shared import FOR_EVER


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs: all that are given must hold. Slots from `since` on and before `until`; enqueued likewise."""

    uid: str | None = None
    statuses: Collection[JobStatus] = ()
    origins: Collection[Origin] = ()
    slot_at: int | None = None
    since: int | None = None
    until: int | None = None
    owner: str | None = None  # of their schedules, as long as these are there
    group: str | None = None
    enqueued_since: int | None = None
    enqueued_until: int | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some of many jobs; `total` is counted up to a bound. `next_before`: where the next page goes on, if any does."""

    jobs: list[Job]
    total: int = 0
    is_approximate: bool = False
    next_before: int | None = None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events: all that are given must hold. Recorded from `since` on and before `until`; of slots before
    `slots_until`."""

    uid: str | None = None
    types: Collection[EventType] = ()
    job_id: str | None = None
    owner: str | None = None
    since: int | None = None
    until: int | None = None
    slots_until: int | None = None


class SpanCount(NamedTuple):
    """How many jobs of one status have their slots in one stretch of a span, which are numbered from 0."""

    stretch: int
    status: JobStatus
    jobs: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is: schedules by status, and outstanding jobs by theirs."""

    schedules: dict[Status, int]
    jobs: dict[JobStatus, int]
    held: int


class Ledger(Protocol):
    """What happened, in order. Each verb reads one snapshot."""

    def history(self, uids: Sequence[str] | None = None) -> AbstractContextManager[History]:
        """Whole lives, handed out one by one within the block; None: all, also of deleted schedules."""
        ...

    def uid_of(self, schedule_id: str, at: int = FOR_EVER) -> str | None:
        """The uid behind an id, also when it is deleted: of the newest that had begun by then, else of the first that
        had it; a uid answers itself."""
        ...

    def job(self, job_id: str) -> Job | None:
        """One job."""
        ...

    def output(self, job_id: str) -> list[OutputPiece]:
        """What is kept of a job's output, by attempt, stream and position."""
        ...

    def jobs(self, wanted: JobFilter, *, limit: int, before: int | None = None) -> list[Job]:
        """Jobs, newest first; `before` is a row_id."""
        ...

    def job_page(
        self, wanted: JobFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> JobPage:
        """Jobs as people look through them, newest first, in bounded time: a page may have fewer than `limit`."""
        ...

    def jobs_between(self, since: int, until: int, *, owner: str | None, limit: int) -> list[Job]:
        """Jobs with a slot in [since, until), the earliest first."""
        ...

    def job_counts(self, since: int, until: int, *, owner: str | None, width: int) -> list[SpanCount]:
        """The same counted: how many of which status in each stretch of that width."""
        ...

    def events(self, wanted: EventFilter, *, limit: int, before: int | None = None) -> list[Recorded]:
        """Events, newest first; `before` is an id."""
        ...

    def count_events(self, wanted: EventFilter, *, most: int) -> int:
        """How many there are; counting ends at `most`."""
        ...

    def events_after(self, event_id: int, *, limit: int) -> list[Recorded]:
        """Events in commit order, for streams (L4)."""
        ...

    def last_event_id(self) -> int:
        """The last event in commit order, after which a stream begins that has missed nothing; 0 when there is none."""
        ...

    def events_of_slot(self, uid: str, slot_at: int) -> list[Recorded]:
        """What became of one slot, as far as it has events, those that count it in a range included."""
        ...

    def breaker(self, key: str) -> Breaker:
        """One breaker as it stands; closed when it never moved."""
        ...

    def breakers(self) -> list[Breaker]:
        """Every breaker that ever moved, by key."""
        ...

    def transitions(self, key: str, *, limit: int) -> list[Transition]:
        """The changes of a breaker, newest first."""
        ...

    def counts(self) -> Counts:
        """How much there is now."""
        ...
