"""What happened, in the order of commits: the events on record, and the firings beside them (L2, L4).

Events and jobs are two sequences, each in the order of its commits; what is told interleaves them by their instants. A
place is therefore a number in each of them, and whoever goes on from a place misses nothing and hears nothing twice.
Holds stand on the schedules' rows and have no sequence, so they have no place here.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, get_args

from everwhen.model.derived import Derived, DerivedType, event_of_firing
from everwhen.model.events import Event, EventType
from everwhen.model.history import Recorded
from everwhen.operations.submissions import Caller
from everwhen.ports.runtime import Runtime

FeedEntry = Recorded | Derived
EVENTS, JOBS = 0, 1  # the two sequences
RECORDED = frozenset(get_args(EventType))
TYPES: tuple[str, ...] = (*get_args(EventType), *get_args(DerivedType))


def facts_of(entry: FeedEntry) -> Event | Derived:
    return entry.event if isinstance(entry, Recorded) else entry


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for: all that is given must hold; of several types, one."""

    types: frozenset[str] = frozenset()
    uid: str | None = None
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
            and self.job_id in (None, facts.job_id)
            and self.owner in (None, facts.owner)
            and (self.since is None or facts.at >= self.since)
            and (self.until is None or facts.at < self.until)
        )


class FeedItem(NamedTuple):
    """Something that happened, and its number in its sequence."""

    sequence: int
    number: int
    entry: FeedEntry


class Place(NamedTuple):
    """The last event and the last job that were told."""

    event: int
    job: int

    def behind(self, item: FeedItem) -> Place:
        return Place(item.number, self.job) if item.sequence == EVENTS else Place(self.event, item.number)


def feed_after(runtime: Runtime, place: Place, *, limit: int) -> list[FeedItem]:
    """What was committed behind a place."""
    events = [FeedItem(EVENTS, one.id, one) for one in runtime.ledger.events_after(place.event, limit=limit)]
    jobs = [
        FeedItem(JOBS, one.row_id, event_of_firing(one))
        for one in runtime.firings.after(place.job, limit=limit)
    ]
    return list(islice(heapq.merge(events, jobs, key=lambda item: facts_of(item.entry).at), limit))


def last_place(runtime: Runtime) -> Place:
    """Behind everything that was committed."""
    return Place(runtime.ledger.last_event_id(), runtime.firings.last())


def list_after(
    runtime: Runtime,
    wanted: Wanted,
    caller: Caller,
    *,
    schedule_id: str | None = None,
    place: Place,
    limit: int,
) -> tuple[list[FeedEntry], Place]:
    """What came behind a place, the oldest first, and how far was looked: it may be nothing, and there be more."""
    visible = narrowed(runtime, wanted, caller, schedule_id)
    looked = feed_after(runtime, place, limit=limit)
    for item in looked:
        place = place.behind(item)
    return [item.entry for item in looked if visible is not None and visible.is_met(item.entry)], place


def narrowed(runtime: Runtime, wanted: Wanted, caller: Caller, schedule_id: str | None) -> Wanted | None:
    """To what the caller may see, of one schedule also when it is deleted; None: that is nothing."""
    if schedule_id is not None:
        wanted = replace(wanted, uid=runtime.ledger.uid_of(schedule_id))
        if wanted.uid is None:
            return None
    owner = caller.token.owner
    if owner is not None and wanted.owner not in (None, owner):
        return None
    return replace(wanted, owner=owner or wanted.owner)
