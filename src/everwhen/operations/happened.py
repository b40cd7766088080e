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

from everwhen.model.derived import Derived, DerivedType, told_of
from everwhen.model.events import Event, EventType
from everwhen.model.history import Recorded
from everwhen.operations.submissions import Caller
from everwhen.ports.house import House

Happened = Recorded | Derived
EVENTS, JOBS = 0, 1  # the two sequences
RECORDED = frozenset(get_args(EventType))
TYPES: tuple[str, ...] = (*get_args(EventType), *get_args(DerivedType))


def facts_of(happened: Happened) -> Event | Derived:
    return happened.event if isinstance(happened, Recorded) else happened


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

    def is_met(self, happened: Happened) -> bool:
        facts = facts_of(happened)
        return (
            self.wants(facts.type)
            and self.uid in (None, facts.uid)
            and self.job_id in (None, facts.job_id)
            and self.owner in (None, facts.owner)
            and (self.since is None or facts.at >= self.since)
            and (self.until is None or facts.at < self.until)
        )


class Told(NamedTuple):
    """Something that happened, and its number in its sequence."""

    sequence: int
    number: int
    happened: Happened


class Place(NamedTuple):
    """The last event and the last job that were told."""

    event: int
    job: int

    def behind(self, told: Told) -> Place:
        return Place(told.number, self.job) if told.sequence == EVENTS else Place(self.event, told.number)


def happened_after(house: House, place: Place, *, limit: int) -> list[Told]:
    """What was committed behind a place."""
    events = [Told(EVENTS, one.id, one) for one in house.ledger.events_after(place.event, limit=limit)]
    jobs = [Told(JOBS, one.row_id, told_of(one)) for one in house.firings.after(place.job, limit=limit)]
    return list(islice(heapq.merge(events, jobs, key=lambda told: facts_of(told.happened).at), limit))


def last_place(house: House) -> Place:
    """Behind everything that was committed."""
    return Place(house.ledger.last_event_id(), house.firings.last())


def list_after(
    house: House, wanted: Wanted, caller: Caller, *, schedule_id: str | None = None, place: Place, limit: int
) -> tuple[list[Happened], Place]:
    """What came behind a place, the oldest first, and how far was looked: it may be nothing, and there be more."""
    visible = narrowed(house, wanted, caller, schedule_id)
    looked = happened_after(house, place, limit=limit)
    for told in looked:
        place = place.behind(told)
    return [told.happened for told in looked if visible is not None and visible.is_met(told.happened)], place


def narrowed(house: House, wanted: Wanted, caller: Caller, schedule_id: str | None) -> Wanted | None:
    """To what the caller may see, of one schedule also when it is deleted; None: that is nothing."""
    if schedule_id is not None:
        wanted = replace(wanted, uid=house.ledger.uid_of(schedule_id))
        if wanted.uid is None:
            return None
    owner = caller.token.owner
    if owner is not None and wanted.owner not in (None, owner):
        return None
    return replace(wanted, owner=owner or wanted.owner)
