"""What a scheduler answers, with datetimes in UTC in place of the core's integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from everwhen.model.instants import optional_datetime, to_datetime
from everwhen.model.queries import Entry
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import State, Status
from everwhen.operations.jobs import Backfill
from everwhen.operations.upcoming import UpcomingSlot
from everwhen.operations.why import Explanation, Fate
from everwhen.scheduler.options import SchedulerStatus
from everwhen.timetable.describe import describe


class SchedulerState(NamedTuple):
    """How a scheduler is doing; the counts are those of this process since it was made."""

    status: SchedulerStatus
    started_at: datetime | None
    check_count: int
    trigger_count: int
    last_check_at: datetime | None


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """Where a schedule stands."""

    id: str
    uid: str
    status: Status
    status_reason: str | None
    paused_by: str | None
    next_run_at: datetime | None
    last_run_at: datetime | None
    last_completed_at: datetime | None
    last_success_at: datetime | None
    last_success_job_id: str | None
    last_error: str | None
    run_count: int
    error_count: int
    fire_count: int
    running_jobs: int
    outstanding: int
    revision: int
    source: str | None = None  # `config`, `api`, `python`; in lists only
    trigger: str | None = None  # in words; in lists only


class Upcoming(NamedTuple):
    """A slot to come; `skip_reason` where it is known that it will not fire, `is_estimate` in a chain.

    `hold_reason`: it will be held; `until`: how long either reason holds, where that is known.
    """

    slot_at: datetime
    due_at: datetime
    skip_reason: str | None
    is_estimate: bool
    hold_reason: str | None = None
    until: datetime | None = None


class Why(NamedTuple):
    """What became of a slot: a sentence, and the same for programs."""

    sentence: str
    fate: Fate
    slot_at: datetime | None
    reason: str | None
    job_id: str | None
    next_run_at: datetime | None

    def __str__(self) -> str:
        return self.sentence


class Backfilled(NamedTuple):
    """Which slots a backfill filled (or would fill), or the reason why none."""

    slots: tuple[datetime, ...]
    skip_reason: SkipReason | None


def schedule_info(state: State, entry: Entry | None = None) -> ScheduleInfo:
    names = [field.name for field in fields(ScheduleInfo) if field.name not in ("source", "trigger")]
    values = _values(state, names, id="schedule_id", fire_count="firings")
    if entry is None:
        return ScheduleInfo(**values)
    definition = entry.schedule.definition
    return ScheduleInfo(**values, source=entry.source, trigger=describe(definition.trigger, definition.zone))


def schedule_table(schedules: Sequence[ScheduleInfo]) -> str:
    """Return schedules as lines of text in columns: id, status, trigger, next run.

    >>> print(schedule_table([]))
    no schedules
    """
    rows = [(one.id, one.status, one.trigger or "", _next_run(one)) for one in schedules]
    if not rows:
        return "no schedules"
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _next_run(schedule: ScheduleInfo) -> str:
    at = schedule.next_run_at
    return "" if at is None else f"next run {at:%Y-%m-%d %H:%M:%S} UTC"


def upcoming_of(slots: Iterable[UpcomingSlot]) -> list[Upcoming]:
    return [Upcoming(**_values(slot, Upcoming._fields)) for slot in slots]


def why_of(found: Explanation) -> Why:
    job_id = None if found.job is None else found.job.job_id
    return Why(**_values(found, set(Why._fields) - {"job_id"}), job_id=job_id)


def _values(source: object, names: Iterable[str], **renamed: str) -> dict[str, Any]:
    """Read the attributes of these names, or of the names that they have there; instants become datetimes."""
    found = {name: getattr(source, renamed.get(name, name)) for name in names}
    instants = [name for name in found if name.endswith("_at") or name == "until"]
    return found | {name: optional_datetime(found[name]) for name in instants}


def backfilled(found: Backfill) -> Backfilled:
    return Backfilled(tuple(to_datetime(slot) for slot in found.slots), found.skip_reason)
