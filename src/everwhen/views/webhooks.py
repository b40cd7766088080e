"""Event webhooks as they are answered, and what their receivers get."""

from __future__ import annotations

import json
from collections.abc import Sequence

from everwhen.model.masks import masked
from everwhen.model.webhooks import OffReason, WebhookState
from everwhen.views.record import AuditEvent
from everwhen.views.shape import Object, View, When, field


class EventWebhook(View):
    """A URL that gets events, and how far it has got. Its secret is never shown."""

    id: str = field("webhook_id", examples=["whk_a1b2c3d4e5f60718"])
    url: str = field(via=masked, about="Without the secrets that it may contain.")
    on: list[str] = field(about="The types of events that it gets.", examples=[["job.failed", "breaker.*"]])
    owner: str | None = field(about="Whose events it gets; none: all.")
    state: WebhookState = field(about="`failing`: the last attempt failed. `off`: nothing is sent.")
    token_id: str = field(about="The token that it belongs to: it is switched off when that ends.")
    created_at: When
    created_by: str | None
    updated_at: When
    delivery_id: str | None = field(about="The delivery that has yet to arrive.")
    attempts: int = field(about="How often that was tried in vain.")
    failing_since: When | None
    next_at: When | None = field(about="When it is tried next.")
    error: str | None = field(about="What became of the last attempt that failed.")
    delivered_at: When | None = field(about="When the last delivery arrived.")
    delivered: int = field(about="How many deliveries have arrived.")
    off_at: When | None
    off_reason: OffReason | None = field(
        about="`failures`: 24 hours of them. `token`: it was revoked, or has expired. `person`: by a call."
    )


class NewEventWebhook(EventWebhook):
    """A webhook that was just created."""

    secret: str | None = field(
        about="What deliveries are signed with. Only this answer has it; none where the caller chose it."
    )


class EventWebhookList(View):
    items: list[EventWebhook]
    total: int


class WebhookEvents(View):
    """The body of a delivery: events in the order in which they were committed."""

    version: int
    delivery: str = field(about="The same over all attempts: `Everwhen-Delivery-Id`.")
    webhook: str
    events: list[AuditEvent]


def delivery_text(webhook_id: str, delivery_id: str, events: Sequence[Object]) -> str:
    """Return the body of a delivery; unpaired surrogates, which no database takes, are replaced.

    >>> delivery_text("w", "d", [{"detail": {"note": "\\ud800"}}])
    '{"version": 1, "delivery": "d", "webhook": "w", "events": [{"detail": {"note": "?"}}]}'
    """
    fields = WebhookEvents.made(version=1, delivery=delivery_id, webhook=webhook_id, events=list(events))
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace").decode()
