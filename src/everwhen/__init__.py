"""everwhen: every slot of every schedule is fired once, or the reason it was not is on record.

Names are loaded when they are first used, so that `import everwhen` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from everwhen.version import __version__

if TYPE_CHECKING:
    from everwhen.compat.herdctl import (
        RunScheduleOptions,
        ScheduleRunnerLogger,
        ScheduleRunResult,
        ScheduleState,
        get_agent_schedule_states,
        get_schedule_state,
        run_schedule,
        update_schedule_state,
    )
    from everwhen.compat.pipelit import (
        execute_scheduled_job,
        recover_scheduled_jobs,
        start_scheduled_job,
    )
    from everwhen.errors import (
        AccessError,
        BackfillError,
        BackupError,
        ConfigError,
        CopyError,
        CronParseError,
        DuplicatePolicyError,
        DuplicateScheduleError,
        FiringLimitError,
        IntervalParseError,
        LimitError,
        ManifestError,
        MissingQuietHoursError,
        MovedError,
        OutcomeError,
        PayloadSizeError,
        PolicyInUseError,
        PreconditionError,
        QueueError,
        QuietHoursChangedError,
        QuotaError,
        RemovalError,
        RepeatedRequestError,
        RequestError,
        SchedulerError,
        SchedulerShutdownError,
        ScheduleTriggerError,
        SourceError,
        SourceGoneError,
        StatusError,
        StoreError,
        SubmissionError,
        TimetableError,
        TokenError,
        UncertainCopyError,
        UnknownBreakerError,
        UnknownGroupError,
        UnknownJobError,
        UnknownPolicyError,
        UnknownScheduleError,
        UnknownTokenError,
        UnseenRevisionError,
        WorkSourceError,
    )
    from everwhen.model.reasons import ScheduleCheckResult, ScheduleSkipReason
    from everwhen.model.work_item import WorkItem, build_schedule_prompt
    from everwhen.scheduler.answers import Backfilled, ScheduleInfo, SchedulerState, Upcoming, Why
    from everwhen.scheduler.async_scheduler import AsyncJobHandle, AsyncScheduler
    from everwhen.scheduler.handles import JobHandle, JobInfo, JobResult
    from everwhen.scheduler.listeners import SchedulerEvent
    from everwhen.scheduler.options import (
        AddOptions,
        AgentScheduleInfo,
        NewSchedule,
        Run,
        ScheduleOptions,
        SchedulerLogger,
        SchedulerOptions,
        SchedulerStatus,
        SchedulerTriggerCallback,
        StopOptions,
    )
    from everwhen.scheduler.scheduler import Scheduler
    from everwhen.targets.python_function import TriggerInfo, TriggerMetadata
    from everwhen.timetable.cron import CronExpression
    from everwhen.timetable.interval import parse_interval
    from everwhen.timing import (
        calculate_next_cron_trigger,
        calculate_next_trigger,
        is_schedule_due,
        is_valid_cron_expression,
        parse_cron_expression,
    )

_HOMES = {
    "everwhen.errors": (
        "AccessError",
        "BackfillError",
        "BackupError",
        "ConfigError",
        "CopyError",
        "CronParseError",
        "DuplicatePolicyError",
        "DuplicateScheduleError",
        "FiringLimitError",
        "IntervalParseError",
        "LimitError",
        "ManifestError",
        "MissingQuietHoursError",
        "MovedError",
        "OutcomeError",
        "PayloadSizeError",
        "PolicyInUseError",
        "PreconditionError",
        "QueueError",
        "QuietHoursChangedError",
        "QuotaError",
        "RemovalError",
        "RepeatedRequestError",
        "RequestError",
        "ScheduleTriggerError",
        "SchedulerError",
        "SchedulerShutdownError",
        "SourceError",
        "SourceGoneError",
        "StatusError",
        "StoreError",
        "SubmissionError",
        "TimetableError",
        "TokenError",
        "UncertainCopyError",
        "UnknownBreakerError",
        "UnknownGroupError",
        "UnknownJobError",
        "UnknownPolicyError",
        "UnknownScheduleError",
        "UnknownTokenError",
        "UnseenRevisionError",
        "WorkSourceError",
    ),
    "everwhen.compat.herdctl": (
        "RunScheduleOptions",
        "ScheduleRunResult",
        "ScheduleRunnerLogger",
        "ScheduleState",
        "get_agent_schedule_states",
        "get_schedule_state",
        "run_schedule",
        "update_schedule_state",
    ),
    "everwhen.scheduler.answers": (
        "Backfilled",
        "ScheduleInfo",
        "SchedulerState",
        "Upcoming",
        "Why",
    ),
    "everwhen.scheduler.async_scheduler": ("AsyncJobHandle", "AsyncScheduler"),
    "everwhen.scheduler.handles": ("JobHandle", "JobInfo", "JobResult"),
    "everwhen.scheduler.listeners": ("SchedulerEvent",),
    "everwhen.scheduler.options": (
        "AddOptions",
        "AgentScheduleInfo",
        "NewSchedule",
        "Run",
        "ScheduleOptions",
        "SchedulerLogger",
        "SchedulerOptions",
        "SchedulerStatus",
        "SchedulerTriggerCallback",
        "StopOptions",
    ),
    "everwhen.compat.pipelit": (
        "execute_scheduled_job",
        "recover_scheduled_jobs",
        "start_scheduled_job",
    ),
    "everwhen.scheduler.scheduler": ("Scheduler",),
    "everwhen.model.reasons": (
        "ScheduleCheckResult",
        "ScheduleSkipReason",
    ),
    "everwhen.model.work_item": (
        "WorkItem",
        "build_schedule_prompt",
    ),
    "everwhen.targets.python_function": (
        "TriggerInfo",
        "TriggerMetadata",
    ),
    "everwhen.timetable.cron": ("CronExpression",),
    "everwhen.timetable.interval": ("parse_interval",),
    "everwhen.timing": (
        "calculate_next_cron_trigger",
        "calculate_next_trigger",
        "is_schedule_due",
        "is_valid_cron_expression",
        "parse_cron_expression",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AccessError",
    "AddOptions",
    "AgentScheduleInfo",
    "AsyncJobHandle",
    "AsyncScheduler",
    "BackfillError",
    "Backfilled",
    "BackupError",
    "ConfigError",
    "CopyError",
    "CronExpression",
    "CronParseError",
    "DuplicatePolicyError",
    "DuplicateScheduleError",
    "FiringLimitError",
    "IntervalParseError",
    "JobHandle",
    "JobInfo",
    "JobResult",
    "LimitError",
    "ManifestError",
    "MissingQuietHoursError",
    "MovedError",
    "NewSchedule",
    "OutcomeError",
    "PayloadSizeError",
    "PolicyInUseError",
    "PreconditionError",
    "QueueError",
    "QuietHoursChangedError",
    "QuotaError",
    "RemovalError",
    "RepeatedRequestError",
    "RequestError",
    "Run",
    "RunScheduleOptions",
    "ScheduleCheckResult",
    "ScheduleInfo",
    "ScheduleOptions",
    "ScheduleRunResult",
    "ScheduleRunnerLogger",
    "ScheduleSkipReason",
    "ScheduleState",
    "ScheduleTriggerError",
    "Scheduler",
    "SchedulerError",
    "SchedulerEvent",
    "SchedulerLogger",
    "SchedulerOptions",
    "SchedulerShutdownError",
    "SchedulerState",
    "SchedulerStatus",
    "SchedulerTriggerCallback",
    "SourceError",
    "SourceGoneError",
    "StatusError",
    "StopOptions",
    "StoreError",
    "SubmissionError",
    "TimetableError",
    "TokenError",
    "TriggerInfo",
    "TriggerMetadata",
    "UncertainCopyError",
    "UnknownBreakerError",
    "UnknownGroupError",
    "UnknownJobError",
    "UnknownPolicyError",
    "UnknownScheduleError",
    "UnknownTokenError",
    "UnseenRevisionError",
    "Upcoming",
    "Why",
    "WorkItem",
    "WorkSourceError",
    "__version__",
    "build_schedule_prompt",
    "calculate_next_cron_trigger",
    "calculate_next_trigger",
    "execute_scheduled_job",
    "get_agent_schedule_states",
    "get_schedule_state",
    "is_schedule_due",
    "is_valid_cron_expression",
    "parse_cron_expression",
    "parse_interval",
    "recover_scheduled_jobs",
    "run_schedule",
    "start_scheduled_job",
    "update_schedule_state",
]


if not TYPE_CHECKING:  # a type checker shall see the names above and no others

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'everwhen' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
