"""Keeping runtime: forgetting what is old, copies for the cupboard, and which nodes there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from everwhen.model.node import Node
from everwhen.model.retention import Cutoffs, Place, Portion

Progress = Callable[[float], None]  # the share that is done, from 0 to 1


class Upkeep(Protocol):
    """What nobody waits for."""

    def forget(self, before: Cutoffs, place: Place, *, limit: int, dry_run: bool = False) -> Portion:
        """One portion of what is older than its cutoff, in one transaction; `limit` bounds the rows looked at.

        Whatever was forgotten when, the ledger checker finds nothing wrong with the rest.
        """
        ...

    def nodes(self) -> list[Node]:
        """Every node that is remembered, the oldest start first."""
        ...

    def note_lost(self, now: int, *, node: str, lease: int) -> list[Node]:
        """Put on record, once each, the other nodes whose lease has expired (`node.lost`); which ones.

        Expired is a heartbeat older than the lease, or as far in the future: it is from before the clock was put
        back.
        """
        ...

    def backup(self, path: Path, progress: Progress) -> None:
        """A consistent copy of the whole database, taken while it is in use; `path` is there when all of it is."""
        ...
