"""What belongs to no schedule: settings, quiet hours, configuration, nodes, and the ledger's events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

from everwhen.model.events import NOTHING, Event
from everwhen.model.limits import Breaker, Limit, Transition
from everwhen.model.node import Node
from everwhen.model.token import ANSWERS_KEPT, TOKEN_COLUMNS, Answer, Session, Token, token_of, token_row
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
_CONFIG_PLACES = Statement("""
SELECT places FROM config_revisions WHERE source = 'config' ORDER BY id DESC LIMIT 1""")
_CONFIG_SECTIONS = Statement("""
SELECT sections FROM config_revisions WHERE source = 'config' ORDER BY id DESC LIMIT 1""")
# nodes, whole: one row per start of a process. A heartbeat in the future dates from before the clock was set back.
_NODE = ", ".join(Node._fields)
_NODES = Statement(f"SELECT {_NODE} FROM nodes ORDER BY started_at, node")
_LOST_NODES = Statement(f"""
SELECT {_NODE} FROM nodes WHERE node <> :node::text AND stopped_at IS NULL AND lost_at IS NULL
    AND heartbeat_at NOT BETWEEN :oldest::instant AND :newest::instant ORDER BY node""")
_LAST_HEARTBEAT = Statement("SELECT max(heartbeat_at) FROM nodes WHERE is_scheduler")
_HEARTBEATS = Statement("""
SELECT started_at, heartbeat_at FROM nodes WHERE is_scheduler AND heartbeat_at >= :since::instant
ORDER BY started_at""")
# idx_audit_schedule: events of no schedule are at one of its ends. Only steps forwards skip time.
_CLOCK_STEPS = Statement("""
SELECT number_in(detail, 'from'), number_in(detail, 'to') FROM audit_events
WHERE uid IS NULL AND type = 'scheduler.clock_stepped' AND at >= :since::instant
    AND number_in(detail, 'to') > number_in(detail, 'from') ORDER BY id""")


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
        row = self.row(_CONFIG_REVISION, source=source)
        return (0, "") if row is None else (row[0], row[1])

    def config_places(self) -> str | None:
        return self.text(_CONFIG_PLACES)

    def config_sections(self) -> str | None:
        return self.text(_CONFIG_SECTIONS)

    def heartbeats(self, since: int) -> list[tuple[int, int]]:
        return self.rows(_HEARTBEATS, since=since)

    def clock_steps(self, since: int) -> list[tuple[int, int]]:
        return self.rows(_CLOCK_STEPS, since=since)

    def last_heartbeat_at(self) -> int | None:
        return self.number(_LAST_HEARTBEAT)

    def nodes(self) -> list[Node]:
        return [Node._make(row) for row in self.rows(_NODES)]

    def lost_nodes(self, *, node: str, oldest: int, newest: int) -> list[Node]:
        return [Node._make(row) for row in self.rows(_LOST_NODES, node=node, oldest=oldest, newest=newest)]


INSERT_EVENT = Insert(
    "audit_events", Event._fields, sparse=("owner", "slot_at", "reason", "job_id", "actor", "trace_id")
)
_PUT_SETTING = Statement("""
INSERT INTO settings (key, value) VALUES (:key::text, :value::text)
ON CONFLICT (key) DO UPDATE SET value = excluded.value""")
_PUT_POLICY = Statement("""
INSERT INTO quiet_hours_policies (policy_id, name, source, words, created_at, updated_at)
VALUES (:id::text, :name::text, :source::text, :words::text, :now::instant, :now::instant)
ON CONFLICT (policy_id) DO UPDATE SET name = :name::text, words = :words::text, updated_at = :now::instant""")
_DELETE_POLICY = Statement("DELETE FROM quiet_hours_policies WHERE policy_id = :policy_id::text")
_FORGET_PLACES = Statement("""
UPDATE config_revisions SET places = NULL, sections = NULL WHERE places IS NOT NULL AND source = :source::text""")
_INSERT_CONFIG = Statement("""
INSERT INTO config_revisions (at, source, digest, actor, places, sections)
VALUES (:now::instant, :source::text, :digest::text, :actor::text, :places::text, :sections::text)""")
_HEARTBEAT = Statement("""
INSERT INTO nodes (node, version, is_scheduler, is_worker, started_at, heartbeat_at, clock_skew, migration)
VALUES (:node::text, :version::text, :is_scheduler, :is_worker, :now::instant, :now::instant, :skew, :migration)
ON CONFLICT (node) DO UPDATE SET heartbeat_at = :now::instant, clock_skew = :skew, lost_at = NULL""")
_SIGN_OFF = Statement("""
UPDATE nodes SET stopped_at = :now::instant, heartbeat_at = :now::instant WHERE node = :node::text""")
# idx_jobs_unreleased: jobs that the node has not released would have no owner without its row.
_FORGET_NODE = Statement("""
DELETE FROM nodes WHERE node = :node::text
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE node = :node::text AND released_at IS NULL)""")
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
        spell = self.spell
        return [event.row("{}" if event.detail is NOTHING else spell(event.detail)) for event in events]

    @abstractmethod
    def spell(self, detail: Mapping[str, object]) -> str:
        """Return the detail of an event, which is any mapping, as JSON that the database can store."""

    @abstractmethod
    def leap_numbers(self, by: int) -> None:
        """Raise the next row numbers of jobs, events and messages by so much; the last event is renumbered, too.

        A reader of a stream may have a cursor from a time that the database no longer contains.
        """

    def put_setting(self, key: str, value: str) -> None:
        self._settings = None
        self.run(_PUT_SETTING, key=key, value=value)

    def put_policy(self, policy_id: str, name: str, fields: str, now: int, source: str) -> None:
        self.run(_PUT_POLICY, id=policy_id, name=name, words=fields, now=now, source=source)

    def delete_policy(self, policy_id: str) -> None:
        self.run(_DELETE_POLICY, policy_id=policy_id)

    def insert_config(
        self, now: int, *, source: str, digest: str, actor: str | None, places: str, sections: str
    ) -> None:
        self.run(_FORGET_PLACES, source=source)  # only the newest keeps them
        values = {"source": source, "digest": digest, "actor": actor, "places": places, "sections": sections}
        self.run(_INSERT_CONFIG, **values, now=now)

    def put_heartbeat(
        self, now: int, *, node: str, version: str, is_scheduler: bool, is_worker: bool
    ) -> None:
        roles = {"is_scheduler": is_scheduler, "is_worker": is_worker}
        values = {"node": node, "version": version, "skew": self.skew(), "migration": self.migration}
        self.run(_HEARTBEAT, **values, **roles, now=now)

    def put_sign_off(self, now: int, *, node: str) -> None:
        self.run(_SIGN_OFF, now=now, node=node)

    def forget_node(self, node: str) -> bool:
        """Delete the row of a node that holds no job; return whether it was deleted."""
        return self.run(_FORGET_NODE, node=node) > 0

    def put_lost(self, nodes: Sequence[str], now: int) -> set[str]:
        """Record nodes as lost; return those that no other transaction has recorded meanwhile."""
        return {row[0] for row in self.rows(_PUT_LOST, now=now, nodes=nodes)}


# Tokens, sessions and answers to repeated requests: reads, and writes.


# The unique keys on hash and token_id.
_TOKEN = f"SELECT {', '.join(TOKEN_COLUMNS)} FROM tokens"
_TOKEN_BY_HASH = Statement(f"{_TOKEN} WHERE hash = :hash::text")
_TOKENS = Statement(f"{_TOKEN} ORDER BY created_at DESC, token_id")
# The primary key of sessions, then that of tokens.
_TOKEN_OF_SESSION = Statement(f"""
SELECT {", ".join(f"t.{name}" for name in TOKEN_COLUMNS)} FROM sessions s JOIN tokens t ON t.token_id = s.token_id
WHERE s.hash = :hash::text AND s.expires_at > :now::instant""")
# The primary key of idempotency_keys.
_ANSWER = Statement("""
SELECT token_id, key, digest, answer FROM idempotency_keys
WHERE token_id = :token_id::text AND key = :key::text AND created_at > :since::instant""")


class TokenReads(Queries):
    """Reads of tokens."""

    def token_by_hash(self, hash: str) -> Token | None:
        row = self.row(_TOKEN_BY_HASH, hash=hash)
        return None if row is None else token_of(row)

    def tokens(self) -> list[Token]:
        return [token_of(row) for row in self.rows(_TOKENS)]

    def token_of_session(self, hash: str, now: int) -> Token | None:
        row = self.row(_TOKEN_OF_SESSION, hash=hash, now=now)
        return None if row is None else token_of(row)

    def answer(self, token_id: str, key: str, *, since: int) -> Answer | None:
        row = self.row(_ANSWER, token_id=token_id, key=key, since=since)
        return None if row is None else Answer(*row)


_INSERT_TOKEN = Insert("tokens", ("hash", *TOKEN_COLUMNS), unless="")
_REVOKE_TOKEN = Statement("""
UPDATE tokens SET revoked_at = :now::instant WHERE token_id = :token_id::text AND revoked_at IS NULL""")
# There are only a few sessions at a time: an insert scans them.
_INSERT_SESSION = Insert("sessions", Session._fields)
_FORGET_SESSIONS = Statement("DELETE FROM sessions WHERE expires_at <= :now::instant")
_DELETE_SESSION = Statement("DELETE FROM sessions WHERE hash = :hash::text")
_END_SESSIONS = Statement("DELETE FROM sessions")
# The primary key of idempotency_keys.
_INSERT_ANSWER = Statement("""
INSERT INTO idempotency_keys (token_id, key, digest, answer, created_at)
VALUES (:token_id::text, :key::text, :digest::text, :answer::text, :stored_at::instant)
ON CONFLICT (token_id, key) DO UPDATE SET digest = excluded.digest, answer = excluded.answer,
    created_at = excluded.created_at WHERE idempotency_keys.created_at <= :since::instant""")
# idx_idempotency_age, a few from its front; on PostgreSQL without those that another transaction deletes.
_OLD_ANSWERS = """
SELECT token_id, key FROM idempotency_keys WHERE created_at <= :since::instant ORDER BY created_at LIMIT 100"""
_FORGET_ANSWERS = Statement(
    sqlite=f"DELETE FROM idempotency_keys WHERE (token_id, key) IN ({_OLD_ANSWERS})",
    postgres=f"DELETE FROM idempotency_keys WHERE (token_id, key) IN ({_OLD_ANSWERS} FOR UPDATE SKIP LOCKED)",
)


class TokenWrites(TokenReads):
    """Writes of tokens."""

    def lock_token(self, token_id: str) -> None:
        """Prevent other transactions from creating with this token until the end of this one."""

    def insert_token(self, token: Token, hash: str) -> bool:
        return self.insert(_INSERT_TOKEN, [(hash, *token_row(token))]) > 0

    def revoke_token(self, token_id: str, now: int) -> bool:
        return self.run(_REVOKE_TOKEN, now=now, token_id=token_id) > 0

    def insert_session(self, session: Session) -> None:
        """Insert a session, and delete those that have ended."""
        self.run(_FORGET_SESSIONS, now=session.created_at)
        self.insert(_INSERT_SESSION, [session])

    def delete_session(self, hash: str) -> None:
        self.run(_DELETE_SESSION, hash=hash)

    def end_sessions(self) -> int:
        """End all sessions; return how many."""
        return self.run(_END_SESSIONS)

    def insert_answer(self, answer: Answer, now: int) -> bool:
        """Insert an answer, and delete those older than a day; False when its key has a remembered answer."""
        since = now - ANSWERS_KEPT
        self.run(_FORGET_ANSWERS, since=since)
        token_id, key, digest, text = answer.fields
        values = {"token_id": token_id, "key": key, "digest": digest, "answer": text}
        return self.run(_INSERT_ANSWER, **values, stored_at=answer.stored_at(now), since=since) > 0


# Limits and breakers, which schedules share by key: reads, and writes. Primary keys serve all statements.


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
