"""Alerts, and the outbox of their messages.

`take_in` is one transaction: it moves the notifier's cursor, opens and closes alerts, and writes the messages that
rules send now. So an event makes its messages once, whatever crashes: either all of it is written, or the next
notifier reads the event again. Sending follows the commit (`pending`), and its confirmation is another transaction
(`confirm`): a crash between the two sends a message twice, under the same delivery id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from everwhen.model.alerts import Alert, AlertDelivery, Silence
from everwhen.model.event_cursor import EventCursor
from everwhen.model.events import Event
from everwhen.model.queries import AlertFilter
from everwhen.store.alert_round import (
    ALERT_COLUMNS,
    SILENCE_COLUMNS,
    SILENCES,
    Round,
    alert_of,
    columns_of,
    insert_alerts,
    insert_deliveries,
    is_idle,
    write_round,
)
from everwhen.store.dialect import Insert, Queries, Statement, storable
from everwhen.store.event_cursors import put_cursor
from everwhen.store.lanes import Lane
from everwhen.store.transaction import StorePart, Transaction

_OF_IDS = Statement(f"SELECT {ALERT_COLUMNS} FROM alerts WHERE id = ANY(:ids::integers) ORDER BY id")

_DELIVERY = columns_of(AlertDelivery._fields)
# idx_deliveries_pending: the first of each rule.
_PENDING = Statement(f"""
SELECT {_DELIVERY} FROM alert_deliveries WHERE next_at IS NOT NULL AND id IN (
    SELECT min(id) FROM alert_deliveries WHERE next_at IS NOT NULL GROUP BY rule) ORDER BY id""")
_END_DELIVERY = Statement("""
UPDATE alert_deliveries SET next_at = :next_at::instant, attempts = attempts + 1, error = :error::text,
    delivered_at = :delivered_at::instant, given_up_at = :given_up_at::instant
