"""The ports that operations and engine use, assembled by the composition root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everwhen.ports.catalogue import Catalogue
    from everwhen.ports.clock import Clock
    from everwhen.ports.firings import Firings
    from everwhen.ports.ledger import Ledger
    from everwhen.ports.messages import Messages
    from everwhen.ports.outbox import Outbox
    from everwhen.ports.plugins import PluginState
    from everwhen.ports.slots import Slots
    from everwhen.ports.tokens import Tokens
    from everwhen.ports.upkeep import Upkeep
    from everwhen.ports.vitals import Vitals


def _nobody() -> None:
    return None


def _none() -> int:
    return 0


@dataclass(slots=True)
class Runtime:
    """Store, clock, and how to wake the loops when something changed."""

    slots: Slots
    catalogue: Catalogue
    ledger: Ledger
    firings: Firings
    vitals: Vitals
    messages: Messages
    plugin_state: PluginState
    upkeep: Upkeep
    tokens: Tokens
    outbox: Outbox
    clock: Clock
    timezone: str = "UTC"
    clock_skew: Callable[[], int] = _none  # microseconds that this host's clock is ahead of the database's
    wake_scheduler: Callable[[], None] = _nobody
    wake_workers: Callable[[], None] = _nobody
