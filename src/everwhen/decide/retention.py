"""What may be forgotten, and when."""

from __future__ import annotations

from everwhen.model.retention import Cutoffs, Retention


def cutoffs(retention: Retention, now: int) -> Cutoffs:
    """Everything that ended before these instants may be deleted."""
    return Cutoffs(
        now - retention.jobs,
        now - retention.audit,
        now - retention.breaker_transitions,
        now - retention.output,
    )
