"""The record of schedules as it was written: what the ledger checker and `why` read.

A `Life` is all that is recorded about one uid. A `History` hands lives out one by one, so that a check needs
the memory of one schedule and not of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from everwhen.model.breaker import Breaker, Transition
from everwhen.model.events import Event, EventType
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.schedule import Plan, State, Status

# What ends an active stretch, and the status that it leaves (None: the schedule is gone); what begins one anew.
STOPS: Mapping[EventType, Status | None] = {
    "schedule.paused": "paused",
    "schedule.invalidated": "invalid",
    "schedule.done": "done",
    "schedule.died": "dead",
    "schedule.deleted": None,
}
STARTS: frozenset[EventType] = frozenset(("schedule.resumed", "schedule.revived", "schedule.restored"))
# The events that speak of slots.
OF_SLOTS: frozenset[EventType] = frozenset(("schedule.skipped", "schedule.missed", "schedule.caught_up"))


class Recorded(NamedTuple):
    """An audit event with its number; numbers follow commit order."""

    id: int
    event: Event


Cause = Literal["created", "edited", "upgraded"]


class Revision(NamedTuple):
    """One revision of a definition, the second from which it was in force, and why it was written, where known."""

    revision: int
    in_force_at: int
    plan: Plan
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class ScheduleHistory:
    """Everything recorded about one uid. `state` is None when the schedule is deleted; `jobs` is read once."""

    uid: str
    schedule_id: str
    revisions: Sequence[Revision]
    events: Sequence[Recorded]
    jobs: Iterable[Job] = field(compare=False)
    state: State | None


class Breakers(NamedTuple):
    """All breakers as they stand, and the latest change of each."""

    rows: Sequence[Breaker]
    latest: Sequence[Transition]


@dataclass(frozen=True, slots=True)
class History:
    """Lives, one after another, and what they share.

    `system` holds the events of no schedule that bear on slots: system.paused, system.resumed, system.restored
    and scheduler.clock_stepped. `limits` and `breakers` are None when the lives are not all there are, so that nothing
    can be recounted.
    """

    histories: Iterable[ScheduleHistory]
    system: Sequence[Recorded] = ()
    limits: Sequence[Limit] | None = None
    retained_from: int = 0  # of slots before it, retention may have taken jobs or events
    breakers: Breakers | None = None
    ruled_from: int = (
        0  # before it, a process of the release before may have counted retries and failed slots
    )
