"""Circuit breakers as they are answered."""

from __future__ import annotations

from collections.abc import Iterable

from everwhen.model.breaker import Breaker, Transition
from everwhen.views.values import Object, when_text


def breaker_to_json(breaker: Breaker) -> Object:
    return {**breaker._asdict(), "opened_at": when_text(breaker.opened_at)}


def _transition_to_json(transition: Transition) -> Object:
    fields = {**transition._asdict(), "at": when_text(transition.at)}
    del fields["key"]
    return fields


def breaker_with_transitions(breaker: Breaker, transitions: Iterable[Transition]) -> Object:
    return {**breaker_to_json(breaker), "transitions": [_transition_to_json(each) for each in transitions]}
