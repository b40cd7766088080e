"""Every error that everwhen raises on purpose.

The message of an error states what is wrong, which value it was, and what to do; its fields hold the same for programs.
Expected results (a lost claim, a skipped slot, a failed job) are values, not errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from reprlib import Repr
from typing import Any, Literal


class SchedulerError(Exception):
    """The root of the hierarchy: catch it to catch every error that everwhen raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., SchedulerError], tuple[Any, ...]]:
        # Subclasses have keyword-only fields. Pickle's default protocol for exceptions would lose them between
        # processes.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[SchedulerError], args: tuple[Any, ...], fields: dict[str, Any]) -> SchedulerError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class IntervalParseError(SchedulerError, ValueError):
    """A text that is not a valid duration; `interval` holds it unchanged."""

    def __init__(self, message: str, *, interval: object) -> None:
        super().__init__(message)
        self.interval = interval


class CostError(SchedulerError, ValueError):
    """A cost that is not an amount with a unit."""


class CronParseError(SchedulerError, ValueError):
    """A text that is not a valid cron expression: the text, the invalid field, and an example of a valid expression."""

    def __init__(self, fault: str, *, expression: object, field: str | None, example: str) -> None:
        super().__init__(f'Invalid cron expression "{shown(expression)}" - {fault}')
        self.expression = expression
        self.field = field
        self.example = example


class TimetableError(SchedulerError, ValueError):
    """An invalid zone, window, jitter, bound or trigger: its key and its value."""

    def __init__(self, message: str, *, key: str, value: object = None) -> None:
        super().__init__(message)
        self.key = key
        self.value = value


class PayloadSizeError(TimetableError):
    """A payload that exceeds the size limit."""


class MissingQuietHoursError(TimetableError):
    """A schedule refers to quiet hours that do not exist."""

    def __init__(self, policy_id: str) -> None:
        super().__init__(
            f'quiet_hours: there are no quiet hours "{shown(policy_id)}"', key="quiet_hours", value=policy_id
        )


class ScheduleTriggerError(SchedulerError):
    """Running one schedule of one agent failed."""

    def __init__(self, message: str, *, agent: str, schedule: str) -> None:
        super().__init__(message)
        self.agent = agent
        self.schedule = schedule


class SchedulerShutdownError(SchedulerError):
    """A shutdown that did not end cleanly: whether it timed out, and how many jobs were still running."""

    def __init__(self, message: str, *, timed_out: bool, running_job_count: int) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.running_job_count = running_job_count


class StatusError(SchedulerError):
    """A change of status that the schedule's current status does not allow."""

    def __init__(self, verb: str, status: str, why: str = "") -> None:
        super().__init__(f"Cannot {verb} job with status '{status}'.{f' ({why})' if why else ''}")
        self.verb = verb
        self.status = status


class UnknownScheduleError(SchedulerError):
    """No schedule has this id."""

    detail = "Scheduled job not found."  # over REST, where the address names it

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f'Scheduled job not found: there is no schedule "{shown(schedule_id)}"')
        self.schedule_id = schedule_id


class DuplicateScheduleError(SchedulerError):
    """A schedule with this id exists already."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f'duplicate schedule id "{schedule_id}"')
        self.schedule_id = schedule_id


class UnknownJobError(SchedulerError):
    """No job has this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f'job "{shown(job_id)}" not found')
        self.job_id = job_id


