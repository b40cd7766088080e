"""The store of a runtime: every verb that reads or writes the database, by subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from everwhen.runtime import Runtime

if TYPE_CHECKING:
    from everwhen.store.alerts import Alerts
    from everwhen.store.catalogue import Catalogue
    from everwhen.store.event_cursors import EventCursors
    from everwhen.store.feed_delay import FeedDelays
    from everwhen.store.firings import Firings
    from everwhen.store.labels import Labels
    from everwhen.store.ledger import Ledger
    from everwhen.store.maintenance import Upkeep, Vitals
    from everwhen.store.messages import Messages
    from everwhen.store.outbox import Outbox
    from everwhen.store.requests import Requests
    from everwhen.store.slots import Slots
    from everwhen.store.tokens import Tokens
    from everwhen.store.webhooks import Webhooks


@dataclass(slots=True, kw_only=True)
class OpenStore(Runtime):
    """A runtime with its store. Each verb is one transaction, or reads one snapshot."""

    slots: Slots
    catalogue: Catalogue
    ledger: Ledger
    firings: Firings
    vitals: Vitals
    messages: Messages
    upkeep: Upkeep
    tokens: Tokens
    outbox: Outbox
    event_cursors: EventCursors
    requests: Requests
    alerts: Alerts
    webhooks: Webhooks
    feed_delays: FeedDelays
    labels: Labels


def store_of(runtime: Runtime) -> OpenStore:
    """Return the store of a runtime, for operations and the engine; the composition root builds no other runtime."""
    return cast("OpenStore", runtime)
