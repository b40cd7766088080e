"""What is told without being on record: firings, retries and holds, read from rows that exist anyway (L2).

These are no events: nobody writes them, they have no number of their own, and checker and `why` read the rows
themselves. They have the shape of events, so that a list and a stream can tell both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from everwhen.model.job import Job, Origin

DerivedType = Literal["schedule.fired", "schedule.retried", "schedule.held"]
FIRING_ORIGINS: tuple[Origin, ...] = ("schedule", "catch_up", "manual", "backfill", "webhook", "chat")


class Firing(NamedTuple):
    """A job as it was enqueued, and whose it is; the owner is that of its schedule, as long as this is there."""

    row_id: int
    job_id: str
    uid: str
    schedule_id: str
    revision: int
    number: int
    retry: int
    origin: Origin
    slot_at: int
    created_at: int
    owner: str | None


class Hold(NamedTuple):
    """A slot that is held at this moment."""

    row_id: int
    uid: str
    schedule_id: str
    owner: str | None
    slot_at: int
    due_at: int
    reason: str
    since: int


class Derived(NamedTuple):
    """One line beside the audit, with the fields of an event that can be known."""

    type: DerivedType
    at: int
    schedule_id: str
    uid: str
    owner: str | None
    slot_at: int
    reason: str | None
    job_id: str | None
    detail: Mapping[str, object]


def firing_of(job: Job, owner: str | None) -> Firing:
    return Firing._make((*(getattr(job, name) for name in Firing._fields[:-1]), owner))


def type_of(origin: Origin) -> DerivedType:
    return "schedule.retried" if origin == "retry" else "schedule.fired"


def told_of(firing: Firing) -> Derived:
    """A slot was fired, or tried again, when its job was enqueued."""
    detail: dict[str, object] = {
        "origin": firing.origin,
        "number": firing.number,
        "revision": firing.revision,
    }
    if firing.retry:
        detail["retry"] = firing.retry
    return Derived(
        type_of(firing.origin),
        firing.created_at,
        firing.schedule_id,
        firing.uid,
        firing.owner,
        firing.slot_at,
        None,
        firing.job_id,
        detail,
    )


def told_of_hold(hold: Hold) -> Derived:
    """A slot waits since then."""
    detail = {"due_at": hold.due_at}
    return Derived(
        "schedule.held",
        hold.since,
        hold.schedule_id,
        hold.uid,
        hold.owner,
        hold.slot_at,
        hold.reason,
        None,
        detail,
    )
