"""What came of a run, as the target reports it, and what is to be written with it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile
from typing import Literal

OutcomeStatus = Literal["succeeded", "failed", "timed_out", "cancelled", "lost"]


@dataclass(frozen=True, slots=True)
class PluginUpdate:
    """What a plugin asks to be remembered: a JSON object, merged key by key over what it had stored."""

    plugin: str
    updates: str


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message for the subscribers: its JSON, and whose it is. An `event_id` is written once."""

    event_id: str
    schedule_id: str
    uid: str
    owner: str | None
    job_id: str
    body: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`is_final`: the target says that repeating is of no use (R4). `retry_after`: it asks for a pause.

    `invalidates`: nothing that was declared can be run any more, so the schedule stops (R7). `also` is written by
    the transaction that settles the job, with it or not at all. `is_still_running`: the run is over and its work is
    not; the worker says when that has ended (R9). `awaits`: the work goes on elsewhere, and whoever shows the token
    with this hash says what came of it. `is_interrupted`: a signal ended its process, so while its node stops nothing
    failed, and the job is run again (G1). `events`: what the run announced, a line of JSON each; kept with its output.
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

    @property
    def is_failure(self) -> bool:
        return self.status in ("failed", "timed_out", "lost")


SUCCEEDED = Outcome("succeeded")


_TRACEBACK = "Traceback (most recent call last):"


def message_of(error: str) -> str:
    """What an error says, without the traceback that led to it: that stays with the job.

    >>> message_of("Traceback (most recent call last):\\n  File 'a.py', line 1, in f\\n    g()\\nValueError: no luck")
    'ValueError: no luck'
    """
    if _TRACEBACK not in error:
        return error
    lines = error.rpartition(_TRACEBACK)[2].splitlines()
    said = dropwhile(lambda line: not line.strip() or line.startswith(" "), lines)
    return "\n".join(said).strip() or error


def drifted(reason: str) -> Outcome:
    """What was declared is not there any more: final for the job, and the end of the schedule until it is."""
    return Outcome("failed", error=reason, is_final=True, invalidates=True)
