"""The schedules of a node as it starts: what it is about to run, and when, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.errors import counted
from everwhen.model.instants import format_instant
from everwhen.model.queries import ScheduleFilter
from everwhen.model.schedule import Schedule
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.timetable.describe import describe

MOST_LISTED, MOST_COUNTED = 10, 10_000


def describe_next_runs(runtime: Runtime) -> list[str]:
    """Return a line for each schedule that runs next, the soonest first: id, trigger, next run in its zone."""
    catalogue, now = store_of(runtime).catalogue, runtime.clock.now()
    schedules = catalogue.soonest(MOST_LISTED)
    lines = in_columns([_row(schedule, now) for schedule in schedules])
    others = catalogue.count(ScheduleFilter("active"), most=MOST_COUNTED) - len(schedules)
    if others > 0 and lines:
        lines.append(f"and {counted(others, 'other active schedule')}")
    elif others > 0:
        lines.append(f"{counted(others, 'active schedule')}: what runs now, or is fired by requests")
    return lines


def _row(schedule: Schedule, now: int) -> tuple[str, ...]:
    """Return the columns of a schedule; one that came due while nothing ran is decided with the first evaluation."""
    state, definition = schedule.state, schedule.definition
    assert state.next_run_at is not None
    at = format_instant(state.next_run_at, definition.zone, exact=True)
    words = describe(definition.trigger, definition.zone)
    return state.schedule_id, words, "due now" if state.next_run_at <= now else f"next run {at}"


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of text as lines whose columns begin at the same place.

    >>> in_columns([("poll", "every 5 minutes"), ("nightly", "")])
    ['poll     every 5 minutes', 'nightly']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