class SourceGoneError(SchedulerError):
    """The schedule of a job is deleted, so the definition that is needed to run the job is missing."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f'the schedule of job "{shown(job_id)}" is deleted; create the schedule again, and trigger it'
        )
        self.job_id = job_id


class UnknownPolicyError(SchedulerError):
    """No quiet hours have this id."""

    def __init__(self, policy_id: str) -> None:
        super().__init__(f'there are no quiet hours "{shown(policy_id)}"')
        self.policy_id = policy_id


class UnknownAlertError(SchedulerError):
    """No alert, delivery or rule of alerts has this name, or the caller may not see it."""

    def __init__(self, what: str, name: str, advice: str = "") -> None:
        super().__init__(f'there is no {what} "{shown(name)}"{advice}')
        self.name = name


class TooManyMatchesError(SchedulerError):
    """A text that is searched for is in the names of more schedules than one search takes."""

    def __init__(self, text: str, most: int) -> None:
        super().__init__(
            f'more than {most:,} schedules have "{shown(text)}" in a name; give more of the name'
        )
        self.text = text


class UnknownWebhookError(SchedulerError):
    """No webhook has this id, or the caller may not see it."""

    def __init__(self, webhook_id: str) -> None:
        super().__init__(f'there is no webhook "{shown(webhook_id)}"')
        self.webhook_id = webhook_id


class DuplicatePolicyError(SchedulerError):
    """Quiet hours with this id exist already."""

    def __init__(self, policy_id: str) -> None:
        super().__init__(
            f'quiet hours "{shown(policy_id)}" already exist; change those, or choose another id'
        )
        self.policy_id = policy_id


class UnknownBreakerError(SchedulerError):
    """No schedule has a breaker with this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f'there is no circuit breaker "{shown(key)}"')
        self.key = key


class RequestError(SchedulerError):
    """A webhook or chat request to a schedule that the clock fires."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f'"{shown(schedule_id)}" is not a webhook or chat schedule; trigger it instead')
        self.schedule_id = schedule_id


class UncommittedRequestError(SchedulerError):
    """A request was waited for before the transaction that it is part of was committed."""

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"request {request_id} is not committed: commit first, then wait; after a rollback there is nothing to "
            "wait for"
        )
        self.request_id = request_id


class RefusedRequestError(SchedulerError):
    """A request was refused when it was carried out, after the commit; `error` says why."""

    def __init__(self, request_id: str, error: str) -> None:
        super().__init__(f"request {request_id} was refused after the commit: {error}")
        self.request_id = request_id
        self.error = error


class PreconditionError(SchedulerError):
    """The schedule was changed by another caller after it was read."""

    def __init__(self, expected: int, revision: int) -> None:
        super().__init__(
            f"the schedule is at revision {revision}, not {expected}; read it again, and repeat the request "
            "if it is still right"
        )
        self.expected = expected
        self.revision = revision


class ExistingKeyError(SchedulerError):
    """A schedule with the caller's key exists, and the request is for a new one; `problems` says how they differ."""

    def __init__(self, key: str, schedule_id: str, problems: Sequence[tuple[str, str]]) -> None:
        others = f" with another definition ({', '.join(path for path, _ in problems)})" if problems else ""
        text = f'a schedule with the key "{key}" exists{others}: {schedule_id}'
        super().__init__(text)
        self.key = key
        self.schedule_id = schedule_id
        self.problems = tuple(problems)


class UnseenRevisionError(SchedulerError):
    """The schedule waits for approval, and the request does not name the revision that was reviewed."""

    def __init__(self, revision: int) -> None:
        super().__init__(
            "this schedule waits for approval: look at it, then approve the revision that you saw "
            f"(approve/ with its number, or resume/ with If-Match; it is at revision {revision} now)"
        )
        self.revision = revision


class SourceError(SchedulerError):
    """An attempt to change a schedule or policy that is declared in the configuration file or in code."""

    def __init__(self, what: str, source: str) -> None:
        where = "the configuration file" if source == "config" else "code"
        super().__init__(f"{what} is declared in {where}; change it there")
        self.source = source


class UnknownGroupError(SchedulerError, LookupError):
    """A plugin, agent or workflow that does not exist, or is not available to this caller."""

    def __init__(self, kind: str, name: str) -> None:
        text = f'there is no {kind} "{shown(name)}"'
        super().__init__(f"Workflow not found: {text}" if kind == "workflow" else text)
        self.detail = "Workflow not found." if kind == "workflow" else text  # over REST
        self.kind = kind
        self.name = name


