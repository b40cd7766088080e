"""What a program can do with the schedules of a database, whether its scheduler runs or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Unpack

from everwhen.config.submission import SubmissionRules
from everwhen.errors import ConfigError, UnknownScheduleError, shown
from everwhen.model.declare import Declared
from everwhen.model.instants import SECOND, moment_of
from everwhen.model.policy import IfRunning
from everwhen.model.reasons import ScheduleCheckResult
from everwhen.model.schedule import State
from everwhen.operations import jobs as job_operations
from everwhen.operations import schedules as operations
from everwhen.operations import upcoming as coming
from everwhen.operations import why as reasons
from everwhen.operations.jobs import Firing, trigger_schedule
from everwhen.runtime import Runtime
from everwhen.scheduler.answers import (
    Backfilled,
    ScheduleInfo,
    Upcoming,
    Why,
    backfilled,
    schedule_info,
    upcoming_of,
    why_of,
)
from everwhen.scheduler.declaring import (
    ON_TRIGGER,
    function_target,
    importable_label,
    plain,
    read_schedule,
    rules_of,
)
from everwhen.scheduler.options import Function, Instant, NewSchedule, TriggerOptions
from everwhen.timetable.civil_time import zone
from everwhen.timetable.trigger import parse_instant

ADDED = "python"


class SchedulerOperations:
    """Every call is one transaction, and may come from any thread."""

    def __init__(self, name: str, runtime: Callable[[], Runtime], *, has_host: bool) -> None:
        self._name = name
        self._open_runtime = runtime
        self._has_host = has_host

    # -- what comes and goes --

    def add(
        self, schedule_id: str, function: Function | None = None, **options: Unpack[TriggerOptions]
    ) -> ScheduleInfo:
        """Create a schedule that stays until it is removed, also when the program starts again.

        It runs a function that can be imported, or any target (`run={"command": […]}`), or `on_trigger`.
        """
        around = rules_of(self._runtime, self._name)
        (added,) = self._create([self._declared(schedule_id, function, options, around)])
        return schedule_info(added)

    def add_many(self, schedules: Iterable[NewSchedule]) -> list[ScheduleInfo]:
        """Create many in one transaction, all or none; each says its `id`."""
        around = rules_of(self._runtime, self._name)
        declared = []
        for fields in schedules:
            options: dict[str, Any] = dict(fields)
            schedule_id, function = options.pop("id"), options.pop("function", None)
            declared.append(self._declared(schedule_id, function, options, around))
        return [schedule_info(state) for state in self._create(declared)]

    def remove(self, schedule_id: str, *, cancel_running: bool = False) -> None:
        """Delete it; its record stays, and so does what is running, unless that is to be cancelled."""
        operations.delete_schedule(self._runtime, schedule_id, cancel_running=cancel_running, by=self._name)

    def pause(
        self, schedule_id: str, *, note: str | None = None, until: Instant | None = None
    ) -> ScheduleInfo:
        """Fire nothing until it is resumed, or until then."""
        ends_at = None if until is None else self._instant(schedule_id, until)
        paused = operations.pause_schedule(self._runtime, schedule_id, note=note, until=ends_at)
        return schedule_info(paused)

    def resume(self, schedule_id: str) -> ScheduleInfo:
        return schedule_info(operations.resume_schedule(self._runtime, schedule_id, by=self._name))

    def revive(self, schedule_id: str) -> ScheduleInfo:
        """Start a schedule that is done or dead anew."""
        return schedule_info(operations.revive_schedule(self._runtime, schedule_id, by=self._name))

    # -- runs beside the clock's --

    def trigger(
        self,
        schedule_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        if_running: IfRunning = "queue",
    ) -> Firing:
        """Run it now, beside its slots; the payload is merged over the schedule's."""
        return trigger_schedule(self._runtime, schedule_id, payload=payload, if_running=if_running)

    def backfill(
        self,
        schedule_id: str,
        start: Instant,
        end: Instant,
        *,
        if_running: IfRunning = "queue",
        dry_run: bool = False,
    ) -> Backfilled:
        """Run the slots from start to before end that have no job."""
        first, last = (moment_of(self._instant(schedule_id, moment)) for moment in (start, end))
        found = job_operations.backfill(
            self._runtime, schedule_id, first, last, if_running=if_running, dry_run=dry_run
        )
        return backfilled(found)

    # -- questions --

    def get_schedule(self, schedule_id: str) -> ScheduleInfo:
        return schedule_info(operations.get_schedule(self._runtime, schedule_id).state)

    def check_schedule(self, schedule_id: str) -> ScheduleCheckResult:
        """Would it fire now, and if not, why not?"""
        return operations.check(self._runtime, schedule_id)

    def upcoming(self, schedule_id: str, count: int = 10) -> list[Upcoming]:
        """The next slots."""
        return upcoming_of(coming.upcoming(self._runtime, schedule_id, count))

    def why(self, schedule_id: str, at: Instant | None = None) -> Why:
        """What became of the slot nearest to an instant (default: the last one), and why."""
        instant = None if at is None else self._instant(schedule_id, at)
        return why_of(reasons.why(self._runtime, schedule_id, instant))

    # -- inside --

    @property
    def _runtime(self) -> Runtime:
        return self._open_runtime()

    def _create(self, declared: list[Declared]) -> list[State]:
        return operations.create_declared(self._runtime, declared, source=ADDED, actor=self._name)

    def _declared(
        self,
        schedule_id: str,
        function: Function | None,
        options: Mapping[str, Any],
        around: SubmissionRules,
    ) -> Declared:
        fields = plain(options)
        if function is not None and "run" in fields:
            raise ConfigError(f'schedule "{shown(schedule_id)}": give a function or run, not both')
        if function is not None:
            label = importable_label(function, "a schedule that is added outlives this process")
            target = function_target(label, None)
        elif "run" in fields:
            target = None
        elif self._has_host:
            target = function_target(ON_TRIGGER, self._name)
        else:
            raise ConfigError(
                f'schedule "{shown(schedule_id)}" has nothing to run: give a function, run={{…}}, '
                "or the scheduler an on_trigger"
            )
        return read_schedule(schedule_id, fields, around, target=target)

    def _instant(self, schedule_id: str, moment: Instant) -> int:
        """An instant; without an offset it is read in the schedule's zone."""
        runtime = self._runtime
        try:
            where = operations.get_schedule(runtime, schedule_id).definition.zone
        except UnknownScheduleError:  # deleted; its record goes on answering
            where = zone(runtime.timezone)
        text = moment.isoformat() if isinstance(moment, datetime) else moment
        return parse_instant(text, where) * SECOND
