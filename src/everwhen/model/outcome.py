"""The outcome of a run, as the target reports it, with its output and the data that is written with it."""

from __future__ import annotations

import re
from itertools import dropwhile, takewhile
from typing import Literal, NamedTuple

from everwhen.model.cost import Cost
from everwhen.model.host_fault import HostFault

OutcomeStatus = Literal["succeeded", "failed", "timed_out", "cancelled", "lost"]


class PluginUpdate(NamedTuple):
    """State that a plugin stores: a JSON object, merged key by key over its stored state."""

    plugin: str
    updates: str


class NewMessage(NamedTuple):
    """A message for the subscribers: its JSON and its owner. An `event_id` is written only once."""

    event_id: str
    schedule_id: str
    uid: str
    owner: str | None
    job_id: str
    body: str


class Outcome(NamedTuple):
    """The outcome of one run.

    `is_final`: the target reports that a retry is of no use. `retry_after`: it requests a delay before the retry.
    `invalidates`: the declared target cannot be run any more, so the schedule stops. `also` is written by the
    transaction that settles the job, or not at all. `is_still_running`: the run has ended but its work has not; the
    worker reports its end. `awaits`: the work continues in another system, which reports the outcome with the
    token that has this hash. `is_interrupted`: a signal ended the process; while its node stops that is not a failure,
    and the job is run again. `events`: the events of the run, a line of JSON each; they are kept with its output.
    `cost`: what the run reports that it cost; `NOTHING` when it found nothing to do. `host_fault`: the host could not
    begin the job, of whose target nothing has run; the job is given back, uncounted. `is_json`: the result was an
    object or a list, and is written as JSON. `error_type`: the name of the exception whose traceback `error` is.
    """

    status: OutcomeStatus
    error: str | None = None
    result: str | None = None
    is_final: bool = False
    retry_after: int | None = None
    invalidates: bool = False
    also: PluginUpdate | NewMessage | None = None
    is_still_running: bool = False
    awaits: str | None = None
    is_interrupted: bool = False
    events: str = ""
    cost: Cost | None = None
    host_fault: HostFault | None = None
    is_json: bool = False
    error_type: str | None = None

    @property
    def is_failure(self) -> bool:
        """Return whether the run failed, was out of time, or was lost."""
        return self.status in ("failed", "timed_out", "lost")


SUCCEEDED = Outcome("succeeded")


def not_begun(fault: HostFault, error: BaseException) -> Outcome:
    """Return the outcome of a job that the host could not begin."""
    return Outcome("failed", error=str(error), host_fault=fault)


_TRACEBACK = "Traceback (most recent call last):\n"
# What stands between the traceback of an exception and that of its cause.
_CHAINED = re.compile(
    r"\n\n(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):\n\n"
)
# How the traceback of a group of exceptions begins, and its own lines, before those of its members.
_GROUP, _BAR = "+ Exception Group ", "  | "


def message_of(error: str, error_type: str | None = None) -> str:
    """Return the message of an error: without its traceback, which stays with the job, and without its type.

    What stands before the traceback on its line is a part of the message.

    >>> error = "Traceback (most recent call last):\\n  File 'a.py', line 1, in f\\n    g()\\nValueError: no luck"
    >>> message_of(error, "ValueError"), message_of(f"exit code 1: {error}")
    ('no luck', 'exit code 1: ValueError: no luck')
    """
    message = _without_traceback(error)
    return message if error_type is None else message.removeprefix(f"{error_type}: ")


def with_type(message: str, error_type: str | None) -> str:
    """Return the message of an error behind its type, as Python prints it.

    >>> with_type("no luck", "ValueError"), with_type("ValueError", "ValueError"), with_type("exit code 1", None)
    ('ValueError: no luck', 'ValueError', 'exit code 1')
    """
    return message if error_type in (None, message) else f"{error_type}: {message}"


def summary_of(error: str, error_type: str | None) -> str:
    """Return an error without its traceback, for people."""
    return with_type(message_of(error, error_type), error_type)


def type_of(error: BaseException) -> str:
    """Return the name of the type of an exception as tracebacks have it: with its module, if that is not built in."""
    kind = type(error)
    is_plain = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"


def _without_traceback(error: str) -> str:
    own = _CHAINED.split(error)[-1]
    head, is_traced, trace = own.partition(_TRACEBACK)
    if not is_traced:
        return error
    lines = trace.splitlines()
    if own.lstrip().startswith(_GROUP):
        head = ""
        lines = [line.removeprefix(_BAR) for line in takewhile(lambda line: line.startswith(_BAR), lines)]
    lines = list(dropwhile(lambda line: not line.strip() or line.startswith(" "), lines))
    return head.rpartition("\n")[2] + "\n".join(lines).strip() if lines else error


def drifted(reason: str) -> Outcome:
    """Return the outcome when a declared target is missing: final for the job; the schedule stops until it exists."""
    return Outcome("failed", error=reason, is_final=True, invalidates=True)


class JobEnd(NamedTuple):
    """How a claimed job ended. `started_at`: when its target began, where that was later than the claim."""

    job_id: str
    fence: int
    outcome: Outcome
    started_at: int | None = None


# The output of a run, in pieces, each with its position in the stream.


class OutputStream(NamedTuple):
    """One stream of one attempt of a job."""

    job_id: str
    attempt: int
    stream: str


class OutputPiece(NamedTuple):
    """Bytes of a stream, beginning at a position."""

    stream: OutputStream
    position: int
    data: bytes


class OutputGap(NamedTuple):
    """A part of a stream that is no longer kept: the pieces that lie entirely between two positions."""

    stream: OutputStream
    start: int
    end: int
