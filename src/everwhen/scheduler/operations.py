"""What a program can do with the schedules of a database, whether its scheduler runs or not."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, get_args, overload

from everwhen.config.equal_submissions import EqualSubmissions
from everwhen.config.submission import SubmissionRules, read_change
from everwhen.errors import ConfigError, DuplicateScheduleError, UnknownScheduleError, shown
from everwhen.model.declare import Declared
from everwhen.model.instants import SECOND, to_datetime
from everwhen.model.job import JobStatus
from everwhen.model.policy import IfRunning
from everwhen.model.queries import JobFilter, ScheduleFilter
from everwhen.model.reasons import ScheduleCheckResult, SkipReason
from everwhen.model.request import Request
from everwhen.model.schedule import Schedule, State, Status
from everwhen.model.token import NO_LIMITS, AccessRole, Token
from everwhen.operations import job_access, listening, requests, tokens
from everwhen.operations import jobs as job_operations
from everwhen.operations import schedules as operations
from everwhen.operations import upcoming as coming
from everwhen.operations import why as reasons
from everwhen.operations.access import Caller, get_entry, list_entries
from everwhen.operations.jobs import FiringResult, trigger_schedule
from everwhen.operations.requests import Submission
from everwhen.operations.submissions import ADDED
from everwhen.runtime import Runtime
from everwhen.scheduler.answers import (
    Backfilled,
    ScheduleInfo,
    Upcoming,
    Why,
    backfilled,
    entry_info,
    schedule_info,
    schedule_table,
    upcoming_of,
    why_of,
)
from everwhen.scheduler.callables import (
    ON_TRIGGER,
    callee_of,
    checked_function,
    checked_word,
    function_target,
    id_of,
    refuse_other_arguments,
    with_arguments,
)
from everwhen.scheduler.declaring import Tasks, plain, read_schedule, rules_of
from everwhen.scheduler.former_names import decorator_fault, key_fault, method_fault, trigger_fault
from everwhen.scheduler.handles import JobHandle, JobInfo, JobResult, job_info
from everwhen.scheduler.options import AddOptions, Function, Instant, NewSchedule, UpdateOptions
from everwhen.scheduler.requests import RequestHandle
from everwhen.scheduler.zone_notice import ZoneNotice
from everwhen.targets.arguments import Arguments
from everwhen.timetable.civil_time import zone
from everwhen.timetable.instant_text import read_instant
from everwhen.timetable.trigger import parse_instant

if TYPE_CHECKING:
    from everwhen.operations.requests import SyncConnection

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])

log = logging.getLogger("everwhen")

_PAGE = 500
_TAKEN = "what was added stays in the database; replace_existing=True changes the schedule of this id"


class SchedulerOperations:
    """Every call is one transaction, and may come from any thread."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                method_fault(name) or f"{type(self).__name__!r} object has no attribute {name!r}",
                name=name,
                obj=self,
            )

    def __init__(
        self, tasks: Tasks, runtime: Callable[[], Runtime], *, zone_notice: ZoneNotice | None = None
    ) -> None:
        self._name = tasks.name
        self._zone_notice = zone_notice  # None: the program has named its zone
        self._tasks = tasks
        self._open_runtime = runtime

    # -- what comes and goes --

    @overload
    def add(
        self,
        id: str,
        function: Function | None = None,
        /,
        *,
        connection: None = None,
        **options: Unpack[AddOptions],
    ) -> ScheduleInfo: ...

    @overload
    def add(
        self,
        function: Function,
        /,
        *,
        id: str | None = None,
        connection: None = None,
        **options: Unpack[AddOptions],
    ) -> ScheduleInfo: ...

    @overload
    def add(
        self,
        id: str,
        function: Function | None = None,
        /,
        *,
        connection: SyncConnection,
        **options: Unpack[AddOptions],
    ) -> RequestHandle[ScheduleInfo]: ...

    @overload
    def add(
        self,
        function: Function,
        /,
        *,
        id: str | None = None,
        connection: SyncConnection,
        **options: Unpack[AddOptions],
    ) -> RequestHandle[ScheduleInfo]: ...

    def add(
        self,
        first: Any = None,
        second: Any = None,
        /,
        *others: Any,
        id: str | None = None,
        connection: SyncConnection | None = None,
        **options: Any,
    ) -> ScheduleInfo | RequestHandle[ScheduleInfo]:
        """Create a schedule that stays until it is removed, also when the program starts again.

        It runs a function, or any target (`run={"command": […]}`), or `on_trigger`: `add("sum", sum_up, every="5m")`
        or `add(sum_up, every="5m", id="sum")`. A function that cannot be imported, such as a lambda, needs an id,
        and runs only in this process: after a restart the schedule is invalid until the id is added again.

        `replace_existing=True` changes the schedule of that id where there is one: its counters stay, and where the
        definition is the same nothing happens.

        With `connection`, a psycopg connection of the program to the same PostgreSQL database, it takes effect when
        the program's transaction commits, or not at all.
        """
        refuse_former_call([first, second], others, id, options)
        if connection is not None:
            submission = self._request_add(first, second, id, options)
            return self._submit(submission, connection, self._schedule_of)
        function, schedule_id = _function_and_id(first, second, id)
        may_replace = bool(options.pop("replace_existing", False))
        around = rules_of(self._runtime, self._name)
        declared = self._declared(schedule_id, function, options, around)
        if not declared.target.is_local:
            return self._info_of(self._put(declared, may_replace))
        assert function is not None
        with self._tasks.adding(declared.schedule_id, function):
            added = self._put(declared, may_replace)
        return self._info_of(added)

    def add_many(self, schedules: Iterable[NewSchedule]) -> list[ScheduleInfo]:
        """Create many in one transaction, all or none; each has its `id`."""
        around = rules_of(self._runtime, self._name)
        declared, equal = [], EqualSubmissions()
        for fields in schedules:
            options: dict[str, Any] = dict(fields)
            schedule_id, function = options.pop("id"), options.pop("function", None)
            read = partial(self._declared, schedule_id, function, options, around)
            declared.append(equal.read(options, schedule_id, read) if function is None else read())
            if declared[-1].target.is_local:
                raise ConfigError(
                    f"{declared[-1].place or schedule_id} cannot be imported; add it with `add`"
                )
        created = zip(self._create(declared), declared, strict=True)
        return [schedule_info(state, one.definition, ADDED) for state, one in created]

    @overload
    def update(
        self, schedule_id: str, *, connection: None = None, **changes: Unpack[UpdateOptions]
    ) -> ScheduleInfo: ...

    @overload
    def update(
        self, schedule_id: str, *, connection: SyncConnection, **changes: Unpack[UpdateOptions]
    ) -> RequestHandle[ScheduleInfo]: ...

    def update(
        self, schedule_id: str, *, connection: SyncConnection | None = None, **changes: Any
    ) -> ScheduleInfo | RequestHandle[ScheduleInfo]:
        """Change some keys of a schedule that was added, at once; a key of its trigger replaces the trigger."""
        if connection is not None:
            submission = self._request_update(schedule_id, changes)
            return self._submit(submission, connection, self._schedule_of)
        state = operations.rewrite_schedule(
            self._runtime, schedule_id, self._rewriting(changes), source=ADDED, actor=self._name
        )
        return self._info_of(state)

    @overload
    def remove(self, schedule_id: str, *, cancel_running: bool = False, connection: None = None) -> None: ...

    @overload
    def remove(
        self, schedule_id: str, *, cancel_running: bool = False, connection: SyncConnection
    ) -> RequestHandle[None]: ...

    def remove(
        self, schedule_id: str, *, cancel_running: bool = False, connection: SyncConnection | None = None
    ) -> RequestHandle[None] | None:
        """Delete it; its record stays, and its running jobs continue, unless `cancel_running` is set.

        One that is declared, in code or in a file, comes back when that is loaded again: a warning in the log names it.
        """
        self._warn_of_declared(schedule_id)
        if connection is not None:
            submission = self._request_removal(schedule_id, cancel_running)
            return self._submit(submission, connection, lambda _request: None)
        operations.delete_schedule(self._runtime, schedule_id, cancel_running=cancel_running, by=self._name)
        self._tasks.drop_local(schedule_id)
        return None

    def _warn_of_declared(self, schedule_id: str) -> None:
        try:
            source = get_entry(self._runtime, schedule_id, self._caller).source
        except UnknownScheduleError:  # the deletion itself says so
            return
        kind, _, program = source.partition(":")
        if program:
            log.warning(
                'schedule "%s" is declared by the program "%s", and comes back at its next start: remove its decorator '
                "or its agent as well",
                schedule_id,
                program,
            )
        elif kind == "config":
            log.warning(
                'schedule "%s" is declared in the configuration file, and comes back at the next start or reload: '
                "remove it there as well",
                schedule_id,
            )

    def remove_all(self, *, cancel_running: bool = False) -> int:
        """Delete all that was added to this database from Python; return how many there were."""
        added = [one.id for one in self.schedules() if one.source == ADDED]
        for schedule_id in added:
            self.remove(schedule_id, cancel_running=cancel_running)
        return len(added)

    def pause(
        self, schedule_id: str, *, note: str | None = None, until: Instant | None = None
    ) -> ScheduleInfo:
        """Fire nothing until it is resumed, or until then."""
        ends_at = None if until is None else self._instant(schedule_id, until)
        paused = operations.pause_schedule(
            self._runtime, schedule_id, actor=self._name, note=note, until=ends_at
        )
        return self._info_of(paused)

    def resume(self, schedule_id: str) -> ScheduleInfo:
        return self._info_of(operations.resume_schedule(self._runtime, schedule_id, by=self._name))

    def pause_all(self) -> None:
        """Pause the whole system: nothing fires and no job starts, in any process, until `resume_all`."""
        operations.pause_system(self._runtime, by=self._name)

    def resume_all(self) -> None:
        operations.resume_system(self._runtime, by=self._name)

    def revive(self, schedule_id: str) -> ScheduleInfo:
        """Start a schedule that is done or dead anew."""
        return self._info_of(operations.revive_schedule(self._runtime, schedule_id, by=self._name))

    # -- runs beside the clock's --

    @overload
    def trigger(
        self,
        schedule_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        if_running: IfRunning = "queue",
        connection: None = None,
    ) -> JobHandle: ...

    @overload
    def trigger(
        self,
        schedule_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        if_running: IfRunning = "queue",
        connection: SyncConnection,
    ) -> RequestHandle[JobResult]: ...

    def trigger(
        self,
        schedule_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        if_running: IfRunning = "queue",
        connection: SyncConnection | None = None,
    ) -> JobHandle | RequestHandle[JobResult]:
        """Run it now, independently of its slots; the payload is merged over the schedule's."""
        if connection is not None:
            submission = self._request_trigger(schedule_id, payload, if_running)
            return self._submit(submission, connection, self._job_of, is_awaited=True)
        _refuse_trigger(payload, if_running)
        return self._handle(
            trigger_schedule(self._runtime, schedule_id, payload=payload, if_running=if_running)
        )

    def rerun(self, job_id: str, *, if_running: IfRunning = "queue") -> JobHandle:
        """Run a job that has ended once more, with its slot and its payload."""
        checked_word("if_running", if_running, get_args(IfRunning))
        fired = job_access.rerun_job(self._runtime, job_id, self._caller, if_running=if_running)
        return self._handle(fired)

    def cancel(self, job_id: str) -> JobInfo:
        """Cancel a job: a queued one ends at once, a running one as soon as its process has ended it."""
        return job_info(job_access.cancel_job(self._runtime, job_id, self._caller))

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
        checked_word("if_running", if_running, get_args(IfRunning))
        first, last = (to_datetime(self._instant(schedule_id, moment)) for moment in (start, end))
        found = job_operations.backfill(
            self._runtime, schedule_id, first, last, if_running=if_running, dry_run=dry_run
        )
        return backfilled(found)

    # -- listeners --

    def forget_listener(self, name: str) -> None:
        """Delete what the database remembers of a listener with `scope="all"`, which no process declares any more.

        Where the name is used again, it begins then.
        """
        listening.forget_listener(self._runtime, name)

    # -- who may call the API --

    def create_token(self, name: str, role: AccessRole = "viewer", *, owner: str | None = None) -> str:
        """Create a token for the REST API and return its secret, which cannot be shown again."""
        return tokens.create_token(self._runtime, name, role, owner=owner).secret

    # -- questions --

    def get_schedule(self, schedule_id: str) -> ScheduleInfo:
        return self._read_info(schedule_id)

    def schedules(self, *, status: Status | None = None) -> list[ScheduleInfo]:
        """Return all schedules of the database, the oldest first; with `status` those of one status."""
        if status is not None:
            checked_word("status", status, get_args(Status))
        return [*self._all_schedules(status)][::-1]

    def jobs(
        self, schedule: str | None = None, *, status: JobStatus | None = None, limit: int = 100
    ) -> list[JobInfo]:
        """Return jobs, the newest first: of all schedules or of one, of all statuses or of one."""
        if status is not None:
            checked_word("status", status, get_args(JobStatus))
        if limit < 1:
            raise ConfigError(f"limit is {limit}; it must be at least 1")
        wanted = JobFilter(statuses=() if status is None else (status,))
        page = job_access.list_jobs(self._runtime, wanted, self._caller, schedule_id=schedule, limit=limit)
        return [job_info(job) for job in page.jobs]

    def get_job(self, job_id: str) -> JobInfo:
        return job_info(job_operations.get_job(self._runtime, job_id))

    def print_schedules(self, *, status: Status | None = None) -> None:
        """Print a table of the schedules: id, status, trigger in words, next run."""
        print(schedule_table(self.schedules(status=status)))  # that is what it is for

    def check_schedule(self, schedule_id: str) -> ScheduleCheckResult:
        """Return whether it would fire now, and the reason if not."""
        return operations.check(self._runtime, schedule_id)

    def upcoming(self, schedule_id: str, count: int = 10) -> list[Upcoming]:
        """Return the next slots."""
        return upcoming_of(coming.upcoming(self._runtime, schedule_id, count))

    def why(self, schedule_id: str, at: Instant | None = None) -> Why:
        """Explain what happened to the slot nearest to an instant (default: the last one)."""
        instant = None if at is None else self._instant(schedule_id, at)
        return why_of(reasons.why(self._runtime, schedule_id, instant))

    # -- requests inside the program's own transaction --

    def _request_add(self, first: Any, second: Any, id: str | None, options: Mapping[str, Any]) -> Submission:
        function, schedule_id = _function_and_id(first, second, id)
        fields = dict(options)
        may_replace = bool(fields.pop("replace_existing", False))
        declared = self._declared(schedule_id, function, fields, rules_of(self._runtime, self._name))
        if declared.target.is_local:
            raise ConfigError(
                f'schedule "{shown(declared.schedule_id)}": its function cannot be imported, and a request with '
                "connection= is carried out by any process; move the function to the top level of a module"
            )
        known = operations.find_schedule(self._runtime, declared.schedule_id)
        may_replace = may_replace or (known is not None and known.definition.target.is_local)
        return requests.request_add(self._runtime, declared, may_replace=may_replace, actor=self._name)

    def _request_update(self, schedule_id: str, changes: Mapping[str, Any]) -> Submission:
        rewrite = self._rewriting(changes)
        return requests.request_update(self._runtime, schedule_id, rewrite, actor=self._name)

    def _request_removal(self, schedule_id: str, cancel_running: bool) -> Submission:
        return requests.request_removal(
            self._runtime, schedule_id, cancel_running=cancel_running, actor=self._name
        )

    def _request_trigger(
        self, schedule_id: str, payload: Mapping[str, Any] | None, if_running: IfRunning
    ) -> Submission:
        _refuse_trigger(payload, if_running)
        return requests.request_trigger(self._runtime, schedule_id, payload=payload, if_running=if_running)

    def _submit(
        self,
        submission: Submission,
        connection: SyncConnection,
        answer: Callable[[Request], T | None],
        *,
        is_awaited: bool = False,
    ) -> RequestHandle[T]:
        requests.submit_request(self._runtime, submission, connection)
        return self._request_handle(submission, answer, is_awaited=is_awaited)

    def _request_handle(
        self, submission: Submission, answer: Callable[[Request], T | None], *, is_awaited: bool = False
    ) -> RequestHandle[T]:
        def look(request_id: str) -> Request | None:
            return requests.get_request(self._runtime, request_id)

        return RequestHandle(submission.request, look, answer, is_awaited=is_awaited)

    def _schedule_of(self, request: Request) -> ScheduleInfo:
        return self.get_schedule(request.schedule_id)

    def _job_of(self, request: Request) -> JobResult | None:
        """Return how the job of a trigger ended; None while it is queued or runs."""
        reason: SkipReason | None = request.reason  # type: ignore[assignment]  # as a decision said it
        return JobHandle(self.get_job, request.job_id, reason).ended()

    # -- inside --

    def _notice_zone(self, declared: Declared, fields: Mapping[str, Any]) -> Declared:
        """Warn once of a schedule that nobody has given a zone; return it."""
        if self._zone_notice is not None:
            self._zone_notice.look(declared, fields)
        return declared

    @property
    def _runtime(self) -> Runtime:
        return self._open_runtime()

    @cached_property
    def _caller(self) -> Caller:
        """Return the program as the caller of operations: it may do everything."""
        return Caller(Token(ADDED, self._name, "admin", None, NO_LIMITS, created_at=0), allows_code=True)

    def _handle(self, firing: FiringResult) -> JobHandle:
        return JobHandle(self.get_job, firing.job_id, firing.skip_reason)

    def _read_info(self, schedule_id: str) -> ScheduleInfo:
        return entry_info(get_entry(self._runtime, schedule_id, self._caller))

    def _info_of(self, state: State) -> ScheduleInfo:
        """Return a schedule that a call has just changed, with what its row does not say about it."""
        return self._read_info(state.schedule_id)

    def _all_schedules(self, status: Status | None) -> Iterator[ScheduleInfo]:
        before: int | None = None
        while True:
            page = list_entries(
                self._runtime, ScheduleFilter(status), self._caller, limit=_PAGE, before=before
            )
            for entry in page.entries:
                yield entry_info(entry)
            if not page.has_more:
                return
            before = page.entries[-1].schedule.state.row_id

    def _create(self, declared: list[Declared]) -> list[State]:
        return operations.create_declared(self._runtime, declared, source=ADDED, actor=self._name)

    def _put(self, declared: Declared, may_replace: bool) -> State:
        """Create a schedule, or change the one of its id, if it may be replaced or has lost its local function."""
        known = operations.find_schedule(self._runtime, declared.schedule_id)
        if known is not None and (may_replace or known.definition.target.is_local):
            return operations.replace_schedule(self._runtime, declared, source=ADDED, actor=self._name)
        try:
            (added,) = self._create([declared])
        except DuplicateScheduleError as error:
            error.add_note(_TAKEN)
            raise
        return added

    def _rewriting(self, changes: Mapping[str, Any]) -> Callable[[Schedule], Declared]:
        """Return what changes these keys of a schedule."""
        around = rules_of(self._runtime, self._name)
        refuse_former_keys(changes)
        fields: dict[str, Any] = plain(changes, keep_none=True)
        given: dict[str, Any] = {key: fields.pop(key) for key in ("args", "kwargs") if key in fields}

        def rewrite(schedule: Schedule) -> Declared:
            declared = read_change(fields, schedule.state.schedule_id, schedule.definition, around)
            return declared if not given else self._with_arguments(declared, given)

        return rewrite

    def _with_arguments(self, declared: Declared, changes: Mapping[str, Any]) -> Declared:
        """Return the declaration with other arguments of its function; those that are not named stay."""
        spec = json.loads(declared.target.spec)
        refuse_other_arguments(declared.schedule_id, changes.get("args"), changes.get("kwargs"))
        given = Arguments.of_spec({**spec, **changes})
        function = self._tasks.find(declared.schedule_id, spec.get("function", ""))
        target = with_arguments(declared.schedule_id, declared.target, function, given)
        return replace(declared, target=target, definition=replace(declared.definition, target=target))

    def _declared(
        self,
        schedule_id: str | None,
        function: Function | None,
        options: Mapping[str, Any],
        around: SubmissionRules,
    ) -> Declared:
        fields = dict(options)
        args, kwargs = fields.pop("args", None), fields.pop("kwargs", None)
        refuse_former_keys(fields)
        if function is None:
            declared = self._declared_without_function(schedule_id, fields, around)
            return self._notice_zone(declared, fields)
        name = shown(schedule_id or id_of(function))
        if "run" in fields:
            raise ConfigError(f'schedule "{name}": give a function or run, not both')
        callee = callee_of(name, function, args, kwargs)
        if callee.is_importable:
            target = function_target(callee.label, None, given=callee.given)
        elif schedule_id is None:
            raise ConfigError(f"{callee.label} cannot be imported; give the schedule an id, with id=…")
        else:
            process = self._tasks.process
            target = function_target(callee.label, self._name, given=callee.given, process=process)
            around = replace(around, bound_to=f"{self._name}/{process}")
        declared = read_schedule(schedule_id or id_of(function), plain(fields), around, target=target)
        return self._notice_zone(declared, fields)

    def _declared_without_function(
        self, schedule_id: str | None, fields: Mapping[str, Any], around: SubmissionRules
    ) -> Declared:
        if schedule_id is None:
            raise ConfigError("a schedule without a function needs an id")
        if "run" in fields:
            target = None
        elif self._tasks.has_host:
            target = function_target(ON_TRIGGER, self._name)
        else:
            raise ConfigError(
                f'schedule "{shown(schedule_id)}" has nothing to run: give a function, run={{…}}, '
                "or the scheduler an on_trigger"
            )
        return read_schedule(schedule_id, plain(fields), around, target=target)

    def _instant(self, schedule_id: str, moment: Instant) -> int:
        """Return an instant; without an offset it is read in the schedule's zone."""
        runtime = self._runtime
        try:
            where = operations.get_schedule(runtime, schedule_id).definition.zone
        except UnknownScheduleError:  # deleted; its record goes on answering
            where = zone(runtime.timezone)
        if isinstance(moment, datetime):
            return parse_instant(moment.isoformat(), where) * SECOND
        return read_instant(moment, where, to_datetime(runtime.clock.now())) * SECOND


