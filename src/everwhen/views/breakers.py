"""Circuit breakers as they are answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from everwhen.model.breaker import BreakerState, TransitionReason
from everwhen.views.shape import View, When, field
from everwhen.views.values import Object

if TYPE_CHECKING:
    from everwhen.model import breaker as model


class Breaker(View):
    """While it is open, slots are skipped; the first one after a while is its probe."""

    key: str
    state: BreakerState
    failure_count: int = field(about="Failures in a row.")
    opened_at: When | None
    probe_job_id: str | None


class Transition(View):
    from_state: BreakerState
    to_state: BreakerState
    reason: TransitionReason
    failure_count: int
    job_id: str | None
    at: When


class BreakerWithTransitions(Breaker):
    """A breaker and its latest changes, newest first."""

    transitions: list[Transition]


class BreakerList(View):
    items: list[Breaker]
    total: int


def breaker_with_transitions(breaker: model.Breaker, transitions: Iterable[model.Transition]) -> Object:
    return BreakerWithTransitions.of(breaker, transitions=[Transition.of(each) for each in transitions])
