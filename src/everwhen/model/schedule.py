"""Schedules: their plans and their current state. `fields` has the Definition, which is one revision of a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from everwhen.model.calendar import Calendar
from everwhen.model.fast_values import by_identity
from everwhen.model.fields import Definition as Definition
from everwhen.model.fields import ScheduleType as ScheduleType
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.policy import LEAST_GRACE, MOST_GRACE, WhenClosed
from everwhen.model.target_kinds import Target as Target
from everwhen.timetable.civil_time import EARLIEST, LATEST, zone
from everwhen.timetable.occurrences import Occurrences, series_of
from everwhen.timetable.trigger import Cron, Once, OnRequest
from everwhen.timetable.windows import ClosedTimes, NotOn, OnlyBetween, QuietHours

_NEVER_CLOSED = ClosedTimes()
_NOTHING_DEFERRED: frozenset[str] = frozenset()

Status = Literal["active", "paused", "invalid", "done", "dead"]


def local_id(schedule_id: str) -> str:
    """Return the name of a schedule within its plugin or agent.

    >>> local_id("withings.hourly"), local_id("recount")
    ('hourly', 'recount')
    """
    return schedule_id.rpartition(".")[2]


class QuietHoursPolicy(NamedTuple):
    """Quiet hours that schedules may share by id."""

    policy_id: str
    name: str
    hours: QuietHours
    action: WhenClosed = "skip"


class Plan:
    """A definition that is ready for evaluation: parsed once, kept in a bounded cache by (uid, revision).

    Its calendar depends on the anchor, which moves when a schedule is resumed; the last calendar is cached.
    """

    __slots__ = (
        "_calendar",
        "_closed_times",
        "awaits_successes",
        "defers",
        "definition",
        "fault",
        "grace",
        "is_plain",
        "quiet",
        "schedule_id",
    )

    def __init__(self, schedule_id: str, definition: Definition, quiet: QuietHoursPolicy | None) -> None:
        self.schedule_id = schedule_id
        self.definition = definition
        self.fault: str | None = None  # why the stored definition cannot be used
        self.quiet = quiet
        self.defers = _deferred_reasons(definition, quiet)
        self._closed_times = _closed_times(definition, quiet)
        self._calendar: tuple[int | None, Calendar] | None = None
        self.grace = definition.misfire_grace
        # Only its limits and its own jobs can keep its slots from firing.
        self.is_plain = self._closed_times is _NEVER_CLOSED and not (
            definition.breaker or definition.budgets or definition.jitter_ms or definition.is_chain
        )

        # The success of a run may end the schedule, creates its next slot, or is expected.
        self.awaits_successes = (
            bool(definition.total_repeats) or definition.is_chain or definition.is_expected
        )

    def calendar(self, anchor_at: int | None) -> Calendar:
        if self._calendar is None or self._calendar[0] != anchor_at:
            self._calendar = (anchor_at, self._make_calendar(anchor_at))
        return self._calendar[1]

    def grace_of(self, slot_at: int, following: int | None) -> int:
        """Return how late a slot may be and still count as on time: half the gap to the next slot, 2 s to 5 min."""
        if self.grace is not None:
            return self.grace
        if following is None or self.definition.is_one_shot:
            return MOST_GRACE
        return min(max((following - slot_at) // 2, LEAST_GRACE), MOST_GRACE)

    def _make_calendar(self, anchor_at: int | None) -> Calendar:
        definition = self.definition
        if isinstance(definition.trigger, Cron) and not definition.jitter_ms and self.quiet is None:
            return _cron_calendar(definition)
        anchor = 0 if anchor_at is None else anchor_at // SECOND
        return _make_calendar(definition, self._closed_times, anchor, self.schedule_id)


def broken_plan(schedule_id: str, fault: str) -> Plan:
    """Return a placeholder for a definition that cannot be read: it has no slots, and its evaluation reports why."""
    plan = Plan(schedule_id, Definition(OnRequest("chat"), zone("UTC"), Target("unreadable")), None)
    plan.fault = fault
    plan.is_plain = False
    return plan


@by_identity(most=4_096, size=attrgetter("size"))
def _cron_calendar(definition: Definition) -> Calendar:
    """Return one calendar for all schedules with this definition: it depends on neither an anchor nor a jitter."""
    return _make_calendar(definition, _closed_times(definition, None), 0, "")


def _make_calendar(definition: Definition, closed: ClosedTimes, anchor: int, jitter_key: str) -> Calendar:
    slots = Occurrences(
        series_of(definition.trigger, zone=definition.zone, anchor_at=anchor, dst=definition.dst),
        start_at=EARLIEST if definition.start_at is None else definition.start_at,
        end_at=LATEST if definition.end_at is None else definition.end_at,
        jitter_ms=definition.jitter_ms,
        jitter_key=jitter_key,
    )
    fraction = definition.trigger.fraction if isinstance(definition.trigger, Once) else 0
    return Calendar(slots, closed, definition.is_chain, fraction)


def _closed_times(definition: Definition, quiet: QuietHoursPolicy | None) -> ClosedTimes:
    zone = definition.zone
    if not definition.not_on and definition.only_between is None and quiet is None:
        return _NEVER_CLOSED
    return ClosedTimes(
        not_on=NotOn(zone, definition.not_on) if definition.not_on else None,
        only_between=OnlyBetween(zone, definition.only_between) if definition.only_between else None,
        quiet_hours=quiet.hours if quiet else None,
    )


def _deferred_reasons(definition: Definition, quiet: QuietHoursPolicy | None) -> frozenset[str]:
    """Return the reasons for which a closed time holds a slot until the opening instead of skipping it."""
    if definition.outside_window != "defer" and quiet is None:
        return _NOTHING_DEFERRED
    reasons = {"excluded_day", "outside_window"} if definition.outside_window == "defer" else set()
    if quiet is not None and quiet.action == "defer":
        reasons.add("quiet_hours")
    return frozenset(reasons)


class State(NamedTuple):
    """The current state of a schedule: the hot columns of its row, in their order."""

    row_id: int
    uid: str
    schedule_id: str
    owner: str | None
    revision: int
    status: Status
    anchor_at: int | None
    next_slot_at: int | None
    next_run_at: int | None
    held_slot_at: int | None = None
    held_due_at: int | None = None
    held_reason: str | None = None
    held_since: int | None = None
    held_key: str | None = None
    release_at: int | None = None
    fire_count: int = 0
    outstanding: int = 0
    running_jobs: int = 0
    waiting: int = 0
    retries_waiting: int = 0
    current_repeat: int = 0
    current_retry: int = 0
    run_count: int = 0
    error_count: int = 0
    last_slot_at: int | None = None
    last_fired_at: int | None = None
    last_run_at: int | None = None
    last_completed_at: int | None = None
    last_success_at: int | None = None
    last_success_job_id: str | None = None
    last_error: str | None = None
    skip_reason: str | None = None
    skip_held: str | None = None
    skip_first_at: int | None = None
    skip_last_at: int | None = None
    skip_count: int = 0
    paused_by: str | None = None
    status_reason: str | None = None
    resume_at: int | None = None
    failed_slots: int = 0  # consecutive own slots that ended in failure
    numbers_skipped: int = 0  # job numbers that restores have skipped
    expect_at: int | None = (
        None  # by when a success is expected; None while it is silent, or nothing is expected
    )
    last_error_type: str | None = None  # of the exception whose message `last_error` is

    @property
    def firings(self) -> int:
        """Return how often it fired. `fire_count` is the number of its last job, which a restore raises."""
        return self.fire_count - self.numbers_skipped


class Schedule(NamedTuple):
    """A complete schedule: its state, its plan, and its outstanding jobs where a decision needs them."""

    state: State
    plan: Plan
    outstanding: Sequence[Job] = ()

    @property
    def definition(self) -> Definition:
        return self.plan.definition
