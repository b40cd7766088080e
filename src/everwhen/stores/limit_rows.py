"""Limits and breakers, which schedules share by key: reads, and writes. Primary keys serve all statements."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from everwhen.model.breaker import Breaker, Transition
from everwhen.model.limits import Limit
from everwhen.stores.dialect import Insert, Statement
from everwhen.stores.queries import Queries

LIMITS = Statement(
    f"SELECT {', '.join(Limit._fields)} FROM limits WHERE key = ANY(:keys::texts) ORDER BY key"
)
BREAKERS = Statement(f"""
SELECT {", ".join(Breaker._fields)} FROM circuit_breakers WHERE key = ANY(:keys::texts) ORDER BY key""")


class LimitReads(Queries):
    """Reads of limits and breakers; a key without a row has the values of a new one."""

    def limits(self, keys: Collection[str]) -> dict[str, Limit]:
        found = {row[0]: Limit._make(row) for row in self.rows(LIMITS, keys=keys)}
        return {key: found.get(key) or Limit(key) for key in keys}

    def breakers(self, keys: Collection[str]) -> dict[str, Breaker]:
        found = {row[0]: Breaker._make(row) for row in self.rows(BREAKERS, keys=keys)}
        return {key: found.get(key) or Breaker(key) for key in keys}

    def limits_at_hand(self, keys: Collection[str]) -> dict[str, Limit]:
        """Return the limits without those that another transaction keeps locked for longer than a moment."""
        return self.limits(keys)

    def breakers_at_hand(self, keys: Collection[str]) -> dict[str, Breaker]:
        return self.breakers(keys)


# A transaction that locks rows has created them before: there an update is enough, and costs less.
PUT_LIMITS = Insert("limits", Limit._fields, replaces="key")
_PUT_BREAKERS = Insert("circuit_breakers", Breaker._fields, replaces="key")
_INSERT_TRANSITIONS = Insert("circuit_breaker_transitions", Transition._fields)


class LimitWrites(LimitReads):
    """Writes of limits and breakers."""

    def put_limits(self, limits: Sequence[Limit]) -> None:
        self.insert(PUT_LIMITS, limits)

    def put_breakers(self, breakers: Sequence[Breaker]) -> None:
        self.insert(_PUT_BREAKERS, breakers)

    def insert_transitions(self, transitions: Sequence[Transition]) -> None:
        self.insert(_INSERT_TRANSITIONS, transitions)
