"""Deliveries of events to webhooks, over HTTP, signed as requests to `/hooks/` are."""

from __future__ import annotations

from collections.abc import Callable

from everwhen.alerts.http import HttpChannel
from everwhen.model.alerts import Sent
from everwhen.model.webhooks import WebhookDelivery, signature_of


class WebhookPoster:
    """Posts deliveries. Every URL came over REST: it reaches public addresses only, and redirects are not followed."""

    def __init__(self, now: Callable[[], int], allow_private_urls: Callable[[], bool]) -> None:
        self._http = HttpChannel(now, allow_private_urls=allow_private_urls)

    def __call__(self, delivery: WebhookDelivery, now: int) -> Sent:
        body = delivery.body.encode()
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": delivery.delivery_id,
            "Everwhen-Delivery-Id": delivery.delivery_id,
            "Everwhen-Webhook-Id": delivery.webhook_id,
            "Everwhen-Signature": signature_of(delivery.secret, body, now),
        }
        return self._http.post(delivery.url, headers, body, is_outside=True)
