"""Event webhooks: what callers create, and the deliveries of events to them.

`advance` is one transaction: it moves the positions of webhooks behind what was read, and writes the deliveries of
what they want. So each event is in one delivery, whatever crashes. Sending follows the commit, and its confirmation is
another transaction (`confirm`): a crash between the two sends a delivery again, under the same id.

A webhook has at most one delivery at a time, which is deleted once it was delivered. So a receiver that hangs, and one
that is busy, leave one row each, however many events there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from everwhen.model.event_cursor import EventCursor
from everwhen.model.events import Event
from everwhen.model.webhooks import OffReason, Webhook, WebhookDelivery, WebhookMove
from everwhen.store.dialect import Insert, Statement, storable
from everwhen.store.event_cursors import put_cursor
from everwhen.store.lanes import Lane
from everwhen.store.transaction import StorePart, Transaction

_FIELDS = ", ".join(Webhook._fields)
# There are a few of each token: they are scanned.
_ALL = Statement(f"""
SELECT {_FIELDS} FROM webhooks WHERE (:owner::text IS NULL OR owner = :owner::text)
ORDER BY created_at DESC, webhook_id""")
# The primary key of webhooks, whole; then that of tokens.
_ON = Statement(f"""
SELECT {", ".join(f"w.{name}" for name in Webhook._fields)}, t.revoked_at, t.expires_at
FROM webhooks w LEFT JOIN tokens t ON t.token_id = w.token_id WHERE w.off_at IS NULL ORDER BY w.webhook_id""")
_HAS_ANY = Statement("SELECT 1 FROM webhooks WHERE off_at IS NULL LIMIT 1")
# idx_webhooks_token
_COUNT = Statement("SELECT count(*) FROM webhooks WHERE token_id = :token_id::text")
# The primary key of webhooks, all of these.
_OF_ID = Statement(f"SELECT {_FIELDS} FROM webhooks WHERE webhook_id = :webhook_id::text")
_DELIVERY = Statement(f"""
SELECT {", ".join(WebhookDelivery._fields)} FROM webhooks
WHERE webhook_id = :webhook_id::text AND off_at IS NULL AND delivery_id IS NOT NULL""")
_INSERT = Insert("webhooks", (*Webhook._fields, "secret"))
_DELETE = Statement("DELETE FROM webhooks WHERE webhook_id = :webhook_id::text")
_CHANGE = Statement("""
UPDATE webhooks SET url = :url::text, types = :types::text, secret = coalesce(:secret::text, secret),
    updated_at = :updated_at::instant
WHERE webhook_id = :webhook_id::text""")
_SWITCH_ON = Statement("""
UPDATE webhooks SET off_at = NULL, off_reason = NULL, attempts = 0, failing_since = NULL, next_at = NULL, error = NULL,
    token_id = :token_id::text
WHERE webhook_id = :webhook_id::text""")
_MOVE = Statement("""
UPDATE webhooks AS w SET event_row = v.event_row, job_row = v.job_row, open_jobs = v.open_jobs,
    delivery_id = v.delivery_id, body = v.body
FROM batch AS v(webhook_id, event_row, job_row, open_jobs, delivery_id, body)
WHERE w.webhook_id = v.webhook_id AND w.delivery_id IS NULL""")
_CONFIRM = Statement("""
UPDATE webhooks SET delivery_id = NULL, body = NULL, attempts = 0, failing_since = NULL, next_at = NULL, error = NULL,
    delivered_at = :now::instant, delivered = delivered + 1
WHERE webhook_id = :webhook_id::text AND delivery_id = :delivery_id::text""")
_POSTPONE = Statement("""
UPDATE webhooks SET attempts = attempts + 1, failing_since = :failing_since::instant, next_at = :next_at::instant,
    error = :error::text
WHERE webhook_id = :webhook_id::text AND delivery_id = :delivery_id::text AND off_at IS NULL""")
_SWITCH_OFF = Statement("""
UPDATE webhooks SET off_at = :now::instant, off_reason = :reason::text, next_at = NULL,
    error = coalesce(:error::text, error)
