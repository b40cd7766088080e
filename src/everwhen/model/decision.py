"""Decisions as values: what a store is to commit, all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from everwhen.model.events import Event
from everwhen.model.job import Job, NewJob
from everwhen.model.reasons import CancelReason, SkipReason
from everwhen.model.schedule import Plan, State


class Decision(NamedTuple):
    """What becomes of one schedule: its row, its new jobs, its part of the ledger."""

    before: State
    after: State
    plan: Plan
    jobs: Sequence[NewJob]
    events: Sequence[Event]
    cancelled: Sequence[tuple[Job, CancelReason]]
    refusal: SkipReason | None = None  # why what was asked for got no job


class Creation(NamedTuple):
    """A new row and its first events."""

    state: State
    events: tuple[Event, ...]
