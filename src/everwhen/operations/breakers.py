"""Circuit breakers, as people look at and close them."""

from __future__ import annotations

from everwhen.model.breaker import Breaker, Transition
from everwhen.ports.house import House


def get_breaker(house: House, key: str, *, limit: int = 20) -> tuple[Breaker, list[Transition]]:
    """A breaker and its latest changes, newest first."""
    return house.ledger.breaker(key), house.ledger.transitions(key, limit=limit)


def reset_breaker(house: House, key: str) -> bool:
    """Close it by hand; False when it was closed already."""
    was_open = house.catalogue.reset_breaker(house.clock.now(), key)
    house.wake_scheduler()
    return was_open
