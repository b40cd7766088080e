"""What a scheduler answers, with datetimes in UTC in place of the core's integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from everwhen.model.instants import optional_datetime, to_datetime
from everwhen.model.pause import Pause, describe_pause
from everwhen.model.queries import Entry
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import Definition, State, Status
from everwhen.operations.jobs import Backfill
from everwhen.operations.next_runs import in_columns
from everwhen.operations.upcoming import UpcomingSlot
from everwhen.operations.why import Explanation, Fate
from everwhen.scheduler.options import SchedulerStatus
from everwhen.timetable.civil_time import zone
from everwhen.timetable.describe import describe
from everwhen.timetable.instant_text import format_datetime


class SchedulerState(NamedTuple):
    """How a scheduler is doing; the counts are those of this process since it was made."""

    status: SchedulerStatus
    started_at: datetime | None
    check_count: int
    trigger_count: int
    last_check_at: datetime | None


class PauseInfo(NamedTuple):
    """Who paused a schedule, since when, until when, and with what note; `by`: person, token, config, approval, budget.

    `actor` is who it was as the audit has it, `name` that of the token, user or program.
    """

    by: str | None
    actor: str | None
    name: str | None
    at: datetime | None
    until: datetime | None
    note: str | None


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
    last_error: str | None  # the message, without the traceback
    last_error_type: str | None  # of the exception, such as `ValueError`; None where it was none
    run_count: int  # own runs that have succeeded
    error_count: int  # own runs that have failed, each attempt
    fire_count: int  # firings for whatever reason
    running_jobs: int
    outstanding: int
    revision: int
    name: str
    trigger: str  # in words
    timezone: str  # the zone in which the trigger and naive times are read
    source: str  # `config`, `api`, `python` (added), `python:{name}` (declared by the program of that name)
    pause: PauseInfo | None  # while it is paused


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


def entry_info(entry: Entry) -> ScheduleInfo:
    return schedule_info(entry.schedule.state, entry.schedule.definition, entry.source, entry.pause)


def schedule_info(
    state: State, definition: Definition, source: str, pause: Pause | None = None
) -> ScheduleInfo:
    values: dict[str, Any] = dict(zip(_OF_STATE, _read_state(state), strict=True))
    return ScheduleInfo(
        **values | {name: optional_datetime(values[name]) for name in _INSTANTS},
        name=definition.name,
        trigger=describe(definition.trigger, definition.zone),
        timezone=definition.zone.name,
        source=source,
        pause=None if pause is None else _pause_info(pause),
    )


_OF_DEFINITION = frozenset(("name", "trigger", "timezone", "source", "pause"))
_OF_STATE = tuple(field.name for field in fields(ScheduleInfo) if field.name not in _OF_DEFINITION)
_INSTANTS = frozenset(name for name in _OF_STATE if name.endswith("_at"))
_RENAMED = {"id": "schedule_id", "fire_count": "firings"}
_read_state = attrgetter(*(_RENAMED.get(name, name) for name in _OF_STATE))


def _pause_info(pause: Pause) -> PauseInfo:
    at, until = optional_datetime(pause.at), optional_datetime(pause.until)
    return PauseInfo(pause.by, pause.actor, pause.name, at, until=until, note=pause.note)


def schedule_table(schedules: Sequence[ScheduleInfo]) -> str:
    """Return schedules as lines of text in columns: id, status, trigger, next run in the schedule's zone.

    >>> print(schedule_table([]))
    no schedules
    """
    rows = [(one.id, one.status, one.trigger, _next_run(one)) for one in schedules]
    return "\n".join(in_columns(rows)) or "no schedules"


def _next_run(schedule: ScheduleInfo) -> str:
    """Return when it runs next, or of a paused one since when, until when, and by whom."""
    at, pause = schedule.next_run_at, schedule.pause
    if pause is not None:
        since, until = (_shown_at(instant, schedule.timezone) for instant in (pause.at, pause.until))
        return f"paused {describe_pause(pause.by, pause.name, at=since, until=until, note=pause.note)}"
    return "" if at is None else f"next run {_shown_at(at, schedule.timezone, exact=True)}"


def _shown_at(at: datetime | None, timezone: str, *, exact: bool = False) -> str | None:
    return None if at is None else format_datetime(zone(timezone).localized(at), exact=exact)


def upcoming_of(slots: Iterable[UpcomingSlot]) -> list[Upcoming]:
    return [Upcoming(**_values(slot, Upcoming._fields)) for slot in slots]


def why_of(found: Explanation) -> Why:
    job_id = None if found.job is None else found.job.job_id
    return Why(**_values(found, set(Why._fields) - {"job_id"}), job_id=job_id)


def _values(source: object, names: Iterable[str]) -> dict[str, Any]:
    """Read the attributes of these names; instants become datetimes."""
    found = {name: getattr(source, name) for name in names}
    instants = [name for name in found if name.endswith("_at") or name == "until"]
    return found | {name: optional_datetime(found[name]) for name in instants}


def backfilled(found: Backfill) -> Backfilled:
    return Backfilled(tuple(to_datetime(slot) for slot in found.slots), found.skip_reason)
