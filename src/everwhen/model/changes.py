"""Changes of schedules as values: decisions that are made inside the transaction, new schedules, a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from everwhen.model.events import Event
from everwhen.model.job import Job, NewJob
from everwhen.model.limits import Shared
from everwhen.model.reasons import CancelReason, SkipReason
from everwhen.model.schedule import Plan, QuietHoursPolicy, Schedule, State
from everwhen.model.token import StoredResponse

# Decisions as values: the changes that a store commits atomically.


class Decision(NamedTuple):
    """The changes to one schedule: its row, its new jobs, its part of the ledger."""

    before: State
    after: State
    plan: Plan
    jobs: Sequence[NewJob]
    events: Sequence[Event]
    cancelled: Sequence[tuple[Job, CancelReason]]
    refusal: SkipReason | None = None  # why a requested firing got no job


class Creation(NamedTuple):
    """A new row and its first events."""

    state: State
    events: tuple[Event, ...]


Change = Callable[[Schedule, int, Shared], Decision]
Filling = Callable[[Schedule, Sequence[int], int, Shared], Decision]
Remember = Callable[[Decision], StoredResponse]


class Insertion(NamedTuple):
    """A schedule about to be written: its first state and events, and the plan that they were made from."""

    creation: Creation
    plan: Plan
    source: str
    key: str | None = None
    token_id: str | None = None


class Terms(NamedTuple):
    """The conditions of a creation: the quota of its token, and the answer to be remembered with it."""

    token_id: str
    max_schedules: int | None = None
    answer: StoredResponse | None = None


class Reconciliation(NamedTuple):
    """Everything that a configuration changes, to be written in one transaction.

    It was computed against configuration revision `based_on` and is not written when a newer revision exists. Changes
    of one schedule are decided one after another, each on the state that the previous one left.
    """

    based_on: int
    digest: str
    source: str = "config"
    actor: str | None = None
    created: Sequence[Insertion] = ()
    changed: Sequence[tuple[str, Change]] = ()
    removed: Sequence[tuple[str, Change]] = ()
    policies: Sequence[QuietHoursPolicy] = ()
    removed_policies: Sequence[str] = ()
    places: Mapping[str, str] = {}  # file and line by schedule id
    events: Sequence[Event] = ()
    sections: Mapping[str, str] = {}  # its other entries, by path
