"""Forgetting what is older than it needs to be, in portions that nobody notices."""

from __future__ import annotations

from everwhen.decide.retention import cutoffs
from everwhen.model.retention import Retention
from everwhen.ports.house import House

PORTION = 500


def prune(house: House, retention: Retention | None = None) -> int:
    """Delete everything beyond retention; how many rows went."""
    before = cutoffs(retention or Retention(), house.clock.now())
    total = 0
    while deleted := house.catalogue.prune(before, limit=PORTION):
        total += deleted
    return total
