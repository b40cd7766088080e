"""Changes of schedules as values: decisions that are made inside the transaction, new schedules, a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from everwhen.model.events import Event
from everwhen.model.job import Job, NewJob
from everwhen.model.limits import Shared
from everwhen.model.policy import TOKEN_BUDGET, Budget
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
    """What a token may have: its quota, and the answer to be remembered with a creation.

    `is_spaced`: it has a `min_interval`, which holds for what replaces a schedule, too. `is_of_run`: it is that of the
    run of an agent.
    """

    token_id: str
    max_schedules: int | None = None
    answer: StoredResponse | None = None
    is_spaced: bool = False
    is_of_run: bool = False

    @property
    def key(self) -> str:
        """Return the key of the limits row whose lock keeps requests of this token apart."""
        return f"{TOKEN_BUDGET}{self.token_id}"

    @property
    def is_limiting(self) -> bool:
        return self.max_schedules is not None or self.is_spaced


class Cause(NamedTuple):
    """Who causes a job, and what bounds that: the budget and the terms of the caller's token.

    `is_agent`: an agent does it by itself, so the budgets of the group and the owner bind as well.
    """

    budget: Budget | None = None
    terms: Terms | None = None
    is_agent: bool = False


A_PERSON = Cause()


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
