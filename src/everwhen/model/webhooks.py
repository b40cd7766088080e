"""Event webhooks: a URL that gets the events of its owner in signed portions, and how far it has got."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from everwhen.model.instants import DAY, SECOND

MOST_WEBHOOKS = 20  # of one token
MOST_EVENTS = 500  # of one delivery
MOST_BYTES = 256 * 1024  # of the events of one delivery; a single event may be longer
OFF_AFTER = DAY  # of failures without a success in between
ALL = "all"

WebhookState = Literal["active", "failing", "off"]
OffReason = Literal["failures", "token", "person"]


class Webhook(NamedTuple):
    """A row of `webhooks`, without its secret and the content of its delivery.

    The position is that of a reader of the event feed. `delivery_id` is the delivery that is written and not confirmed:
    the position is behind it already, and nothing is read before it was delivered.
    """

    webhook_id: str
    token_id: str
    owner: str | None
    url: str
    types: str  # words of `on`, with spaces between them
    created_at: int
    updated_at: int
    created_by: str | None
    event_row: int
    job_row: int
    open_jobs: str | None = None
    off_at: int | None = None
    off_reason: OffReason | None = None
    delivery_id: str | None = None
    attempts: int = 0
    failing_since: int | None = None
    next_at: int | None = None
    error: str | None = None
    delivered_at: int | None = None
    delivered: int = 0  # deliveries so far

    @property
    def state(self) -> WebhookState:
        if self.off_at is not None:
            return "off"
        return "active" if self.failing_since is None else "failing"

    @property
    def on(self) -> list[str]:
        return self.types.split()

    @property
    def rule(self) -> str:
        """Return its name among the rules of alerts."""
        return rule_of_webhook(self.webhook_id)


class WebhookDelivery(NamedTuple):
    """A delivery that is written, with all that is needed to send it."""

    webhook_id: str
    url: str
    secret: str
    delivery_id: str
    body: str
    attempts: int
    failing_since: int | None


class WebhookMove(NamedTuple):
    """The new position of a webhook, and the delivery of what it has passed, if anything of it is wanted."""

    webhook_id: str
    event_row: int
    job_row: int
    open_jobs: str | None
    delivery_id: str | None = None
    body: str | None = None


_RULE = "webhook:"


def rule_of_webhook(webhook_id: str) -> str:
    return f"{_RULE}{webhook_id}"


def is_of_webhook(rule: str) -> bool:
    return rule.startswith(_RULE)


def types_of(words: Iterable[str], known: Collection[str]) -> frozenset[str]:
    """Return the types that the words of `on` name: a type, the beginning of several (`breaker.*`), or `all`.

    >>> sorted(types_of(["breaker.*", "job.failed"], ["breaker.opened", "breaker.closed", "job.failed", "job.lost"]))
    ['breaker.closed', 'breaker.opened', 'job.failed']
    """
    found: set[str] = set()
    for word in words:
        found |= {name for name in known if is_named(name, word)}
    return frozenset(found)


def is_named(name: str, word: str) -> bool:
    return word in (ALL, name) or (word.endswith(".*") and name.startswith(word.removesuffix("*")))


def signature_of(secret: str, body: bytes, now: int) -> str:
    """Return the value of `Everwhen-Signature`, as requests to `/hooks/` have it.

    >>> signature_of("k", b"{}", 5 * SECOND)[:13]
    't=5,v1=d06625'
    """
    import hmac  # commands that only read sign nothing
    from hashlib import sha256

    at = now // SECOND
    mac = hmac.new(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()
    return f"t={at},v1={mac}"
