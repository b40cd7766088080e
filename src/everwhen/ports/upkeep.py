"""The upkeep port: retention, backups, and the list of nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from everwhen.model.node import Node
    from everwhen.model.retention import Cutoffs, Place, Portion

Progress = Callable[[float], None]  # the completed share, from 0 to 1


class Upkeep(Protocol):
    """Maintenance in the background."""

    def forget(self, before: Cutoffs, place: Place, *, limit: int, dry_run: bool = False) -> Portion:
        """Delete one portion of what is older than its cutoff, in one transaction; `limit` bounds the rows examined.

        Whatever was deleted, the ledger checker finds no fault in the rest.
        """
        ...

    def nodes(self) -> list[Node]:
        """Return every recorded node, the oldest start first."""
        ...

    def note_lost(self, now: int, *, node: str, lease: int) -> list[Node]:
        """Record, once each, the other nodes whose lease has expired (`node.lost`), and return them.

        A lease has expired when the heartbeat is older than the lease, or equally far in the future: then it dates
        from before the clock was set back.
        """
        ...

    def backup(self, path: Path, progress: Progress) -> None:
        """Write a consistent copy of the whole database while it is in use; `path` appears once it is complete."""
        ...
