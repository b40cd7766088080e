"""Every error that everwhen raises on purpose, on one page.

An error says what is wrong, which value it was, and what to do; its fields hold the same for programs.
Things that are expected to happen (a lost claim, a skipped slot, a failed job) are values, not errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from reprlib import Repr
from typing import Any, Literal


class SchedulerError(Exception):
    """The root: catch this to catch everything that everwhen raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., SchedulerError], tuple[Any, ...]]:
        # Subclasses take keyword fields, which pickle's default protocol for exceptions would lose on the
        # way between processes.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[SchedulerError], args: tuple[Any, ...], fields: dict[str, Any]) -> SchedulerError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class IntervalParseError(SchedulerError, ValueError):
    """A text that is no duration; `interval` holds it as it was given."""

    def __init__(self, message: str, *, interval: object) -> None:
        super().__init__(message)
        self.interval = interval


class CronParseError(SchedulerError, ValueError):
    """A text that is no cron expression: the text, the field at fault, and one that would be right."""

    def __init__(self, fault: str, *, expression: object, field: str | None, example: str) -> None:
        super().__init__(f'Invalid cron expression "{shown(expression)}" - {fault}')
        self.expression = expression
        self.field = field
        self.example = example


class TimetableError(SchedulerError, ValueError):
    """A zone, window, jitter, bound or trigger that cannot be: the key it stands under, and its value."""

    def __init__(self, message: str, *, key: str, value: object = None) -> None:
        super().__init__(message)
        self.key = key
        self.value = value


class PayloadSizeError(TimetableError):
    """A payload that is larger than payloads may be."""


class MissingQuietHoursError(TimetableError):
    """A schedule names quiet hours that are not there."""

    def __init__(self, policy_id: str) -> None:
        super().__init__(
            f'quiet_hours: there are no "{shown(policy_id)}"', key="quiet_hours", value=policy_id
        )


class ScheduleTriggerError(SchedulerError):
    """Running one schedule of one agent failed."""

    def __init__(self, message: str, *, agent: str, schedule: str) -> None:
        super().__init__(message)
        self.agent = agent
        self.schedule = schedule


class SchedulerShutdownError(SchedulerError):
    """A stop that did not end cleanly: whether it timed out, and how many jobs were still running."""

    def __init__(self, message: str, *, timed_out: bool, running_job_count: int) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.running_job_count = running_job_count


class StatusError(SchedulerError):
    """A change of status that the schedule's status does not allow."""

    def __init__(self, verb: str, status: str, why: str = "") -> None:
        super().__init__(f"Cannot {verb} job with status '{status}'.{f' ({why})' if why else ''}")
        self.verb = verb
        self.status = status


class UnknownScheduleError(SchedulerError):
    """No schedule has this id."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__("Scheduled job not found.")
        self.schedule_id = schedule_id


class DuplicateScheduleError(SchedulerError):
    """A schedule with this id is there already."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f'duplicate schedule id "{schedule_id}"')
        self.schedule_id = schedule_id


class UnknownJobError(SchedulerError):
    """No job has this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f'job "{shown(job_id)}" not found')
        self.job_id = job_id


class SourceGoneError(SchedulerError):
    """A job whose schedule is deleted, so that nothing says how to run it."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f'the schedule of job "{shown(job_id)}" is deleted; make it again, and trigger it')
        self.job_id = job_id


class UnknownPolicyError(SchedulerError):
    """No quiet hours have this id."""

    def __init__(self, policy_id: str) -> None:
        super().__init__(f'there are no quiet hours "{shown(policy_id)}"')
        self.policy_id = policy_id


class DuplicatePolicyError(SchedulerError):
    """Quiet hours with this id are there already."""

    def __init__(self, policy_id: str) -> None:
        super().__init__(
            f'quiet hours "{shown(policy_id)}" are there already; change those, or choose another id'
        )
        self.policy_id = policy_id


class UnknownBreakerError(SchedulerError):
    """No schedule has a breaker of this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f'there is no circuit breaker "{shown(key)}"')
        self.key = key


class RequestError(SchedulerError):
    """A request to a schedule that the clock fires."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f'"{shown(schedule_id)}" is no webhook or chat schedule; trigger it instead')
        self.schedule_id = schedule_id


class PreconditionError(SchedulerError):
    """Somebody else changed the schedule since it was read."""

    def __init__(self, expected: int, revision: int) -> None:
        super().__init__(
            f"the schedule is at revision {revision}, not {expected}; read it again and decide anew"
        )
        self.expected = expected
        self.revision = revision


class UnseenRevisionError(SchedulerError):
    """A schedule that waits for approval, and nobody said which revision of it was looked at."""

    def __init__(self, revision: int) -> None:
        super().__init__(
            "this schedule waits for approval: look at it, then approve the revision that you saw "
            f"(approve/ with its number, or resume/ with If-Match; it is at revision {revision} now)"
        )
        self.revision = revision


class SourceError(SchedulerError):
    """A schedule or policy of the configuration file, to be changed by another way."""

    def __init__(self, what: str, source: str) -> None:
        where = "the configuration file" if source == "config" else "code"
        super().__init__(f"{what} is declared in {where}; change it there")
        self.source = source


class UnknownGroupError(SchedulerError, LookupError):
    """A plugin, agent or workflow that does not exist, or not for this caller."""

    def __init__(self, kind: str, name: str) -> None:
        is_workflow = kind == "workflow"
        super().__init__("Workflow not found." if is_workflow else f'there is no {kind} "{shown(name)}"')
        self.kind = kind
        self.name = name


class TokenError(SchedulerError, ValueError):
    """A token that cannot be made, or that there is not."""


