"""The outcome of a run, as the target reports it, with its output and the data that is written with it."""

from __future__ import annotations

from itertools import dropwhile
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
    object or a list, and is written as JSON.
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

    @property
    def is_failure(self) -> bool:
        """Return whether the run failed, was out of time, or was lost."""
        return self.status in ("failed", "timed_out", "lost")


SUCCEEDED = Outcome("succeeded")


def not_begun(fault: HostFault, error: BaseException) -> Outcome:
    """Return the outcome of a job that the host could not begin."""
    return Outcome("failed", error=str(error), host_fault=fault)


_TRACEBACK = "Traceback (most recent call last):"


def message_of(error: str) -> str:
    """Return the message of an error without its traceback, which stays with the job.

    >>> message_of("Traceback (most recent call last):\\n  File 'a.py', line 1, in f\\n    g()\\nValueError: no luck")
    'ValueError: no luck'
    """
    if _TRACEBACK not in error:
        return error
    lines = error.rpartition(_TRACEBACK)[2].splitlines()
    said = dropwhile(lambda line: not line.strip() or line.startswith(" "), lines)
    return "\n".join(said).strip() or error


def drifted(reason: str) -> Outcome:
    """Return the outcome when a declared target is missing: final for the job; the schedule stops until it exists."""
    return Outcome("failed", error=reason, is_final=True, invalidates=True)


class JobEnd(NamedTuple):
    """How a claimed job ended."""

    job_id: str
    fence: int
    outcome: Outcome


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
