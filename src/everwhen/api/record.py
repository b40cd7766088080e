"""The shapes of what is on record, events and messages, as lists show them and as streams send them."""

from __future__ import annotations

import json
from functools import partial

from pydantic import Field

from everwhen.api.feeds import Item, Source
from everwhen.api.payloads import Object, Shape, When, when_text
from everwhen.model.history import Recorded
from everwhen.ports.house import House
from everwhen.ports.messages import Message

_spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class AuditEvent(Shape):
    """One line of the audit."""

    id: int
    at: When
    type: str = Field(examples=["schedule.skipped"])
    schedule_id: str | None
    uid: str | None
    owner: str | None
    slot_at: When | None
    reason: str | None
    slot_count: int = Field(description="Above 1: a range of slots, its ends in `detail`.")
    job_id: str | None
    actor: str | None
    detail: Object
    trace_id: str | None


class AuditList(Shape):
    items: list[AuditEvent]
    total: int
    total_is_approximate: bool
    next_cursor: str | None


class SaidMessage(Shape):
    """A message of a schedule; `event` is the MessageEvent."""

    id: int
    at: When
    schedule_id: str
    uid: str
    owner: str | None
    job_id: str
    event: Object


class MessageList(Shape):
    items: list[SaidMessage]
    total: int
    total_is_approximate: bool
    next_cursor: str | None


def event_words(recorded: Recorded) -> Object:
    event = recorded.event
    return {
        "id": recorded.id,
        **event._asdict(),
        "at": when_text(event.at),
        "slot_at": when_text(event.slot_at),
        "detail": dict(event.detail),
    }


def message_words(message: Message) -> Object:
    words = message._asdict()
    body = json.loads(words.pop("body"))
    del words["event_id"]
    return {**words, "at": when_text(message.at), "event": body}


# -- as streams send them --


def event_source(house: House) -> Source:
    """Events as items of a feed."""
    return Source(partial(_events_after, house), house.ledger.last_event_id)


def message_source(house: House) -> Source:
    return Source(partial(_messages_after, house), house.messages.last_id)


def _events_after(house: House, after: int, limit: int) -> list[Item]:
    found = house.ledger.events_after(after, limit=limit)
    return [Item(one.id, one.event.owner, _frame(one.id, one.event.type, event_words(one))) for one in found]


def _messages_after(house: House, after: int, limit: int) -> list[Item]:
    found = house.messages.after(after, limit=limit)
    return [Item(one.id, one.owner, _frame(one.id, "message", message_words(one))) for one in found]


def _frame(item_id: int, kind: str, words: Object) -> bytes:
    return f"id: {item_id}\nevent: {kind}\ndata: {_spell(words)}\n\n".encode(errors="replace")
