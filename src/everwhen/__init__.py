"""everwhen: every slot of every schedule is fired once, or the reason it was not is on record.

Names are loaded when they are first used, so that `import everwhen` costs next to nothing. A type checker reads the
imports below, Python reads `_MODULES`, and a test compares the two. Every error of `everwhen.errors` is public.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from everwhen.version import NOT_ON_WINDOWS
from everwhen.version import __version__ as __version__

# Sorted, they would be a statement each.
# isort: off
if TYPE_CHECKING:
    from everwhen.compat.herdctl import (
        RunScheduleOptions as RunScheduleOptions,
        ScheduleRunnerLogger as ScheduleRunnerLogger,
        ScheduleRunResult as ScheduleRunResult,
        ScheduleState as ScheduleState,
        get_agent_schedule_states as get_agent_schedule_states,
        get_schedule_state as get_schedule_state,
        run_schedule as run_schedule,
        update_schedule_state as update_schedule_state,
    )
    from everwhen.compat.pipelit import (
        execute_scheduled_job as execute_scheduled_job,
        recover_scheduled_jobs as recover_scheduled_jobs,
        start_scheduled_job as start_scheduled_job,
    )
    from everwhen.errors import (
        AccessError as AccessError,
        BackfillError as BackfillError,
        BackupError as BackupError,
        ConfigError as ConfigError,
        CopyError as CopyError,
        CostError as CostError,
        CostLimitError as CostLimitError,
        CronParseError as CronParseError,
        DuplicatePolicyError as DuplicatePolicyError,
        DuplicateScheduleError as DuplicateScheduleError,
        ExistingKeyError as ExistingKeyError,
        FiringLimitError as FiringLimitError,
        IntervalParseError as IntervalParseError,
        LimitError as LimitError,
        ManifestError as ManifestError,
        MissingQuietHoursError as MissingQuietHoursError,
        MovedError as MovedError,
        OutcomeError as OutcomeError,
        PayloadSizeError as PayloadSizeError,
        PolicyInUseError as PolicyInUseError,
        PreconditionError as PreconditionError,
        QueueError as QueueError,
        QuietHoursChangedError as QuietHoursChangedError,
        QuotaError as QuotaError,
        RefusedRequestError as RefusedRequestError,
        RemovalError as RemovalError,
        RepeatedRequestError as RepeatedRequestError,
        RequestError as RequestError,
        SchedulerError as SchedulerError,
        SchedulerShutdownError as SchedulerShutdownError,
        ScheduleTriggerError as ScheduleTriggerError,
        SourceError as SourceError,
        SourceGoneError as SourceGoneError,
        StatusError as StatusError,
        StoreError as StoreError,
        SubmissionError as SubmissionError,
        TimetableError as TimetableError,
        TokenError as TokenError,
        TooManyMatchesError as TooManyMatchesError,
        TooSoonError as TooSoonError,
        UncertainCopyError as UncertainCopyError,
        UncommittedRequestError as UncommittedRequestError,
        UnknownAlertError as UnknownAlertError,
        UnknownBreakerError as UnknownBreakerError,
        UnknownGroupError as UnknownGroupError,
        UnknownJobError as UnknownJobError,
        UnknownPolicyError as UnknownPolicyError,
        UnknownScheduleError as UnknownScheduleError,
        UnknownTokenError as UnknownTokenError,
        UnknownWebhookError as UnknownWebhookError,
        UnseenRevisionError as UnseenRevisionError,
        WebhookQuotaError as WebhookQuotaError,
        WorkSourceError as WorkSourceError,
    )
    from everwhen.model.reasons import (
        ScheduleCheckResult as ScheduleCheckResult,
        ScheduleSkipReason as ScheduleSkipReason,
    )
    from everwhen.model.work_item import (
        WorkItem as WorkItem,
        build_schedule_prompt as build_schedule_prompt,
    )
    from everwhen.scheduler.answers import (
        Backfilled as Backfilled,
        ScheduleInfo as ScheduleInfo,
        SchedulerState as SchedulerState,
        Upcoming as Upcoming,
        Why as Why,
    )
    from everwhen.scheduler.async_scheduler import (
        AsyncJobHandle as AsyncJobHandle,
        AsyncScheduler as AsyncScheduler,
    )
    from everwhen.scheduler.handles import (
        JobHandle as JobHandle,
        JobInfo as JobInfo,
        JobResult as JobResult,
    )
    from everwhen.scheduler.listeners import SchedulerEvent as SchedulerEvent
    from everwhen.scheduler.options import (
        AddOptions as AddOptions,
        AgentScheduleInfo as AgentScheduleInfo,
        NewSchedule as NewSchedule,
        Run as Run,
        ScheduleOptions as ScheduleOptions,
        SchedulerLogger as SchedulerLogger,
        SchedulerOptions as SchedulerOptions,
        SchedulerStatus as SchedulerStatus,
        SchedulerTriggerCallback as SchedulerTriggerCallback,
        StopOptions as StopOptions,
    )
    from everwhen.scheduler.requests import (
        AsyncRequestHandle as AsyncRequestHandle,
        RequestHandle as RequestHandle,
    )
    from everwhen.scheduler.scheduler import Scheduler as Scheduler
    from everwhen.targets.python_function import (
        TriggerInfo as TriggerInfo,
        TriggerMetadata as TriggerMetadata,
    )
    from everwhen.timetable.cron import CronExpression as CronExpression
    from everwhen.timetable.interval import parse_interval as parse_interval
    from everwhen.timing import (
        calculate_next_cron_trigger as calculate_next_cron_trigger,
        calculate_next_trigger as calculate_next_trigger,
        is_schedule_due as is_schedule_due,
        is_valid_cron_expression as is_valid_cron_expression,
        parse_cron_expression as parse_cron_expression,
    )

    __all__: list[str]
# isort: on

_ERRORS = "everwhen.errors"
_MODULES = {
    "everwhen.compat.herdctl": (
        "RunScheduleOptions ScheduleRunnerLogger ScheduleRunResult ScheduleState "
        "get_agent_schedule_states get_schedule_state run_schedule update_schedule_state"
    ),
    "everwhen.compat.pipelit": "execute_scheduled_job recover_scheduled_jobs start_scheduled_job",
    "everwhen.model.reasons": "ScheduleCheckResult ScheduleSkipReason",
    "everwhen.model.work_item": "WorkItem build_schedule_prompt",
    "everwhen.scheduler.answers": "Backfilled ScheduleInfo SchedulerState Upcoming Why",
    "everwhen.scheduler.async_scheduler": "AsyncJobHandle AsyncScheduler",
    "everwhen.scheduler.handles": "JobHandle JobInfo JobResult",
    "everwhen.scheduler.listeners": "SchedulerEvent",
    "everwhen.scheduler.options": (
        "AddOptions AgentScheduleInfo NewSchedule Run ScheduleOptions SchedulerLogger SchedulerOptions "
        "SchedulerStatus SchedulerTriggerCallback StopOptions"
    ),
    "everwhen.scheduler.requests": "AsyncRequestHandle RequestHandle",
    "everwhen.scheduler.scheduler": "Scheduler",
    "everwhen.targets.python_function": "TriggerInfo TriggerMetadata",
    "everwhen.timetable.cron": "CronExpression",
    "everwhen.timetable.interval": "parse_interval",
    "everwhen.timing": (
        "calculate_next_cron_trigger calculate_next_trigger is_schedule_due is_valid_cron_expression "
        "parse_cron_expression"
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker shall see the names above and no others

    def __getattr__(name: str) -> object:
        if name == "__all__":
            value = __dir__()
        elif sys.platform == "win32" and name in _MODULE_OF:
            raise ImportError(NOT_ON_WINDOWS)
        elif name in _MODULE_OF or name in _error_names():
            value = getattr(import_module(_MODULE_OF.get(name, _ERRORS)), name)
        else:
            raise AttributeError(f"module 'everwhen' has no attribute {name!r}")
        globals()[name] = value
        return value


def _error_names() -> list[str]:
    errors = vars(import_module(_ERRORS))
    root = errors["SchedulerError"]
    return [name for name, value in errors.items() if isinstance(value, type) and issubclass(value, root)]


def __dir__() -> list[str]:
    return sorted(["__version__", *_MODULE_OF, *_error_names()])
