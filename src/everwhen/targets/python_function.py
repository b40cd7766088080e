"""Python targets: finding and calling `module:function`, and the arguments that a function may take."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

from everwhen.model.cost import Cost, cost_of
from everwhen.model.host_fault import NotBegunError, host_fault_of
from everwhen.model.instants import optional_datetime, to_datetime
from everwhen.model.outcome import SUCCEEDED, Outcome, type_of
from everwhen.model.work_item import WorkItem
from everwhen.target import Run, StopFlag

LONGEST_RESULT = 64 * 1024
NOTHING_RAN = "the function holds a yield: it returned a generator, and nothing of it has run"
_log = logging.getLogger("everwhen.run")


JobContext = Callable[[], AbstractContextManager[object]]
"""Makes what each function of a program runs inside."""


class UnknownFunctionError(Exception):
    """The named function cannot be loaded."""


class Cancellable(Protocol):
    """The information that a function gets about its run."""

    @property
    def cancelled(self) -> Cancelled: ...

    @property
    def reported(self) -> Reported: ...


class Functions(Protocol):
    """Functions that a program has declared under its name, by the schedule that runs them."""

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> JobContext: ...

    def find(self, schedule_id: str, label: str) -> Callable[..., Any] | None: ...


def load(name: str) -> Callable[..., Any]:
    """Import the function when it is first needed; UnknownFunctionError states what is wrong with the name."""
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise UnknownFunctionError(f'{name!r} is not of the form "module:function"')
    try:
        found: Any = importlib.import_module(module_name)
    except BaseException as error:  # third-party code runs during its import
        if (fault := host_fault_of(error)) is not None:  # the next attempt may find what it imports
            raise NotBegunError(fault, error) from error
        hint = "; install it, or put it on PYTHONPATH" if isinstance(error, ModuleNotFoundError) else ""
        text = f"cannot import {module_name!r}: {type(error).__name__}: {error}{hint}"
        raise UnknownFunctionError(text) from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UnknownFunctionError(f"{module_name!r} has no {path!r}") from None
    if callable(found):
        return found  # type: ignore[no-any-return]
    raise UnknownFunctionError(f"{name!r} is a {type(found).__name__}, not a function")


def imported(name: str) -> Callable[..., Any] | None:
    """Return the named function where its module is imported already, so that nothing has to be run or waited for."""
    module_name, _, path = name.partition(":")
    found: Any = sys.modules.get(module_name)
    if found is None or getattr(getattr(found, "__spec__", None), "_initializing", False):
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else None


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # the method, to look at it
    )


def call(function: Callable[[], Any], context: JobContext = nullcontext) -> Outcome:
    """Call a plain function; whatever it does is an outcome."""
    try:
        if context is nullcontext:
            return outcome_of(_called(function))
        with context():
            returned = _called(function)
        return outcome_of(returned)
    except BaseException as error:
        return failure_of(error)


async def call_async(
    function: Callable[[], Any], about: Cancellable, context: JobContext = nullcontext
) -> Outcome:
    """Await an async function; whatever it does is an outcome. A CancelledError that it raises itself is a failure."""
    try:
        with context():
            returned = await function()
        return outcome_of(returned)
    except asyncio.CancelledError as error:
        return Outcome("cancelled") if about.cancelled else failure_of(error)
    except BaseException as error:
        return failure_of(error)


def _called(function: Callable[[], Any]) -> Any:
    returned = function()
    return asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


# The argument of `on_trigger(info)` for a host that runs schedules itself.


TriggerCallback = Callable[["TriggerInfo"], Any]


class TriggerMetadata(NamedTuple):
    """A short description of the run."""

    job_id: str
    origin: str
    slot_at: datetime
    attempt: int
    repeat_number: int


@dataclass(frozen=True, slots=True)
class TriggerInfo:
    """One run for the host to perform; when the callback returns the job has succeeded, when it raises it failed.

    `agent` is None for a schedule that belongs to no agent. The prompt contains the work item's description, if there
    is an item; the item is claimed, and completed or released when the callback is over.
    """

    agent: str | None
    schedule_name: str
    prompt: str
    run: PythonRun
    work_item: WorkItem | None = None

    @property
    def schedule_id(self) -> str:
        """Return the id of the schedule."""
        return self.run.schedule_id

    @property
    def job_id(self) -> str:
        """Return the id of the job, which is also its idempotency key."""
        return self.run.job_id

    @property
    def slot_at(self) -> datetime:
        """Return the planned instant."""
        return self.run.slot_at

    @property
    def payload(self) -> dict[str, Any]:
        """Return the payload of the run."""
        return self.run.payload

    @property
    def cancelled(self) -> Cancelled:
        """Return whether the run has to end; true after its deadline, a cancel or a stop."""
        return self.run.cancelled

    @property
    def reported(self) -> Reported:
        """Return what the run has reported: its cost, a summary."""
        return self.run.reported

    @property
    def metadata(self) -> TriggerMetadata:
        """Return what distinguishes this run from others of its schedule."""
        run = self.run
        return TriggerMetadata(run.job_id, run.origin, run.slot_at, run.attempt, run.repeat_number)


SchedulerTriggerCallback = Callable[[TriggerInfo], object]
"""`on_trigger(info)`, plain or async: its return value settles the job, an exception fails it."""


class Cancelled:
    """Whether the run has to end: because of its deadline, a cancel, or the stop of the node."""

    def __init__(self, event: threading.Event | StopFlag) -> None:
        self._event = event

    def is_set(self) -> bool:
        return self._event.is_set()

    __bool__ = is_set  # so that `if run.cancelled:` works

    def wait(self, seconds: float | None = None) -> bool:
        """Sleep for at most `seconds`; return True when the run has to end."""
        return self._event.wait(seconds)


class RunLog:
    """Log lines of a run: kept with its output, and passed to the logger `everwhen.run`."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    def __call__(self, message: object, *values: object) -> None:
        self._line(logging.INFO, message, values)

    info = __call__

    def debug(self, message: object, *values: object) -> None:
        self._line(logging.DEBUG, message, values)

    def warning(self, message: object, *values: object) -> None:
        self._line(logging.WARNING, message, values)

    def error(self, message: object, *values: object) -> None:
        self._line(logging.ERROR, message, values)

    def _line(self, level: int, message: object, values: tuple[object, ...]) -> None:
        text = str(message) % values if values else str(message)
        _log.log(level, "%s", text)
        self._write(f"{logging.getLevelName(level)} {text}\n".encode())


