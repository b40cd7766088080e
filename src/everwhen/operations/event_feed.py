"""The event feed in the order of commits: the events on record, and firings, which are read from the jobs.

Events and jobs are two sequences, each in the order of its commits; the feed merges them by their instants. A
position is therefore a number in each of them: a reader that continues from a position misses nothing and gets
nothing twice. Holds are on the rows of schedules and have no sequence, so the feed does not contain them.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, get_args

from everwhen.model.events import (
    Derived,
    DerivedType,
    Event,
    EventType,
    Progress,
    event_of_end,
    event_of_firing,
    event_of_start,
)
from everwhen.model.history import Recorded
from everwhen.model.message import Message
from everwhen.model.pause import actor_in, name_in
from everwhen.operations.access import Caller
from everwhen.operations.labels import LabelsByUid, labels_of
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

FeedEntry = Recorded | Derived
EVENTS, JOBS = 0, 1  # the two sequences
RECORDED = frozenset(get_args(EventType))
TYPES: tuple[str, ...] = (*get_args(EventType), *get_args(DerivedType))


def facts_of(entry: FeedEntry) -> Event | Derived:
    return entry.event if isinstance(entry, Recorded) else entry


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter: all given conditions must hold; one of several types is enough."""

    types: frozenset[str] = frozenset()
    uid: str | None = None
    uids: Collection[str] = ()  # one of these
    job_id: str | None = None
    owner: str | None = None
    since: int | None = None
    until: int | None = None

    def wants(self, *types: str) -> bool:
        return not self.types or not self.types.isdisjoint(types)

    def is_met(self, entry: FeedEntry) -> bool:
        facts = facts_of(entry)
        return (
            self.wants(facts.type)
            and self.uid in (None, facts.uid)
            and (not self.uids or facts.uid in self.uids)
            and self.job_id in (None, facts.job_id)
            and self.owner in (None, facts.owner)
            and (self.since is None or facts.at >= self.since)
            and (self.until is None or facts.at < self.until)
        )


class FeedItem(NamedTuple):
    """An entry of the feed, and its number in its sequence."""

    sequence: int
    number: int
    entry: FeedEntry


class FeedCursor(NamedTuple):
    """A position in the feed: the last event and the last job that were delivered."""

    event: int
    job: int

    def behind(self, item: FeedItem) -> FeedCursor:
        return (
            FeedCursor(item.number, self.job)
            if item.sequence == EVENTS
            else FeedCursor(self.event, item.number)
        )


def feed_after(runtime: Runtime, place: FeedCursor, *, limit: int) -> list[FeedItem]:
    """Return what was committed after a position."""
    store = store_of(runtime)
    events = [FeedItem(EVENTS, one.id, one) for one in store.ledger.events_after(place.event, limit=limit)]
    fired = store.firings.after(place.job, limit=limit)
    jobs = [FeedItem(JOBS, one.row_id, event_of_firing(one)) for one in fired]
    return list(islice(heapq.merge(events, jobs, key=lambda item: facts_of(item.entry).at), limit))


def last_place(runtime: Runtime, *, patience: float = 0.0) -> FeedCursor:
    """Return the position after everything that was committed; `patience` is that of `Firings.last`."""
    store = store_of(runtime)
    return FeedCursor(store.ledger.last_event_id(), store.firings.last(patience))


def place_of(runtime: Runtime, numbers: Sequence[int]) -> FeedCursor:
    """Return the position with these numbers; where the second one is missing, it is behind every job."""
    return FeedCursor(numbers[0], numbers[1] if len(numbers) > 1 else store_of(runtime).firings.last())


def messages_after(runtime: Runtime, message_id: int, *, limit: int) -> Sequence[Message]:
    """Return the messages that were committed after one, in that order."""
    return store_of(runtime).messages.after(message_id, limit=limit)


def last_message_id(runtime: Runtime) -> int:
    """Return the last message, behind which a stream starts without a gap; 0 if there is none."""
    return store_of(runtime).messages.last_id()


