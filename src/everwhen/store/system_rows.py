"""What belongs to no schedule: settings, quiet hours, configuration, nodes, the ledger's events, and rows with keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

from everwhen.model.cost import ScheduleCosts, costs_of_row
from everwhen.model.events import NOTHING, Event
from everwhen.model.limits import Breaker, LastFiring, Limit
from everwhen.model.node import Node
from everwhen.model.spending import Spending, spending_of
from everwhen.store.dialect import Insert, Queries, Statement
from everwhen.store.records import Row

_SETTINGS = Statement("SELECT key, value FROM settings")
_POLICIES = Statement("""
SELECT policy_id, words FROM quiet_hours_policies WHERE :source::text IS NULL OR source = :source::text
ORDER BY policy_id""")
# The primary key of quiet_hours_policies.
_POLICIES_OF = """
SELECT policy_id, words FROM quiet_hours_policies WHERE policy_id = ANY(:policy_ids::texts) ORDER BY policy_id"""
_HOLD_POLICIES = Statement(sqlite=_POLICIES_OF, postgres=f"{_POLICIES_OF} FOR SHARE")
# The primary key, from its end.
_CONFIG_REVISION = Statement("""
SELECT id, digest FROM config_revisions WHERE source = :source::text ORDER BY id DESC LIMIT 1""")
# nodes, whole: one row per start of a process.
NODE = ", ".join(Node._fields)
_NODES = Statement(f"SELECT {NODE} FROM nodes ORDER BY started_at, node")


class SystemReads(Queries):
    """Reads that never lock, except for `hold_policies`."""

    _settings: dict[str, str] | None = None

    def settings(self) -> Mapping[str, str]:
        if self._settings is None:
            self._settings = dict(self.rows(_SETTINGS))
        return self._settings

    def policies(self, source: str | None = None) -> list[tuple[str, str]]:
        return self.rows(_POLICIES, source=source)

    def hold_policies(self, policy_ids: Collection[str]) -> dict[str, str]:
        """Return the fields of the policies that exist; none can change or disappear before this transaction ends."""
        return dict(self.rows(_HOLD_POLICIES, policy_ids=policy_ids))

    def config_revision(self, source: str) -> tuple[int, str]:
        return self.one(tuple, _CONFIG_REVISION, source=source) or (0, "")

    def nodes(self) -> list[Node]:
        return self.many(Node._make, _NODES)


INSERT_EVENT = Insert(
    "audit_events", Event._fields, sparse=("owner", "slot_at", "reason", "job_id", "actor", "trace_id")
)
_PUT_SETTING = Statement("""
INSERT INTO settings (key, value) VALUES (:key::text, :value::text)
ON CONFLICT (key) DO UPDATE SET value = excluded.value""")
_PUT_LOST = Statement("""
UPDATE nodes SET lost_at = :now::instant WHERE node = ANY(:nodes::texts) AND lost_at IS NULL RETURNING node""")


class SystemWrites(SystemReads):
    """Writes of what belongs to no schedule."""

    migration: int
    """The last migration that this release knows."""

    def skew(self) -> int:
        """Return how far this node's clock is from the database's."""
        return 0

    def insert_events(self, events: Sequence[Event]) -> None:
        self.insert(INSERT_EVENT, self.event_rows(events))

    def event_rows(self, events: Sequence[Event]) -> list[Row]:
        encode_detail = self.encode_detail
        return [
            event.row("{}" if event.detail is NOTHING else encode_detail(event.detail)) for event in events
        ]

    @abstractmethod
    def encode_detail(self, detail: Mapping[str, object]) -> str:
        """Return the detail of an event, which is any mapping, as JSON that the database can store."""

    @abstractmethod
    def leap_numbers(self, by: int) -> None:
        """Raise the next row numbers of jobs, events and messages by so much; the last event is renumbered, too.

        A reader of a stream may have a cursor from a time that the database no longer contains.
        """

    def put_setting(self, key: str, value: str) -> None:
        self._settings = None
        self.run(_PUT_SETTING, key=key, value=value)

    def put_lost(self, nodes: Sequence[str], now: int) -> set[str]:
        """Record nodes as lost; return those that no other transaction has recorded meanwhile."""
        return set(self.column(_PUT_LOST, now=now, nodes=nodes))


# Rows that schedules share by key: limits and breakers, and the state of plugins. Primary keys serve all statements.


LIMITS = Statement(
    f"SELECT {', '.join(Limit._fields)} FROM limits WHERE key = ANY(:keys::texts) ORDER BY key"
)
BREAKERS = Statement(f"""
SELECT {", ".join(Breaker._fields)} FROM circuit_breakers WHERE key = ANY(:keys::texts) ORDER BY key""")
SPENDINGS = Statement(f"SELECT {', '.join(Spending._fields)} FROM budgets ORDER BY key")
_SPENDINGS = Statement(f"""
SELECT {", ".join(Spending._fields)} FROM budgets WHERE key = ANY(:keys::texts)""")
_SCHEDULE_COSTS = Statement("""
SELECT uid, reports, unreported FROM schedule_costs WHERE uid = ANY(:uids::texts)""")
# The primary key of last_firings.
_LAST_FIRINGS = Statement(f"""
SELECT {", ".join(LastFiring._fields)} FROM last_firings WHERE key = ANY(:keys::texts) AND uid = ANY(:uids::texts)""")
_PLUGIN_STATES = Statement("""
SELECT plugin, state FROM plugin_state WHERE plugin = ANY(:plugins::texts) ORDER BY plugin""")


class LimitReads(Queries):
    """Reads of limits and breakers; a key without a row has the values of a new one.

    `wait=False`: without those that another transaction keeps locked for longer than a moment.
    """

    def limits(self, keys: Collection[str], *, wait: bool = True) -> dict[str, Limit]:
        found = {row[0]: Limit._make(row) for row in self.rows(LIMITS, keys=keys)}
        return {key: found.get(key) or Limit(key) for key in keys}

    def breakers(self, keys: Collection[str], *, wait: bool = True) -> dict[str, Breaker]:
        found = {row[0]: Breaker._make(row) for row in self.rows(BREAKERS, keys=keys)}
        return {key: found.get(key) or Breaker(key) for key in keys}

    def spendings(self, keys: Collection[str]) -> dict[str, Spending]:
        """Return the sums of budgets; a change of one locks the limits row of its key."""
        return {row[0]: spending_of(row) for row in self.rows(_SPENDINGS, keys=keys)}

    def schedule_costs(self, uids: Collection[str]) -> dict[str, ScheduleCosts]:
        """Return what runs have reported; a change of that locks the row of the schedule."""
        return {row[0]: costs_of_row(row) for row in self.rows(_SCHEDULE_COSTS, uids=uids)}

    def last_firings(self, keys: Collection[str], uids: Collection[str]) -> dict[tuple[str, str], LastFiring]:
        """Return the last firings of schedules by tokens; a change of one locks the limits row of its key."""
        found = self.many(LastFiring._make, _LAST_FIRINGS, keys=keys, uids=uids)
        return {(firing.key, firing.uid): firing for firing in found}

    def plugin_states(self, plugins: Collection[str]) -> dict[str, str]:
        return dict(self.rows_to_change(_PLUGIN_STATES, plugins=plugins))


# A transaction that locks rows has created them before: there an update is enough, and costs less.
PUT_LIMITS = Insert("limits", Limit._fields, replaces="key")
_PUT_BREAKERS = Insert("circuit_breakers", Breaker._fields, replaces="key")


class LimitWrites(LimitReads):
    """Writes of limits and breakers."""

    def put_limits(self, limits: Sequence[Limit]) -> None:
        self.insert(PUT_LIMITS, limits)

    def put_breakers(self, breakers: Sequence[Breaker]) -> None:
        self.insert(_PUT_BREAKERS, breakers)
