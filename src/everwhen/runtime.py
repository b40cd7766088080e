"""An open database as the surfaces hold it: they hand it to `operations`, and can read no data with it themselves.

The store is behind `store.opened.store_of`, which surfaces may not import. So a surface that reaches past `operations`
neither passes the type checker nor the import contracts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from everwhen.clock import Clock

DatabaseKind = Literal["sqlite", "postgresql"]
Progress = Callable[[float], None]  # receives the completed share of a long operation, from 0 to 1


class Changes(Protocol):
    """A number that changes when any process has committed, and notifications of that."""

    def __call__(self) -> int: ...

    def follow(self, look: Callable[[int], None]) -> bool:
        """Have `look` called with the number after commits, from another thread.

        Return False where no notifications come.
        """
        ...

    def rest(self) -> None:
        """Stop to notify until somebody follows again."""
        ...


def _nobody() -> None:
    return None


def _none() -> int:
    return 0


@dataclass(slots=True, kw_only=True)
class Runtime:
    """The clock, the zone, and how to wake the loops when something changed."""

    clock: Clock
    timezone: str = "UTC"
    clock_skew: Callable[[], int] = _none  # microseconds that this host's clock is ahead of the database's
    database_kind: DatabaseKind | None = None
    directory: str | None = None  # of the database's file, where it is on this machine
    wake_scheduler: Callable[[], None] = _nobody
    wake_workers: Callable[[], None] = _nobody
    wake_requests: Callable[[], None] = _nobody
