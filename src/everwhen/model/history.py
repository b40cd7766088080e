"""The record of schedules as it was written, which the ledger checker and `why` read.

A `ScheduleHistory` is everything recorded about one uid. A `History` yields them one by one, so that a check needs the
memory of one schedule and not of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from everwhen.model.events import Event, EventType
from everwhen.model.job import Job
from everwhen.model.limits import Breaker, Limit, Transition
from everwhen.model.node import Node
from everwhen.model.schedule import Plan, State, Status
from everwhen.model.spending import Spending

# The events that end an active span, with the status after it (None: the schedule is deleted), and those that begin it.
STOPS: Mapping[EventType, Status | None] = {
    "schedule.paused": "paused",
    "schedule.invalidated": "invalid",
    "schedule.done": "done",
    "schedule.died": "dead",
    "schedule.deleted": None,
}
STARTS: frozenset[EventType] = frozenset(("schedule.resumed", "schedule.revived", "schedule.restored"))
# The events that are about slots.
OF_SLOTS: frozenset[EventType] = frozenset(("schedule.skipped", "schedule.missed", "schedule.caught_up"))


NOTHING_WRITTEN: Mapping[str, int] = MappingProxyType({})


class Recorded(NamedTuple):
    """An audit event with its number; numbers follow commit order."""

    id: int
    event: Event


Cause = Literal["created", "edited", "upgraded"]


class Revision(NamedTuple):
    """One revision of a definition, the second from which it is in force, and why it was written, where known."""

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
    """The current state of all breakers, and the latest transition of each."""

    rows: Sequence[Breaker]
    latest: Sequence[Transition]


class Circumstances(NamedTuple):
    """What the reasons of entries are judged by, beside the record of the schedule itself.

    `judged_from`: before it, a process of an earlier release may have written reasons that are not true.
    `policies`: when each quiet-hours policy was written last; its earlier versions are not on record.
    `signs`: the events `scheduler.started` and `node.lost`; `reached`: `budget.reached`.
    """

    judged_from: int = 0
    transitions: Sequence[Transition] = ()
    policies: Mapping[str, int] = NOTHING_WRITTEN
    nodes: Sequence[Node] = ()
    signs: Sequence[Recorded] = ()
    reached: Sequence[Recorded] = ()


class History(NamedTuple):
    """The histories of schedules, one after another, and the data that they share.

    `system` holds the events without a schedule that affect slots: system.paused, system.resumed, system.restored and
    scheduler.clock_stepped. `limits`, `breakers` and `spendings` are None when some histories are left out, because
    counts cannot be recomputed then; without `circumstances` reasons are only judged by the record of the schedule.
    """

    histories: Iterable[ScheduleHistory]
    system: Sequence[Recorded] = ()
    limits: Sequence[Limit] | None = None
    retained_from: int = 0  # retention may have deleted jobs or events of slots before it
    breakers: Breakers | None = None
    # Before it, a node of the previous release may have counted retries and failed slots.
    ruled_from: int = 0
    spendings: Sequence[Spending] | None = None
    circumstances: Circumstances | None = None