def _function_and_id(first: Any, second: Any, id: str | None) -> tuple[Function | None, str | None]:
    """Return the function and the id that `add` was given: `add(id, function)` or `add(function, id=…)`."""
    if callable(first):
        if second is not None:
            raise ConfigError("add takes the id and the function, or the function and id=…")
        return first, id
    if id is not None:
        raise ConfigError(f'add was given two ids, "{shown(first)}" and "{shown(id)}"; give one')
    return None if second is None else checked_function(second), first


def refuse_former_call(
    parts: Sequence[Any], others: Sequence[Any], id: str | None, options: Mapping[str, Any]
) -> None:
    """Refuse more arguments than `add` has, and the trigger as one of them, with the call as it should be."""
    fault = trigger_fault(parts, others, id, options)
    if fault is None and parts[0] is None:
        fault = "add takes the id and the function, or the function and id=…"
    if fault is None and others:
        fault = f"add takes an id and a function, and everything else by its name; {shown(others[0])} is one too many"
    if fault is not None:
        raise ConfigError(fault)


def _refuse_trigger(payload: Mapping[str, Any] | None, if_running: str) -> None:
    checked_word("if_running", if_running, get_args(IfRunning))
    if payload is not None and not isinstance(payload, Mapping):
        raise ConfigError(
            f"the payload is a {type(payload).__name__}; it must be a mapping with text as keys"
        )


def asks_for_trigger(method: Method) -> Method:
    """Have a method that makes a decorator answer a call without its trigger with the call as it should be."""
    trigger = method.__code__.co_varnames[1]

    @wraps(method)
    def call(self: Any, /, *values: Any, **options: Any) -> Any:
        if not values and trigger not in options:
            raise ConfigError(decorator_fault(method.__name__, options))
        return method(self, *values, **options)

    return cast(Method, call)


def refuse_former_keys(fields: Mapping[str, Any]) -> None:
    fault = key_fault(fields)
    if fault is not None:
        raise ConfigError(fault)