WHERE delivery_id = :delivery_id::text AND next_at IS NOT NULL""")
# idx_deliveries_pending, whole.
END_ALL_DELIVERIES = Statement("""
UPDATE alert_deliveries SET next_at = NULL, given_up_at = :now::instant, error = :error::text
WHERE next_at IS NOT NULL""")


# The primary key of alerts, backwards, until the page is full.
_WANTED = """
FROM alerts WHERE (:state::text IS NULL OR state = :state::text)
    AND (:class_::text IS NULL OR class = :class_::text)
    AND (:schedule_id::text IS NULL OR schedule_id = :schedule_id::text)
    AND (:owner::text IS NULL OR owner = :owner::text)"""
_LIST = Statement(f"""
SELECT {ALERT_COLUMNS} {_WANTED} AND (:before::integer IS NULL OR id < :before::integer)
ORDER BY id DESC LIMIT :limit""")
_COUNT = Statement(f"SELECT count(*) FROM (SELECT 1 {_WANTED} LIMIT :limit) AS found")
# The open ones, by their partial index; alert_silences, whole, for each: there are few.
_COUNT_UNANSWERED = Statement("""
SELECT count(*) FROM (SELECT 1 FROM alerts a WHERE state = 'open' AND acked_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM alert_silences silence WHERE silence.until > :now::instant
        AND silence.subject = CASE silence.kind WHEN 'schedule' THEN a.schedule_id ELSE a."group" END)
    LIMIT :limit) AS found""")
# The primary key of alert_deliveries, backwards; idx_deliveries_rule where a rule is given.
_OF_DELIVERIES = """
FROM alert_deliveries WHERE (:rule::text IS NULL OR rule = :rule::text)
    AND (:owner::text IS NULL OR owner = :owner::text)"""
_DELIVERIES = Statement(f"""
SELECT {_DELIVERY} {_OF_DELIVERIES} AND (:before::integer IS NULL OR id < :before::integer)
ORDER BY id DESC LIMIT :limit""")
_COUNT_DELIVERIES = Statement(f"SELECT count(*) FROM (SELECT 1 {_OF_DELIVERIES} LIMIT :limit) AS found")
# idx_schedules_pings; the primary key of schedule_revisions.
_HAS_PINGS = Statement("""
SELECT 1 FROM schedules INDEXED BY idx_schedules_pings WHERE pings AND uid > '' LIMIT 1""")
_PINGED = Statement("""
SELECT s.uid, s.source, r.words FROM schedules s JOIN schedule_revisions r ON r.uid = s.uid AND r.revision = s.revision
WHERE s.pings AND s.uid = ANY(:uids::texts)""")
# The primary keys.
_ACKNOWLEDGE = Statement("""
UPDATE alerts SET acked_at = :now::instant, acked_by = :actor::text
WHERE id = :id AND state = 'open' AND acked_at IS NULL""")
_NO_REPEATS = Statement("UPDATE alert_notices SET due_at = NULL WHERE alert = :id AND state = 'reported'")
_INSERT_SILENCE = Insert("alert_silences", tuple(name for name in Silence._fields if name != "id"))
_OF_SUBJECT = "FROM alert_silences WHERE subject = :subject::text AND kind = :kind::text"
_LAST_SILENCE = Statement(f"SELECT max(id) {_OF_SUBJECT}")
_LONGEST_SILENCE = Statement(f"SELECT max(until) {_OF_SUBJECT}")
_END_SILENCES_OF = Statement(f"DELETE {_OF_SUBJECT}")
# idx_schedules_owner, and the unique key on schedule_id.
_SILENCES_OF_OWNER = Statement(f"""
SELECT {SILENCE_COLUMNS} FROM alert_silences WHERE until > :now::instant AND kind = 'schedule'
    AND subject IN (SELECT schedule_id FROM schedules WHERE owner = :owner::text) ORDER BY id""")
_END_SILENCE = Statement("DELETE FROM alert_silences WHERE id = :id")
_SILENCED = Statement(f"SELECT {SILENCE_COLUMNS} FROM alert_silences WHERE id = :id")


class Alerts(StorePart):
    """Alerts, silences and deliveries of one database."""

    # -- rounds --

    def is_idle(self, round_: Round) -> bool:
        """Check whether a round would change nothing; it reads only."""
        with self._store.read() as tx:
            return is_idle(tx, round_)

    def take_in(self, cursor: EventCursor, round_: Round) -> EventCursor | None:
        """Do one round and move the cursor, in one transaction; None when another node has the cursor."""

        def work(tx: Transaction) -> EventCursor | None:
            kept = put_cursor(tx, round_.now, cursor)
            if kept is not None:
                write_round(tx, round_)
            return kept

        return self._store.write(Lane.API, work)

    # -- what people ask for, and do --

    def list(self, wanted: AlertFilter, *, limit: int, before: int | None = None) -> list[Alert]:
        """Return alerts, newest first; `before` is an id."""
        return self._many(alert_of, _LIST, **wanted._asdict(), before=before, limit=limit)

    def count(self, wanted: AlertFilter, *, most: int) -> int:
        """Return how many alerts match; counting stops at `most`."""
        with self._store.look() as tx:
            return int(tx.value(_COUNT, **wanted._asdict(), limit=most))

    def count_unanswered(self, now: int, *, most: int) -> int:
        """Return how many open alerts nobody has acknowledged or silenced; counting stops at `most`."""
        with self._store.look() as tx:
            return int(tx.value(_COUNT_UNANSWERED, now=now, limit=most))

    def get(self, alert_id: int) -> Alert | None:
        return self._one(alert_of, _OF_IDS, ids=[alert_id])

    def acknowledge(self, now: int, alert_id: int, actor: str | None) -> bool:
        """Stop the repetitions of an open alert; False when it is over, or acknowledged already."""

        def work(tx: Transaction) -> bool:
            if not tx.run(_ACKNOWLEDGE, id=alert_id, now=now, actor=actor):
                return False
            tx.run(_NO_REPEATS, id=alert_id)
            (alert,) = tx.many(alert_of, _OF_IDS, ids=[alert_id])
            about = {"alert": alert_id, "key": alert.key}
            event = Event(
                "alert.acknowledged",
                now,
                alert.schedule_id,
                alert.uid,
                alert.owner,
                actor=actor,
                detail=about,
            )
            tx.insert_events([event])
            return True

        return self._store.write(Lane.API, work)

    def silence(self, silence: Silence, event: Event) -> Silence:
        """Write a silence in the place of the others of its subject, and return it: it lasts as long as the longest."""

        def work(tx: Transaction) -> Silence:
            about = {"kind": silence.kind, "subject": silence.subject}
            until = max(tx.value(_LONGEST_SILENCE, **about) or 0, silence.until)
            tx.run(_END_SILENCES_OF, **about)
            longest = silence._replace(until=until)
            tx.insert(_INSERT_SILENCE, [tuple(v for k, v in longest._asdict().items() if k != "id")])
            tx.insert_events([event])
            return longest._replace(id=int(tx.value(_LAST_SILENCE, **about)))

        return self._store.write(Lane.API, work)

    def end_silence(self, silence_id: int) -> bool:
        return bool(self._store.write(Lane.API, lambda tx: tx.run(_END_SILENCE, id=silence_id)))

    def find_silence(self, silence_id: int) -> Silence | None:
        return self._one(Silence._make, _SILENCED, id=silence_id)

    def silences(self, now: int, *, owner: str | None = None) -> Sequence[Silence]:
        """Return those that are in force; of an owner those of its schedules."""
        if owner is None:
            return self._many(Silence._make, SILENCES, now=now)
        return self._many(Silence._make, _SILENCES_OF_OWNER, now=now, owner=owner)

    def deliveries(
        self, *, rule: str | None, owner: str | None, limit: int, before: int | None = None
    ) -> Sequence[AlertDelivery]:
        """Return messages, newest first; `before` is a number."""
        return self._many(
            AlertDelivery._make, _DELIVERIES, rule=rule, owner=owner, before=before, limit=limit
        )

    def count_deliveries(self, *, rule: str | None, owner: str | None, most: int) -> int:
        with self._store.look() as tx:
            return int(tx.value(_COUNT_DELIVERIES, rule=rule, owner=owner, limit=most))

    # -- the outbox --

    def pending(self) -> Sequence[AlertDelivery]:
        """Return the first message of each rule that is not delivered yet, due or not."""
        return self._many(AlertDelivery._make, _PENDING)

    def add(self, deliveries: Sequence[AlertDelivery], events: Sequence[Event] = ()) -> None:
        """Write messages that no alert makes: tests, pings."""

        def work(tx: Transaction) -> None:
            insert_deliveries(tx, deliveries)
            if events:
                tx.insert_events(events)

        self._store.write(Lane.API, work)

    def keep(self, alerts: Sequence[Alert]) -> None:
        """Write alerts as they are, without a message."""
        self._store.write(Lane.API, lambda tx: insert_alerts(tx, alerts))

    # -- pings --

    def has_pings(self) -> bool:
        """Check whether any schedule has a ping."""
        with self._store.look() as tx:
            return bool(tx.rows(_HAS_PINGS))

    def pinged(self, uids: Collection[str]) -> Mapping[str, tuple[str, str]]:
        """Return those of these schedules that have a ping: their source, and the keys of their newest revision."""
        with self._store.look() as tx:
            rows = tx.rows(_PINGED, uids=list(uids)) if uids else []
        return {uid: (source, words) for uid, source, words in rows}

    def take_pings(
        self, now: int, cursor: EventCursor, deliveries: Sequence[AlertDelivery]
    ) -> EventCursor | None:
        """Write pings and move the cursor, in one transaction; None when another node has the cursor."""

        def work(tx: Transaction) -> EventCursor | None:
            kept = put_cursor(tx, now, cursor)
            if kept is not None:
                insert_deliveries(tx, deliveries)
            return kept

        return self._store.write(Lane.API, work)

    def confirm(self, now: int, delivery: AlertDelivery, events: Sequence[Event]) -> bool:
        """Record that a message was delivered; False when that is on record already."""
        return self._end(delivery, events, next_at=None, error=None, delivered_at=now, given_up_at=None)

    def postpone(self, delivery: AlertDelivery, *, next_at: int, error: str) -> bool:
        """Record a failed attempt, and when the next one is."""
        return self._end(
            delivery, (), next_at=next_at, error=storable(error), delivered_at=None, given_up_at=None
        )

    def give_up(self, now: int, delivery: AlertDelivery, error: str, events: Sequence[Event]) -> bool:
        """Record that a message is not tried again."""
        return self._end(
            delivery, events, next_at=None, error=storable(error), delivered_at=None, given_up_at=now
        )

    def _end(self, delivery: AlertDelivery, events: Sequence[Event], **values: Any) -> bool:
        def work(tx: Transaction) -> bool:
            is_new = bool(tx.run(_END_DELIVERY, delivery_id=delivery.delivery_id, **values))
            if is_new and events:
                tx.insert_events(events)
            return is_new

        return self._store.write(Lane.API, work)


def end_deliveries(tx: Queries, now: int, error: str) -> int:
    """Give all messages up that were not sent: a restored backup may have sent them already."""
    return tx.run(END_ALL_DELIVERIES, now=now, error=error)
