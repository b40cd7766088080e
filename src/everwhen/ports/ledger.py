"""Reads of the ledger: jobs, events, breaker transitions, and whole histories for the checker.

Nothing here writes. Lists are newest first, in pages: `before` is the last number of the previous page.
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
    """A filter for jobs: all conditions that are set must hold.

    `since` (inclusive) and `until` (exclusive) bound the slots; `enqueued_since` and `enqueued_until` likewise.
    """

    uid: str | None = None
    statuses: Collection[JobStatus] = ()
    origins: Collection[Origin] = ()
    slot_at: int | None = None
    since: int | None = None
    until: int | None = None
    owner: str | None = None  # of their schedules, as long as these exist
    group: str | None = None
    enqueued_since: int | None = None
    enqueued_until: int | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs; `total` is counted up to a bound. `next_before`: where the next page begins, if any."""

    jobs: list[Job]
    total: int = 0
    is_approximate: bool = False
    next_before: int | None = None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter for events: all conditions that are set must hold.

    `since` is inclusive, `until` exclusive, both by time of recording; `slots_until` excludes later slots.
    """

    uid: str | None = None
    types: Collection[EventType] = ()
    job_id: str | None = None
    owner: str | None = None
    since: int | None = None
    until: int | None = None
    slots_until: int | None = None


class SpanCount(NamedTuple):
    """The number of jobs of one status with slots in one bucket of a span; buckets (`stretch`) are numbered from 0."""

    stretch: int
    status: JobStatus
    jobs: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals: schedules by status, and outstanding jobs by status."""

    schedules: dict[Status, int]
    jobs: dict[JobStatus, int]
    held: int


class Ledger(Protocol):
    """The record of what happened, in order. Each method reads one snapshot."""

    def history(self, uids: Sequence[str] | None = None) -> AbstractContextManager[History]:
        """Yield whole histories, one by one, inside the block; None: of all schedules, deleted ones included."""
        ...

    def uid_of(self, schedule_id: str, at: int = FOR_EVER) -> str | None:
        """Return the uid behind an id, deleted schedules included; a uid is returned as it is.

        Of several schedules with the id, it is the newest that had begun by `at`, else the first one.
        """
        ...

    def job(self, job_id: str) -> Job | None:
        """Return one job."""
        ...

    def output(self, job_id: str) -> list[OutputPiece]:
        """Return the stored output of a job, by attempt, stream and position."""
        ...

    def jobs(self, wanted: JobFilter, *, limit: int, before: int | None = None) -> list[Job]:
        """Return jobs, newest first; `before` is a row_id."""
        ...

    def job_page(
        self, wanted: JobFilter, *, limit: int, before: int | None = None, offset: int = 0
    ) -> JobPage:
        """Return a page of jobs for people, newest first, in bounded time: it may have fewer than `limit`."""
        ...

    def jobs_between(self, since: int, until: int, *, owner: str | None, limit: int) -> list[Job]:
        """Return jobs with a slot in [since, until), the earliest first."""
        ...

    def job_counts(self, since: int, until: int, *, owner: str | None, width: int) -> list[SpanCount]:
        """Count the jobs of `jobs_between` by status, for each bucket of that width."""
        ...

    def events(self, wanted: EventFilter, *, limit: int, before: int | None = None) -> list[Recorded]:
        """Return events, newest first; `before` is an id."""
        ...

    def count_events(self, wanted: EventFilter, *, most: int) -> int:
        """Return how many events match; counting stops at `most`."""
        ...

    def events_after(self, event_id: int, *, limit: int) -> list[Recorded]:
        """Return events in commit order, for streams (L4)."""
        ...

    def last_event_id(self) -> int:
        """Return the last event in commit order, behind which a stream starts without a gap; 0 if there is none."""
        ...

    def events_of_slot(self, uid: str, slot_at: int) -> list[Recorded]:
        """Return the events about one slot, including those that count it in a range."""
        ...

    def breaker(self, key: str) -> Breaker:
        """Return one breaker as it is now; closed when it never changed."""
        ...

    def breakers(self) -> list[Breaker]:
        """Return every breaker that ever changed, by key."""
        ...

    def transitions(self, key: str, *, limit: int) -> list[Transition]:
        """Return the transitions of a breaker, newest first."""
        ...

    def counts(self) -> Counts:
        """Return the current totals."""
        ...
