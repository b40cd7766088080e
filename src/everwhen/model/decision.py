"""Decisions as values: the changes that a store commits atomically."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from everwhen.model.events import Event
from everwhen.model.job import Job, NewJob
from everwhen.model.reasons import CancelReason, SkipReason
from everwhen.model.schedule import Plan, State


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
