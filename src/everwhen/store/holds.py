"""Who delivers: one node holds a subscription or a cursor, and the others wait until it is free.

A hold ends when its node gives it up, when it is not renewed in time, or when the lease of its node has ended: then the
node is on record as lost, and its jobs are taken over as well.
"""

from __future__ import annotations

from everwhen.model.event_cursor import EventCursor
from everwhen.model.message import Subscription
from everwhen.model.node import LAST_DELIVERIES
from everwhen.store.dialect import Queries, Statement

# The primary key of nodes.
_HAS_ENDED = Statement("""
SELECT 1 FROM nodes WHERE node = :node::text AND (lost_at IS NOT NULL OR stopped_at <= :stopped_by::instant)""")


def is_held_by_another(tx: Queries, held: EventCursor | Subscription, now: int, node: str) -> bool:
    """Check whether a node other than this one holds it."""
    if held.node in (None, node) or held.held_until is None or held.held_until <= now:
        return False
    return not tx.rows(_HAS_ENDED, node=held.node, stopped_by=now - LAST_DELIVERIES)