WHERE webhook_id = :webhook_id::text AND off_at IS NULL""")


class ActiveWebhook(NamedTuple):
    """A webhook that is on, and whether its token is in force."""

    webhook: Webhook
    is_permitted: bool


class Webhooks(StorePart):
    """The webhooks of one database; each method is one transaction."""

    # -- what callers do --

    def add(self, webhook: Webhook, secret: str, event: Event, *, most: int) -> bool:
        """Store a webhook; False when its token has so many already."""

        def work(tx: Transaction) -> bool:
            if _is_full(tx, webhook.token_id, most):
                return False
            tx.insert(_INSERT, [(*webhook, secret)])
            tx.insert_events([event])
            return True

        return self._store.write(Lane.API, work)

    def all(self, owner: str | None = None) -> list[Webhook]:
        """Return the webhooks of an owner, or all, newest first."""
        return self._many(Webhook._make, _ALL, owner=owner)

    def find(self, webhook_id: str) -> Webhook | None:
        return self._one(Webhook._make, _OF_ID, webhook_id=webhook_id)

    def change(self, after: Webhook, secret: str | None, event: Event) -> bool:
        """Write the URL and the types of a webhook, and a new secret if one is given; False when it is gone.

        All else belongs to the node that delivers.
        """
        values = {name: getattr(after, name) for name in ("webhook_id", "url", "types", "updated_at")}

        def work(tx: Transaction) -> bool:
            is_changed = bool(tx.run(_CHANGE, **values, secret=secret))
            if is_changed:
                tx.insert_events([event])
            return is_changed

        return self._store.write(Lane.API, work)

    def switch_on(self, webhook: Webhook, token_id: str, *, most: int) -> bool:
        """Switch a webhook on for this token, and forget its failures; False when the token has too many."""

        def work(tx: Transaction) -> bool:
            if token_id != webhook.token_id and _is_full(tx, token_id, most):
                return False
            tx.run(_SWITCH_ON, webhook_id=webhook.webhook_id, token_id=token_id)
            return True

        return self._store.write(Lane.API, work)

    def delete(self, webhook_id: str, event: Event) -> bool:
        """Delete a webhook and its delivery; False when there is none."""

        def work(tx: Transaction) -> bool:
            is_deleted = bool(tx.run(_DELETE, webhook_id=webhook_id))
            if is_deleted:
                tx.insert_events([event])
            return is_deleted

        return self._store.write(Lane.API, work)

    # -- what the node that delivers does --

    def has_any(self) -> bool:
        """Check whether a webhook is on."""
        with self._store.look() as tx:
            return bool(tx.rows(_HAS_ANY))

    def active(self, now: int) -> list[ActiveWebhook]:
        """Return the webhooks that are on."""

        def made(row: Sequence[Any]) -> ActiveWebhook:
            *fields, revoked_at, expires_at = row
            is_good = revoked_at is None and (expires_at is None or now < expires_at)
            return ActiveWebhook(Webhook._make(fields), is_good)

        return self._many(made, _ON)

    def advance(self, now: int, cursor: EventCursor, moves: Sequence[WebhookMove]) -> EventCursor | None:
        """Move webhooks and write their deliveries; None when another node has the cursor, and nothing is written."""

        def work(tx: Transaction) -> EventCursor | None:
            kept = put_cursor(tx, now, cursor)
            if kept is not None and moves:
                tx.run(_MOVE, batch=moves)
            return kept

        return self._store.write(Lane.API, work)

    def delivery(self, webhook_id: str) -> WebhookDelivery | None:
        """Return the delivery of a webhook that is on; None when it has none."""
        return self._one(WebhookDelivery._make, _DELIVERY, webhook_id=webhook_id)

    def confirm(self, now: int, sent: WebhookDelivery) -> bool:
        """Record that a delivery arrived, and delete it; False when that is on record already."""
        values = {"webhook_id": sent.webhook_id, "delivery_id": sent.delivery_id}
        return bool(self._store.write(Lane.API, lambda tx: tx.run(_CONFIRM, now=now, **values)))

    def postpone(self, sent: WebhookDelivery, *, failing_since: int, next_at: int, error: str) -> None:
        """Record a failed attempt, and when the next one is."""
        values = {"webhook_id": sent.webhook_id, "delivery_id": sent.delivery_id, "error": storable(error)}
        self._store.write(
            Lane.API, lambda tx: tx.run(_POSTPONE, failing_since=failing_since, next_at=next_at, **values)
        )

    def switch_off(
        self, now: int, webhook_id: str, reason: OffReason, error: str | None, events: Sequence[Event]
    ) -> bool:
        """Switch a webhook off; what it has not got yet is kept. False when it is off, or gone."""
        text = None if error is None else storable(error)

        def work(tx: Transaction) -> bool:
            is_new = bool(tx.run(_SWITCH_OFF, now=now, webhook_id=webhook_id, reason=reason, error=text))
            if is_new:
                tx.insert_events(events)
            return is_new

        return self._store.write(Lane.API, work)


def _is_full(tx: Transaction, token_id: str, most: int) -> bool:
    tx.lock_token(token_id)  # two requests at once are not both the last
    return int(tx.value(_COUNT, token_id=token_id)) >= most
