"""What the two databases implement with statements of their own: the ledger, the feed of jobs, and the counts.

Nothing here writes. Lists are newest first, in pages: `before` is the last number of the previous page.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from everwhen.model.breaker import Breaker, Transition
from everwhen.model.derived import Firing, Hold, Progress
from everwhen.model.history import History, Recorded
from everwhen.model.job import Job
from everwhen.model.output import OutputPiece
from everwhen.model.queries import Counts, EventFilter, JobFilter, JobPage, SpanCount
from everwhen.model.shared import FOR_EVER
from everwhen.model.vitals import Mark, Signs, Tally


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


class Firings(Protocol):
    """Reads of jobs and held slots. No method writes, and every query is bounded."""

    def after(self, row_id: int, *, limit: int) -> list[Firing]:
        """Return jobs behind a row, by row_id; never one that another may still precede."""
        ...

    def last(self) -> int:
        """Return the row behind which a stream that starts now begins; 0 when there is none."""
        ...

    def progress_after(self, row_id: int, *, limit: int) -> list[Progress]:
        """Return the progress of the jobs behind a row, by row_id; the same jobs as `after`."""
        ...

    def progress_of(self, row_ids: Collection[int]) -> list[Progress]:
        """Return the progress of these jobs, without those that no longer exist."""
        ...

    def outstanding(self, *, limit: int) -> list[Progress]:
        """Return jobs that are queued or running, in no order; at most `limit` of them."""
        ...

    def owners(self, uids: Collection[str]) -> dict[str, str | None]:
        """Return the owners of these schedules, without those that no longer exist."""
        ...

    def holds(self, *, uid: str | None = None, owner: str | None = None, limit: int) -> list[Hold]:
        """Return held slots, in no order; at most `limit` of them."""
        ...


class Vitals(Protocol):
    """Counts. Each method reads one snapshot, and is called only when a client asks for the figures."""

    def signs(self, overdue_since: int, *, most_overdue: int) -> Signs:
        """Return the current condition; overdue are slots that should have fired before that instant."""
        ...

    def mark(self) -> Mark:
        """Return the current position, at which counting may begin."""
        ...

    def tally(self, since: Mark) -> Tally:
        """Count what was committed since; consecutive tallies count each event and each firing once."""
        ...
