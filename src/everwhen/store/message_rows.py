"""Messages, their subscribers, and the state of plugins: reads, and writes.

A reader follows messages in the order of commits (`commit_order`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from everwhen.model.message import Message, Subscription
from everwhen.model.outcome import NewMessage
from everwhen.model.queries import MessageFilter
from everwhen.store.commit_order import Stream, last_committed
from everwhen.store.dialect import Insert, Queries, Statement

_MESSAGE = ", ".join(Message._fields)
# The primary key of messages; on PostgreSQL idx_messages_commit.
_STREAM = Stream("messages", _MESSAGE)
# An id is never reused, so on SQLite the last one outlives what retention deletes.
_LAST = Statement(
    sqlite="SELECT seq FROM sqlite_sequence WHERE name = 'messages'", postgres=last_committed("messages")
)
# The primary key, backwards, until the page is full; idx_messages_at where an instant is given and few follow it.
_WANTED = """
FROM messages WHERE (:owner::text IS NULL OR owner = :owner::text)
    AND (:schedule_id::text IS NULL OR schedule_id = :schedule_id::text)
    AND (:since::instant IS NULL OR at >= :since::instant) AND (:until::instant IS NULL OR at < :until::instant)"""
_LIST = Statement(f"""
SELECT {_MESSAGE} {_WANTED} AND (:before::integer IS NULL OR id < :before::integer) ORDER BY id DESC LIMIT :limit""")
_COUNT = Statement(f"SELECT count(*) FROM (SELECT 1 {_WANTED} LIMIT :limit) AS found")
# The primary keys of subscriptions and plugin_state.
_SUBSCRIPTION = f"SELECT {', '.join(Subscription._fields)} FROM subscriptions"
_SUBSCRIPTION_OF = Statement(f"{_SUBSCRIPTION} WHERE subscriber = :subscriber::text")
_SUBSCRIPTIONS = Statement(f"{_SUBSCRIPTION} ORDER BY subscriber")
_PLUGIN_STATES = Statement("""
SELECT plugin, state FROM plugin_state WHERE plugin = ANY(:plugins::texts) ORDER BY plugin""")


class MessageReads(Queries):
    """Reads of messages and subscribers."""

    def plugin_states(self, plugins: Collection[str]) -> dict[str, str]:
        return dict(self.rows_to_change(_PLUGIN_STATES, plugins=plugins))

    def subscription(self, subscriber: str) -> Subscription | None:
        rows = self.rows_to_change(_SUBSCRIPTION_OF, subscriber=subscriber)
        return Subscription._make(rows[0]) if rows else None

    def subscriptions(self) -> list[Subscription]:
        return [Subscription._make(row) for row in self.rows(_SUBSCRIPTIONS)]

    def messages_after(self, message_id: int, *, limit: int) -> list[Message]:
        return [Message._make(row) for row in _STREAM.after(self, message_id, limit)]

    def last_message_id(self) -> int:
        return self.value(_LAST) or 0

    def list_messages(self, wanted: MessageFilter, *, limit: int, before: int | None) -> list[Message]:
        rows = self.rows(_LIST, **wanted._asdict(), before=before, limit=limit)
        return [Message._make(row) for row in rows]

    def count_messages(self, wanted: MessageFilter, *, most: int) -> int:
        return int(self.value(_COUNT, **wanted._asdict(), limit=most))


_PUT_PLUGIN_STATES = Insert("plugin_state", ("plugin", "state", "updated_at"), replaces="plugin")
# The unique key on event_id: an existing message is not written twice.
_INSERT_MESSAGES = Insert(
    "messages", tuple(name for name in Message._fields if name != "id"), unless="event_id"
)
_HELD = tuple(name for name in Subscription._fields if name != "subscriber")
_KINDS = {"next_attempt_at": "::instant", "held_until": "::instant", "last_error": "::text", "node": "::text"}
_VALUES = ", ".join(f":{name}{_KINDS.get(name, '')}" for name in _HELD)
_PUT_SUBSCRIPTION = Statement(f"""
INSERT INTO subscriptions (subscriber, {", ".join(_HELD)}, created_at, updated_at)
VALUES (:subscriber::text, {_VALUES}, :now::instant, :now::instant)
ON CONFLICT (subscriber) DO UPDATE SET {", ".join(f"{n} = excluded.{n}" for n in _HELD)}, updated_at = :now::instant""")


class MessageWrites(MessageReads):
    """Writes of messages and subscribers."""

    def put_plugin_states(self, states: Mapping[str, str], now: int) -> None:
        self.insert(_PUT_PLUGIN_STATES, [(plugin, state, now) for plugin, state in states.items()])

    def insert_messages(self, messages: Sequence[NewMessage], now: int) -> None:
        rows = [(m.event_id, now, m.schedule_id, m.uid, m.owner, m.job_id, m.body) for m in messages]
        self.insert(_INSERT_MESSAGES, rows)

    def put_subscription(self, subscription: Subscription, now: int) -> None:
        self.run(_PUT_SUBSCRIPTION, **subscription._asdict(), now=now)