def list_after(
    runtime: Runtime,
    wanted: Wanted,
    caller: Caller,
    *,
    schedule_id: str | None = None,
    place: FeedCursor,
    limit: int,
) -> tuple[list[FeedEntry], FeedCursor]:
    """Return the visible entries after a position, the oldest first, and the position up to which entries were read.

    The list may be empty although there are more entries after that position.
    """
    visible = narrowed(runtime, wanted, caller, schedule_id)
    looked = feed_after(runtime, place, limit=limit)
    for item in looked:
        place = place.behind(item)
    return [item.entry for item in looked if visible is not None and visible.is_met(item.entry)], place


def narrowed(runtime: Runtime, wanted: Wanted, caller: Caller, schedule_id: str | None) -> Wanted | None:
    """Narrow a filter to what the caller may see, also for a deleted schedule; None if that is nothing."""
    if schedule_id is not None:
        wanted = replace(wanted, uid=store_of(runtime).ledger.uid_of(schedule_id))
        if wanted.uid is None:
            return None
    owner = caller.token.owner
    if owner is not None and wanted.owner not in (None, owner):
        return None
    return replace(wanted, owner=owner or wanted.owner)


class EventNames(NamedTuple):
    """The names that events need: of their schedules, by uid, and of those who did something, by what is recorded."""

    labels: LabelsByUid
    actors: Mapping[str, str]


def names_of_events(runtime: Runtime, entries: Iterable[FeedEntry]) -> EventNames:
    """Return the names of all schedules, tokens, users and programs that these events mention."""
    found = [facts_of(entry) for entry in entries]
    labels = labels_of(runtime, (facts.uid for facts in found))
    actors = {actor for facts in found if isinstance(facts, Event) and (actor := actor_in(facts)) is not None}
    names = {actor: name for actor in actors if (name := name_in(actor)) is not None and name != actor}
    ids = {actor.removeprefix("token:") for actor in actors - names.keys() if actor.startswith("token:")}
    tokens = store_of(runtime).tokens.some(ids) if ids else ()
    return EventNames(labels, names | {f"token:{token.token_id}": token.name for token in tokens})


# Starts and ends of jobs, computed only while a client watches: jobs pay for no index and no row for them.
#
# A watch keeps the jobs that have not ended, and polls each of them until it has. So it misses none of their ends,
# whatever the order of commits, and the cost of a poll is bounded by the number of outstanding jobs.


PORTION = 1_000
MOST_FOLLOWED = 20_000  # jobs; with more, the ends of some of them are not reported
MOST_NEW = 20_000  # jobs since the last poll; with more, that was long ago, and the watch starts again


class JobWatch:
    """The view of one reader. Not for two threads at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._firings = store_of(runtime).firings
        self._row: int | None = None  # the last job that was read
        self._reported: dict[int, int] = {}  # by row: the reported starts of each job that has not ended

    def look(self) -> list[Derived]:
        """Return the starts and ends since the last call; nothing at the first call."""
        if self._row is None:
            self._begin()
            return []
        found = list(self._moves(self._firings.progress_of(self._reported.keys())))
        for job in self._new():
            self._reported.setdefault(job.row_id, 0)
            found += self._moves([job])
        while len(self._reported) > MOST_FOLLOWED:
            del self._reported[next(iter(self._reported))]
        return sorted(found, key=lambda event: event.at)

    def _begin(self) -> None:
        self._row = self._firings.last()
        outstanding = self._firings.outstanding(limit=MOST_FOLLOWED)
        self._reported = {job.row_id: _starts(job) for job in outstanding}

    def _new(self) -> list[Progress]:
        assert self._row is not None
        found: list[Progress] = []
        while len(found) <= MOST_NEW:
            page = self._firings.progress_after(self._row, limit=PORTION)
            found += (job for job in page if job.row_id not in self._reported)
            if not page:
                return found
            self._row = page[-1].row_id
        self._begin()
        return []

    def _moves(self, jobs: list[Progress]) -> Iterator[Derived]:
        for job in jobs:
            starts = _starts(job)
            if starts > self._reported[job.row_id]:
                self._reported[job.row_id] = starts
                yield from filter(None, [event_of_start(job)])
            if job.is_over:
                del self._reported[job.row_id]
                yield from filter(None, [event_of_end(job)])


def _starts(job: Progress) -> int:
    return 0 if job.started_at is None else job.attempt
