"""Who wants to know what happens while it happens."""

from __future__ import annotations

from typing import Protocol

from everwhen.model.outcome import Outcome
from everwhen.ports.target import Run


class Observer(Protocol):
    """Told by the worker; must not raise and must not take long."""

    def started(self, run: Run) -> None: ...

    def ended(self, run: Run, outcome: Outcome) -> None: ...


class Several:
    """Observers that are told one after another."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def started(self, run: Run) -> None:
        for observer in self._observers:
            observer.started(run)

    def ended(self, run: Run, outcome: Outcome) -> None:
        for observer in self._observers:
            observer.ended(run, outcome)


class Nobody:
    """An observer that looks away."""

    def started(self, run: Run) -> None:
        return None

    def ended(self, run: Run, outcome: Outcome) -> None:
        return None
