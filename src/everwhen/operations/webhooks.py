"""Event webhooks of a caller: created, changed, switched on and off, deleted.

A webhook gets what its owner may read in the audit, and nothing else. Another owner's webhook and one that does not
exist are the same. It is that of a token: when the token is revoked or expires, it is switched off.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from everwhen.errors import (
    AccessError,
    SubmissionError,
    UnknownWebhookError,
    WebhookQuotaError,
    oversize,
    shown,
)
from everwhen.model.events import Event, EventType
from everwhen.model.scalars import unknown
from everwhen.model.values import url_fault
from everwhen.model.webhooks import MOST_WEBHOOKS, Webhook, is_named, types_of
from everwhen.operations.access import Caller
from everwhen.operations.event_feed import TYPES
from everwhen.operations.listening import HELD, MOVES, position_now
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

PREFIX, SECRET_PREFIX = "whk_", "whsec_"
LONGEST_URL = 2_000
SHORTEST_SECRET, LONGEST_SECRET = 16, 200
BEGIN_PATIENCE = 1.0  # seconds that a new webhook waits for firings whose transactions are open
# A hold is on the row of its schedule and in no sequence (`event_feed`).
HEARD: tuple[str, ...] = tuple(name for name in TYPES if name != HELD)
_URL = re.compile(r"https?://[!-~]+")


class NewWebhook(NamedTuple):
    """A webhook and its secret, which cannot be shown again; None where the caller chose it."""

    webhook: Webhook
    secret: str | None


class WebhookChanges(NamedTuple):
    """What a caller wants to change; None: it stays."""

    url: str | None = None
    on: Sequence[str] | None = None
    secret: str | None = None
    active: bool | None = None


def create_webhook(
    runtime: Runtime,
    url: str,
    on: Sequence[str],
    caller: Caller,
    *,
    secret: str | None = None,
    owner: str | None = None,
) -> NewWebhook:
    """Create a webhook, which gets what happens from now on. `owner`: whose events, for a caller without an owner."""
    if caller.token.confined is not None:
        raise AccessError("the token of a run ends with the run; create the webhook with another token")
    if not caller.token.sees(owner if owner is not None else caller.token.owner):
        raise AccessError("a token with an owner creates webhooks of that owner")
    _refuse_nonsense(WebhookChanges(url, on, secret), caller)
    now, chosen = runtime.clock.now(), secret or SECRET_PREFIX + secrets.token_urlsafe(32)
    place = position_now(runtime, follows=follows(on), patience=BEGIN_PATIENCE)
    webhook = Webhook(
        PREFIX + secrets.token_hex(8),
        caller.token.token_id,
        owner if owner is not None else caller.token.owner,
        url,
        " ".join(dict.fromkeys(on)),
        created_at=now,
        updated_at=now,
        created_by=caller.actor,
        event_row=place.event_row,
        job_row=place.job_row,
        open_jobs=place.jobs_text,
    )
    event = _event("webhook.created", now, webhook, caller)
    if not store_of(runtime).webhooks.add(webhook, chosen, event, most=MOST_WEBHOOKS):
        raise WebhookQuotaError(MOST_WEBHOOKS)
    return NewWebhook(webhook, chosen if secret is None else None)


def list_webhooks(runtime: Runtime, caller: Caller) -> list[Webhook]:
    """Return the webhooks that the caller may see, newest first."""
    return store_of(runtime).webhooks.all(caller.token.owner)


def get_webhook(runtime: Runtime, webhook_id: str, caller: Caller) -> Webhook:
    found = store_of(runtime).webhooks.find(webhook_id)
    if found is None or not caller.token.sees(found.owner):
        raise UnknownWebhookError(webhook_id)
    return found


def change_webhook(runtime: Runtime, webhook_id: str, changes: WebhookChanges, caller: Caller) -> Webhook:
    """Change a webhook. Switched on again, it continues where it stopped, and is one of the caller's token."""
    before = get_webhook(runtime, webhook_id, caller)
    _refuse_nonsense(changes, caller)
    webhooks, now = store_of(runtime).webhooks, runtime.clock.now()
    if (changes.active is True or changes.url is not None) and not _switched_on(
        runtime, before, changes, caller
    ):
        raise WebhookQuotaError(MOST_WEBHOOKS)
    after = before._replace(
        url=before.url if changes.url is None else changes.url,
        types=before.types if changes.on is None else " ".join(dict.fromkeys(changes.on)),
        updated_at=now,
    )
    event = _event("webhook.updated", now, after, caller, active=changes.active)
    if not webhooks.change(after, changes.secret, event):
        raise UnknownWebhookError(webhook_id)
    if changes.active is False:
        off = _event("webhook.disabled", now, after, caller)._replace(reason="person")
        webhooks.switch_off(now, webhook_id, "person", None, [off])
    return get_webhook(runtime, webhook_id, caller)


def delete_webhook(runtime: Runtime, webhook_id: str, caller: Caller) -> None:
    """Delete a webhook; what it has not got yet is not sent."""
    found = get_webhook(runtime, webhook_id, caller)
    event = _event("webhook.deleted", runtime.clock.now(), found, caller)
    if not store_of(runtime).webhooks.delete(webhook_id, event):
        raise UnknownWebhookError(webhook_id)


def follows(on: Sequence[str]) -> bool:
    """Return whether these names include starts or ends of jobs."""
    return not types_of(on, HEARD).isdisjoint(MOVES)


def _switched_on(runtime: Runtime, before: Webhook, changes: WebhookChanges, caller: Caller) -> bool:
    """Try a webhook at once, and with `active` also one that is off; False when the caller has too many."""
    is_off = before.off_at is not None
    if is_off and not changes.active:
        return True
    token_id = caller.token.token_id if is_off else before.token_id
    return store_of(runtime).webhooks.switch_on(before, token_id, most=MOST_WEBHOOKS)


def _refuse_nonsense(wanted: WebhookChanges, caller: Caller) -> None:
    faults: list[tuple[str, str]] = []
    if wanted.url is not None and (fault := _fault_of_url(wanted.url)):
        faults.append(("url", fault))
    for word in wanted.on if wanted.on is not None else ():
        if not any(is_named(name, word) for name in HEARD):
            faults.append(("on", f'"{shown(word)}": {unknown("type", word, ("all", *HEARD))}'))
    if wanted.on is not None and not wanted.on:
        faults.append(("on", "names at least one type of event, or all"))
    if wanted.secret is not None and not SHORTEST_SECRET <= len(wanted.secret) <= LONGEST_SECRET:
        faults.append(("secret", f"has {SHORTEST_SECRET} to {LONGEST_SECRET} characters"))
    if faults:
        raise SubmissionError(faults)
    if wanted.url is not None:
        caller.refuse_private("url", wanted.url)


def _fault_of_url(url: str) -> str | None:
    """Return why nothing can be sent to this URL; the text does not repeat it, because it may contain a password."""
    if len(url) > LONGEST_URL:
        return oversize(len(url), LONGEST_URL)
    if not _URL.fullmatch(url):
        return "must be an http or https URL in ASCII, without spaces, such as https://example.com/events"
    return url_fault(url)


def _event(type_: EventType, now: int, webhook: Webhook, caller: Caller, **more: object) -> Event:
    detail = {"webhook": webhook.webhook_id, "host": urlsplit(webhook.url).hostname or ""}
    said = {key: value for key, value in more.items() if value is not None}
    return Event(type_, now, owner=webhook.owner, actor=caller.actor, detail={**detail, **said})