class TokenError(SchedulerError, ValueError):
    """A token that cannot be created, or that does not exist."""


class UnknownTokenError(TokenError):
    """No valid token has this id."""

    def __init__(self, token_id: str) -> None:
        super().__init__(f'there is no token "{shown(token_id)}", or it is revoked')
        self.token_id = token_id


class AccessError(SchedulerError):
    """An operation that this caller may not perform."""


class LimitError(AccessError):
    """An operation beyond a limit of the caller's token; `limit` is the name of the limit."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class QuotaError(LimitError):
    """The token has as many schedules as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"this token may have at most {counted(most, 'schedule')}; delete one first",
            limit="max_schedules",
        )
        self.most = most


class WebhookQuotaError(LimitError):
    """The token has as many webhooks as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"this token may have at most {counted(most, 'webhook')}; delete one first", limit="webhooks"
        )
        self.most = most


class FiringLimitError(LimitError):
    """A token, or a group or owner, has caused as many firings as it may in a window; `retry_after` is in seconds."""

    def __init__(
        self, retry_after: int, whose: str = "this token", *, text: str | None = None, limit: str = "fires"
    ) -> None:
        text = text or f"{whose} has reached its limit of firings"
        super().__init__(f"{text}; try again in {retry_after}s", limit=limit)
        self.retry_after = retry_after


class TooSoonError(FiringLimitError):
    """The token lets a schedule, or what replaces it, fire again later; `retry_after` is in seconds."""

    def __init__(self, retry_after: int) -> None:
        text = "this is too soon after the last firing of this schedule, or of the one that it replaces"
        super().__init__(retry_after, text=text, limit="min_interval")


class CostLimitError(FiringLimitError):
    """A token, or a group or owner, has spent as much as it may in a window; `retry_after` is in seconds."""

    def __init__(self, retry_after: int, whose: str = "this token") -> None:
        super().__init__(retry_after, text=f"{whose} has reached its limit of cost", limit="cost")


class RepeatedRequestError(SchedulerError):
    """An Idempotency-Key that was used for another request."""

    def __init__(self, key: str) -> None:
        super().__init__(f'the Idempotency-Key "{shown(key)}" was used for another request')
        self.key = key


class OutcomeError(SchedulerError):
    """A reported outcome that cannot be accepted."""


class BackfillError(SchedulerError):
    """A backfill that is not possible."""


class PolicyInUseError(SchedulerError):
    """A quiet-hours policy that schedules still use."""

    def __init__(self, policy_id: str, schedules: int, some: Iterable[str] = ()) -> None:
        self.some = tuple(some)  # the first of them
        named = f" ({', '.join(self.some)}{', …' if schedules > len(self.some) else ''})" if self.some else ""
        super().__init__(
            f'quiet hours "{policy_id}" are used by {counted(schedules, "schedule")}{named}; change those first'
        )
        self.policy_id = policy_id
        self.schedules = schedules


class ConfigError(SchedulerError):
    """A configuration that cannot be used."""


class SubmissionError(ConfigError):
    """An invalid schedule: every problem, with the path of the field it concerns."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(f"{path}: {what}" if path else what for path, what in self.problems))

    @property
    def is_oversize(self) -> bool:
        """Return whether a value exceeds its size limit."""
        return any(_OVERSIZE.fullmatch(what) for _, what in self.problems)


def oversize(size: int, most: int) -> str:
    """Return the text of the problem with a value of this many bytes."""
    return f"is {size:,} bytes long; at most {most:,} are allowed"


_OVERSIZE = re.compile(r"is [0-9,]+ bytes long; at most [0-9,]+ are allowed")


class ManifestError(ConfigError):
    """A plugin with an invalid manifest: the path of the manifest, and every problem with it."""

    def __init__(self, path: str, problems: list[str]) -> None:
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))
        self.path = path
        self.problems = tuple(problems)