class UnknownTokenError(TokenError):
    """No token in force has this id."""

    def __init__(self, token_id: str) -> None:
        super().__init__(f'there is no token "{shown(token_id)}" in force')
        self.token_id = token_id


class AccessError(SchedulerError):
    """Something that this caller may not do."""


class LimitError(AccessError):
    """Something beyond a limit of the caller's token; `limit` is its name."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class QuotaError(LimitError):
    """As many schedules as a token may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"this token may have {most} schedules; delete some first", limit="max_schedules")
        self.most = most


class FiringLimitError(LimitError):
    """More firings than a token may cause in an hour or a day; `retry_after` is in seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(
            f"this token has caused as many firings as it may by now; try again in {retry_after}s",
            limit="fires",
        )
        self.retry_after = retry_after


class RepeatedRequestError(SchedulerError):
    """An Idempotency-Key that was used before."""

    def __init__(self, key: str) -> None:
        super().__init__(f'the Idempotency-Key "{shown(key)}" was used for another request')
        self.key = key


class OutcomeError(SchedulerError):
    """A report of an outcome that cannot be taken."""


class BackfillError(SchedulerError):
    """A backfill that cannot be."""


class PolicyInUseError(SchedulerError):
    """A quiet-hours policy that schedules still use."""

    def __init__(self, policy_id: str, schedules: int, some: Iterable[str] = ()) -> None:
        self.some = tuple(some)  # the first of them
        named = f" ({', '.join(self.some)}{', …' if schedules > len(self.some) else ''})" if self.some else ""
        super().__init__(
            f'quiet hours "{policy_id}" are used by {schedules} schedule(s){named}; change those first'
        )
        self.policy_id = policy_id
        self.schedules = schedules


class ConfigError(SchedulerError):
    """A configuration that cannot be used."""


class SubmissionError(ConfigError):
    """One schedule that cannot be: every problem with the path of the word that it is about."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(f"{path}: {what}" if path else what for path, what in self.problems))

    @property
    def is_oversize(self) -> bool:
        """Whether something is larger than it may be."""
        return any(_OVERSIZE.fullmatch(what) for _, what in self.problems)


def oversize(size: int, most: int) -> str:
    """The problem with something of so many bytes."""
    return f"is {size:,} bytes long; at most {most:,} are taken"


_OVERSIZE = re.compile(r"is [0-9,]+ bytes long; at most [0-9,]+ are taken")


class ManifestError(ConfigError):
    """A plugin that cannot be used: where its manifest is, and everything that is wrong with it."""

    def __init__(self, path: str, problems: list[str]) -> None:
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))
        self.path = path
        self.problems = tuple(problems)


class RemovalError(ConfigError):
    """A configuration that would remove most of what runs, and nobody said that this is meant."""

    def __init__(self, removed: int, present: int) -> None:
        super().__init__(
            f"this would remove {removed} of {present} schedules; if that is meant, say --yes, and otherwise look "
            "whether a file is missing"
        )
        self.removed = removed
        self.present = present


class WorkSourceError(SchedulerError):
    """A work source that does not do what it was asked; `exit_code` is that of its program, negative for a signal."""

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


StoreFault = Literal["locked", "full", "read_only", "away"]


class StoreError(SchedulerError):
    """A database that cannot be used; `fault` is what is wrong with it, where that is known."""

    def __init__(self, message: str, *, fault: StoreFault | None = None) -> None:
        super().__init__(message)
        self.fault = fault


class QuietHoursChangedError(StoreError):
    """Quiet hours that a schedule names were changed while it was written; nothing of it was."""

    def __init__(self, policy_id: str) -> None:
        super().__init__(
            f'quiet hours "{shown(policy_id)}" were changed at the same moment; nothing was written; try again'
        )
        self.policy_id = policy_id


class QueueError(SchedulerError):
    """A queue that jobs are handed over to and that cannot be used."""


class BackupError(SchedulerError):
    """A copy of the database that could not be made, or cannot be restored; `path` is where it was to be, or is."""

    def __init__(self, message: str, path: object) -> None:
        super().__init__(message)
        self.path = path


class MovedError(StoreError):
    """A database that `everwhen db copy` moved, or is moving; `to` is the new address, without its password."""

    def __init__(self, message: str, *, to: str) -> None:
        super().__init__(message)
        self.to = to


class CopyError(SchedulerError):
    """A database that cannot be copied to another; the target holds nothing of it."""


class UncertainCopyError(CopyError):
    """A copy whose commit was not answered: it may be there or not. The same command finds out and goes on."""


LONGEST_SHOWN = 100
# A few lines of YAML with aliases are a list of billions; nobody reads beyond the first hundred characters.
_BRIEFLY = Repr()
_BRIEFLY.maxlevel = 4
_BRIEFLY.maxlist = _BRIEFLY.maxtuple = _BRIEFLY.maxdict = _BRIEFLY.maxset = 20
_BRIEFLY.maxstring = _BRIEFLY.maxlong = _BRIEFLY.maxother = 2 * LONGEST_SHOWN


def shown(value: object) -> str:
    """The value as a message may show it: one line, printable, never longer than a hundred characters.

    >>> shown("0 9 *\\n* *")
    '0 9 *\\\\n* *'
    """
    text = value if isinstance(value, str) else _BRIEFLY.repr(value)
    text = text[: LONGEST_SHOWN + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def shown_url(url: str) -> str:
    """A database's URL as people may see it: without its password, however it is mistyped.

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
    if "?" in who:  # one of the options, or in the password: nobody knows where it ends
        return shown(f"{scheme}:…")
    user = rest.removeprefix("//").partition("@")[0].partition(":")[0]
    kept = f"{scheme}://{user}" if rest.startswith("//") else f"{scheme}:…"
    return shown(f"{kept}@{where.partition('?')[0]}")
