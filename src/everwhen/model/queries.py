"""Filters and pages: what a list of schedules, jobs, events or messages is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from everwhen.model.events import EventType
from everwhen.model.job import Job, JobStatus, Origin
from everwhen.model.pause import Pause
from everwhen.model.schedule import Schedule, Status


class Entry(NamedTuple):
    """A schedule with the columns that only listings show."""

    schedule: Schedule
    source: str
    key: str | None
    token_id: str | None
    created_at: int
    updated_at: int
    pause: Pause | None = None


# The words of the source systems for our statuses are taken, too.
STATUS_ALIASES: dict[str, Status] = {
    "active": "active",
    "idle": "active",
    "running": "active",
    "enabled": "active",
    "paused": "paused",
    "paused_manual": "paused",
    "disabled": "paused",
    "invalid": "invalid",
    "paused_invalid": "invalid",
    "done": "done",
    "exhausted": "done",
    "dead": "dead",
}


class ScheduleNames(NamedTuple):
    """The names of a schedule; `key` has the owner before it, as it is stored."""

    schedule_id: str
    key: str | None
    name: str
    owner: str | None
    token_id: str | None


class ScheduleLabel(NamedTuple):
    """How a schedule is called, and its zone; `key` has the owner before it, unless the schedule is deleted."""

    uid: str
    name: str
    key: str | None
    timezone: str

    @property
    def own_key(self) -> str | None:
        """Return the key that its creator chose."""
        return None if self.key is None else self.key.rpartition("/")[2]


class ScheduleFilter(NamedTuple):
    """A filter for schedules: all conditions that are set must hold."""

    status: Status | None = None
    group: str | None = None
    owner: str | None = None
    type: str | None = None
    target: str | None = None
    text: str | None = None  # contained in its id or name
    is_waiting: bool = False  # for approval
    token_id: str | None = None  # that made it
    paused_by: str | None = None
    is_failing: bool = False  # its last slot failed
    is_running: bool = False
    is_held: bool = False
    uids: Collection[str] | None = None  # one of these


ScheduleOrder = Literal["created_at", "name", "status", "owner", "next_run_at", "last_fired_at"]
# The orders of a list as a request names them: column, and whether it descends.
SORTS: dict[str, tuple[ScheduleOrder, bool]] = {
    f"{sign}{order}": (order, bool(sign)) for order in get_args(ScheduleOrder) for sign in ("", "-")
}
Facet = Literal["status", "group", "owner", "type", "target"]


class RecentJob(NamedTuple):
    """What a list shows of one of the last jobs of a schedule."""

    uid: str
    number: int
    retry: int
    origin: Origin
    status: JobStatus
    slot_at: int
    started_at: int | None
    ended_at: int | None


class GatheredSkips(NamedTuple):
    """The skips that are counted on the row of a schedule until something else happens to it."""

    uid: str
    schedule_id: str
    skip_reason: str | None
    skip_first_at: int
    skip_last_at: int
    skip_count: int


ComingRow = tuple[int, str, str, int | None, int, int, str]
"""An active schedule with its next slot: row_id, uid, schedule_id, anchor_at, next_slot_at, next_run_at, and the part
of its definition that says when it fires (`serialize.times_in`)."""


@dataclass(frozen=True, slots=True)
class ComingSchedules:
    """Active schedules with their next slots. There may be very many: what is not asked for is not made."""

    rows: Sequence[ComingRow]

    def starts(self) -> list[tuple[int | None, int]]:
        """Return the anchor and the next slot of each."""
        return [(anchor_at, slot_at) for _, _, _, anchor_at, slot_at, _, _ in self.rows]

    def slots(self) -> list[int]:
        return [slot_at for _, _, _, _, slot_at, _, _ in self.rows]

    def dues(self) -> list[int]:
        return [due_at for _, _, _, _, _, due_at, _ in self.rows]

    def schedule_ids(self) -> list[str]:
        return [schedule_id for _, _, schedule_id, _, _, _, _ in self.rows]

    def names(self) -> list[tuple[str, str]]:
        """Return uid and id of each."""
        return [(uid, schedule_id) for _, uid, schedule_id, _, _, _, _ in self.rows]


class RecentSkip(NamedTuple):
    """What a list shows of one of the last events about slots of a schedule that did not fire."""

    uid: str
    type: EventType
    slot_at: int
    reason: str | None
    slot_count: int


class SlotsNotFired(NamedTuple):
    """An event about one slot or a range of slots that did not fire; the ends of a range are in its detail."""

    uid: str
    schedule_id: str
    type: EventType
    reason: str | None
    slot_at: int
    slot_count: int
    first_at: int | None
    last_at: int | None


class SkipCount(NamedTuple):
    """The number of single slots of a schedule that did not fire, by type of event, in one bucket of a span."""

    uid: str
    type: EventType
    stretch: int
    slots: int


class JobFilter(NamedTuple):
    """A filter for jobs: all conditions that are set must hold.

    `since` (inclusive) and `until` (exclusive) bound the slots; `enqueued_since` and `enqueued_until` likewise.
    """

    uid: str | None = None
    uids: Collection[str] = ()  # one of these, also of deleted schedules
    statuses: Collection[JobStatus] = ()
    origins: Collection[Origin] = ()
    slot_at: int | None = None
    since: int | None = None
    until: int | None = None
    owner: str | None = None  # of their schedules, as long as these exist
    group: str | None = None
    enqueued_since: int | None = None
    enqueued_until: int | None = None


class JobPage(NamedTuple):
    """One page of jobs; `total` is counted up to a bound. `next_before`: where the next page begins, if any."""

    jobs: list[Job]
    total: int = 0
    is_approximate: bool = False
    next_before: int | None = None


class TimelineJob(NamedTuple):
    """What the time line shows of a job."""

    row_id: int
    job_id: str
    uid: str
    schedule_id: str
    origin: Origin
    status: JobStatus
    slot_at: int
    due_at: int
    attempt: int
    retry: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    reason: str | None
    error: str | None
    error_type: str | None


class SpanCount(NamedTuple):
    """The number of jobs of one status with slots in one bucket of a span; buckets (`stretch`) are numbered from 0."""

    stretch: int
    status: JobStatus
    jobs: int


class ScheduleSpanCount(NamedTuple):
    """The same of one schedule."""

    uid: str
    stretch: int
    status: JobStatus
    jobs: int


class Counts(NamedTuple):
    """Totals: schedules by status, and outstanding jobs by status."""

    schedules: dict[Status, int]
    jobs: dict[JobStatus, int]
    held: int


class EventFilter(NamedTuple):
    """A filter for events: all conditions that are set must hold.

    `since` is inclusive, `until` exclusive, both by time of recording; `slots_until` excludes later slots.
    """

    uid: str | None = None
    uids: Collection[str] = ()  # one of these
    types: Collection[EventType] = ()
    job_id: str | None = None
    owner: str | None = None
    since: int | None = None
    until: int | None = None
    slots_until: int | None = None


class MessageFilter(NamedTuple):
    """A filter for messages: all conditions that are set must hold. `since` is inclusive, `until` exclusive."""

    owner: str | None = None
    schedule_id: str | None = None
    since: int | None = None
    until: int | None = None


class AlertFilter(NamedTuple):
    """Conditions of a list of alerts; all that are given must hold."""

    state: str | None = None
    class_: str | None = None
    schedule_id: str | None = None
    owner: str | None = None
