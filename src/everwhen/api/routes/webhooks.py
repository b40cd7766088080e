"""Event webhooks: URLs that get the events of an owner, signed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import Field, StringConstraints
from starlette.responses import Response

from everwhen.api.access import Operator, Viewer
from everwhen.api.calls import Context, answer, described, make_router, nothing, refuse_masks
from everwhen.api.costs import cheap
from everwhen.api.payloads import Identifier, Line, Shape
from everwhen.operations import webhooks
from everwhen.operations.webhooks import WebhookChanges
from everwhen.views.shape import list_to_json
from everwhen.views.webhooks import EventWebhook, EventWebhookList, NewEventWebhook

router = make_router("webhooks")
WebhookId = Annotated[str, Path(max_length=300, pattern=r"^[^\x00]+$", examples=["whk_a1b2c3d4e5f60718"])]
TypeName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00]+$")]
TypeNames = Annotated[list[TypeName], Field(min_length=1, max_length=100, fail_fast=True)]
_ON = "Types of events, beginnings such as `breaker.*`, or `all`."
_SECRET = "What deliveries are signed with, 16 to 200 characters; no answer shows it."


class EventWebhookBody(Shape):
    """A webhook to be created."""

    url: Line = Field(examples=["https://example.com/everwhen-events"])
    on: TypeNames = Field(default=["all"], description=_ON, examples=[["job.failed", "breaker.*"]])
    secret: Line | None = Field(default=None, description=f"{_SECRET} Left out: one is made.")
    owner: Identifier | None = Field(
        default=None, description="Whose events, for a token without an owner; left out: all."
    )


class EventWebhookChanges(Shape):
    """What changes; what is left out stays."""

    url: Line | None = Field(default=None, examples=["https://example.com/everwhen-events"])
    on: TypeNames | None = Field(default=None, description=_ON, examples=[["all"]])
    secret: Line | None = Field(default=None, description=_SECRET)
    active: bool | None = Field(
        default=None, description="true: switch it on, and try at once. false: switch it off."
    )


@router.get("/webhooks/", **described("List webhooks", EventWebhookList, "All."))
@cheap
def list_webhooks(context: Context, caller: Viewer) -> Response:
    """Returns the newest first. A token with an owner sees the webhooks of its owner."""
    found = webhooks.list_webhooks(context.runtime, caller)
    return answer(list_to_json([EventWebhook.of(one) for one in found]))


@router.post(
    "/webhooks/",
    **described("Create a webhook", NewEventWebhook, "The webhook, with its secret.", status=201),
)
@cheap
def create_webhook(context: Context, caller: Operator, body: EventWebhookBody) -> Response:
    """The URL gets the events from now on, at least once each, signed as requests to `/hooks/` are."""
    refuse_masks({"url": body.url})
    made = webhooks.create_webhook(
        context.runtime, body.url, body.on, caller, secret=body.secret, owner=body.owner
    )
    fields = NewEventWebhook.of(made.webhook, secret=made.secret)
    return answer(fields, 201, {"cache-control": "no-store"})


@router.get("/webhooks/{webhook_id}/", **described("Get a webhook", EventWebhook, "The webhook.", 404))
@cheap
def get_webhook(context: Context, caller: Viewer, webhook_id: WebhookId) -> Response:
    """Returns how far it has got, and what went wrong."""
    return answer(EventWebhook.of(webhooks.get_webhook(context.runtime, webhook_id, caller)))


@router.patch("/webhooks/{webhook_id}/", **described("Change a webhook", EventWebhook, "The webhook.", 404))
@cheap
def change_webhook(
    context: Context, caller: Operator, webhook_id: WebhookId, body: EventWebhookChanges
) -> Response:
    """Switched on again, it continues with what it has not received yet."""
    refuse_masks({"url": body.url})
    changes = WebhookChanges(body.url, body.on, body.secret, body.active)
    return answer(EventWebhook.of(webhooks.change_webhook(context.runtime, webhook_id, changes, caller)))


@router.delete(
    "/webhooks/{webhook_id}/",
    **described("Delete a webhook", None, "Nothing more is sent.", 404, status=204),
)
@cheap
def delete_webhook(context: Context, caller: Operator, webhook_id: WebhookId) -> Response:
    """What it has not got yet is not sent."""
    webhooks.delete_webhook(context.runtime, webhook_id, caller)
    return nothing()
