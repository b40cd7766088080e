"""Observers of runs."""

from __future__ import annotations

from typing import Protocol

from everwhen.model.outcome import Outcome
from everwhen.ports.target import Run


class Observer(Protocol):
    """A receiver of the starts and ends of runs, called by the worker; it must not raise and must return quickly."""

    def started(self, run: Run) -> None: ...

    def ended(self, run: Run, outcome: Outcome) -> None: ...


class Several:
    """Several observers, called one after another."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def started(self, run: Run) -> None:
        for observer in self._observers:
            observer.started(run)

    def ended(self, run: Run, outcome: Outcome) -> None:
        for observer in self._observers:
            observer.ended(run, outcome)


class Nobody:
    """An observer that ignores everything."""

    def started(self, run: Run) -> None:
        return None

    def ended(self, run: Run, outcome: Outcome) -> None:
        return None