@dataclass(slots=True)
class Reported:
    """What a function has reported so far."""

    cost: Cost | None = None
    summary: str | None = None
    usage: Any = None

    def added_to(self, outcome: Outcome) -> Outcome:
        if self.cost is not None:
            outcome = outcome._replace(cost=self.cost)
        if self.usage is not None:
            outcome = outcome._replace(events=outcome.events + json.dumps({"usage": self.usage}) + "\n")
        if self.summary is not None and outcome.status == "succeeded":
            outcome = outcome._replace(result=self.summary[:LONGEST_RESULT])
        return outcome


@dataclass(frozen=True, slots=True)
class PythonRun:
    """The argument of a Python function."""

    job_id: str
    schedule_id: str
    schedule_name: str
    slot_at: datetime
    attempt: int
    origin: str
    catch_up: bool
    repeat_number: int
    payload: dict[str, Any]
    deadline_at: datetime | None
    log: RunLog = field(compare=False)
    cancelled: Cancelled = field(compare=False)
    reported: Reported = field(default_factory=Reported, compare=False, repr=False)

    def report(
        self,
        cost: Cost | str | Mapping[str, Any] | None = None,
        *,
        summary: str | None = None,
        usage: Any = None,
    ) -> None:
        """Report what the run cost (`"0.42 USD"`), a summary, and its usage; the last report counts.

        Raise CostError for a cost that is not an amount with a unit.
        """
        if cost is not None:
            self.reported.cost = cost_of(cost)
        if summary is not None:
            self.reported.summary = summary
        if usage is not None:
            self.reported.usage = usage


def python_run(run: Run) -> PythonRun:
    """Return what a function gets; every run of every function pays for this."""
    return PythonRun(
        run.job_id,
        run.schedule_id,
        run.schedule_name,
        to_datetime(run.slot_at),
        run.attempt,
        origin=run.origin,
        catch_up=run.catch_up,
        repeat_number=run.repeat_number,
        payload=run.payload,
        deadline_at=optional_datetime(run.deadline_at),
        log=RunLog(partial(run.output.write, "log")),
        cancelled=Cancelled(run.cancelled),
    )


def fields_of_run(run: Run) -> dict[str, Any]:
    """Return the run as plain values, for the child process of an isolated function."""
    return {one.name: getattr(run, one.name) for one in fields(PythonRun) if one.compare}


def read_run(
    fields: dict[str, Any], write: Callable[[bytes], None], cancelled: threading.Event | StopFlag
) -> PythonRun:
    datetimes = {name: optional_datetime(fields[name]) for name in ("slot_at", "deadline_at")}
    return PythonRun(**{**fields, **datetimes}, log=RunLog(write), cancelled=Cancelled(cancelled))


def outcome_of(returned: object) -> Outcome:
    """Return the outcome for a function's return value: an outcome as it is, anything else as the text of a success."""
    if isinstance(returned, Outcome):
        return returned
    if returned is None:
        return SUCCEEDED
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        return Outcome("failed", error=NOTHING_RAN, is_final=True)
    if isinstance(returned, str):
        return Outcome("succeeded", result=returned[:LONGEST_RESULT])
    try:
        text = json.dumps(returned, default=str)
    except (TypeError, ValueError, RecursionError):
        return Outcome("succeeded", result=repr(returned)[:LONGEST_RESULT])
    is_json = isinstance(returned, dict | list | tuple) and len(text) <= LONGEST_RESULT
    return Outcome("succeeded", result=text[:LONGEST_RESULT], is_json=is_json)


def failure_of(error: BaseException) -> Outcome:
    """Return the outcome for an exception, with its traceback, without the frames of the calling code."""
    if isinstance(error, SystemExit):  # like an exit code: 0 succeeds, 78 is final
        code = 0 if error.code is None else error.code
        text = f"called sys.exit({code!r})"
        return Outcome("succeeded") if code == 0 else Outcome("failed", error=text, is_final=code == 78)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("everwhen.targets."):
        trace = trace.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, trace, limit=-30))
    except Exception:  # an exception that cannot be printed
        text = f"{type(error).__name__}, which cannot be shown"
    return Outcome("failed", error=text.strip()[-LONGEST_RESULT:], error_type=type_of(error))
