"""Deletion of rows beyond their retention, in portions small enough not to disturb the service."""

from __future__ import annotations

from collections.abc import Callable

from everwhen.decide.retention import cutoffs
from everwhen.model.retention import PASS_START, Kept, Portion, Retention, RetentionPosition
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of

PORTION = 500


def prune(
    runtime: Runtime,
    retention: Retention | None = None,
    *,
    dry_run: bool = False,
    tell: Callable[[Portion], None] = lambda _portion: None,
) -> dict[Kept, int]:
    """Delete everything beyond retention; return the number of deleted rows by kind (a dry run only counts them)."""
    before = cutoffs(retention or Retention(), runtime.clock.now())
    rows: dict[Kept, int] = {}
    place: RetentionPosition | None = PASS_START
    while place is not None:
        portion = store_of(runtime).upkeep.forget(before, place, limit=PORTION, dry_run=dry_run)
        rows[portion.what] = rows.get(portion.what, 0) + portion.rows
        tell(portion)
        place = portion.next
    return rows