class RemovalError(ConfigError):
    """A configuration that would remove most schedules, without the confirmation that this is intended."""

    def __init__(self, removed: int, present: int) -> None:
        super().__init__(
            f"this would remove {removed} of {present} schedules; confirm it with --yes, or check whether a file "
            "is missing"
        )
        self.removed = removed
        self.present = present


class WorkSourceError(SchedulerError):
    """A request to a work source that failed; `exit_code` is that of its program, negative for a signal."""

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


StoreFault = Literal["locked", "full", "read_only", "away", "moved"]


class StoreError(SchedulerError):
    """A database that cannot be used; `fault` is the cause, where it is known."""

    def __init__(self, message: str, *, fault: StoreFault | None = None) -> None:
        super().__init__(message)
        self.fault = fault


class QuietHoursChangedError(StoreError):
    """The quiet hours of a schedule were changed while the schedule was written; nothing was written."""

    def __init__(self, policy_id: str) -> None:
        super().__init__(
            f'quiet hours "{shown(policy_id)}" were changed at the same moment; nothing was written; try again'
        )
        self.policy_id = policy_id


class QueueError(SchedulerError):
    """An external job queue that cannot be used."""


class BackupError(SchedulerError):
    """A backup that could not be written or cannot be restored; `path` is its file."""

    def __init__(self, message: str, path: object) -> None:
        super().__init__(message)
        self.path = path


class MovedError(StoreError):
    """A database that `everwhen db copy` has moved or is moving; `to` is the new address, without its password."""

    def __init__(self, message: str, *, to: str) -> None:
        super().__init__(message, fault="moved")
        self.to = to


class CopyError(SchedulerError):
    """A database that cannot be copied to another one; the target contains none of its data."""


class UncertainCopyError(CopyError):
    """A copy whose commit was not confirmed, so it may exist or not. The same command checks that and continues."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where there is not exactly one.

    >>> counted(1, "schedule"), counted(1_200, "schedule")
    ('1 schedule', '1,200 schedules')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


LONGEST_SHOWN = 100
# A few lines of YAML with aliases can expand to a list of billions; a message shows only the first hundred characters.
_BRIEFLY = Repr()
_BRIEFLY.maxlevel = 4
_BRIEFLY.maxlist = _BRIEFLY.maxtuple = _BRIEFLY.maxdict = _BRIEFLY.maxset = 20
_BRIEFLY.maxstring = _BRIEFLY.maxlong = _BRIEFLY.maxother = 2 * LONGEST_SHOWN


def shown(value: object) -> str:
    """Return the value as a message may show it: one line, printable, at most a hundred characters.

    >>> shown("0 9 *\\n* *")
    '0 9 *\\\\n* *'
    """
    text = value if isinstance(value, str) else _BRIEFLY.repr(value)
    text = text[: LONGEST_SHOWN + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def shown_url(url: str) -> str:
    """Return a database URL for display: without its password, even when the URL is malformed.

    >>> shown_url("postgresql://app:secret@db.example/everwhen"), shown_url("sqlite:///everwhen.db")
    ('postgresql://app@db.example/everwhen', 'sqlite:///everwhen.db')
    >>> shown_url("postgresql:app:secret@db.example/everwhen"), shown_url("postgresql://app:s/#e@db.example/a")
    ('postgresql:…@db.example/everwhen', 'postgresql://app@db.example/a')
    """
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite":
        return shown(url)
    who, at, where = url.rpartition("@")
    if not at:
        return shown(url.partition("?")[0])
    if "?" in who:  # begins the options or is part of the password, so the end of the password is unknown
        return shown(f"{scheme}:…")
    user = rest.removeprefix("//").partition("@")[0].partition(":")[0]
    kept = f"{scheme}://{user}" if rest.startswith("//") else f"{scheme}:…"
    return shown(f"{kept}@{where.partition('?')[0]}")
