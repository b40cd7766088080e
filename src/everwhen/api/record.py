"""The shapes of what is on record, events and messages, as lists show them and as streams send them."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import partial

from pydantic import Field

from everwhen.api.feeds import Cursor, Item, Source
from everwhen.api.payloads import Object, Shape, When, when_text
from everwhen.model.derived import Derived, told_of_hold
from everwhen.model.history import Recorded
from everwhen.operations.audit import MOST_HOLDS
from everwhen.operations.happened import Happened, Place, facts_of, happened_after, last_place
from everwhen.ports.house import House
from everwhen.ports.messages import Message

_spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class AuditEvent(Shape):
    """One line of the audit, or of what is told beside it."""

    id: int | None = Field(
        description="Its number on record; none for `schedule.fired`, `.retried` and `.held`, which are not recorded"
        " but read from jobs and schedules."
    )
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
    last_event_id: str | None = Field(
        description="Behind this list: for `after`, or for Last-Event-ID of the stream. Not on further pages.",
        examples=["12.345"],
    )


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


_NOT_TOLD = {"slot_count": 1, "actor": None, "trace_id": None}


def event_words(happened: Happened) -> Object:
    facts = facts_of(happened)
    return {
        "id": happened.id if isinstance(happened, Recorded) else None,
        **(_NOT_TOLD if isinstance(happened, Derived) else {}),
        **facts._asdict(),
        "at": when_text(facts.at),
        "slot_at": when_text(facts.slot_at),
        "detail": dict(facts.detail),
    }


def message_words(message: Message) -> Object:
    words = message._asdict()
    body = json.loads(words.pop("body"))
    del words["event_id"]
    return {**words, "at": when_text(message.at), "event": body}


# -- as streams send them --


def event_source(house: House) -> Source:
    """What happens as items of a feed: events and firings, and holds when they are seen."""
    return Source(partial(_happened_after, house), partial(last_place, house), partial(_held, house))


def message_source(house: House) -> Source:
    return Source(partial(_messages_after, house), lambda: (house.messages.last_id(),))


def _happened_after(house: House, after: Cursor, limit: int) -> list[Item]:
    found = happened_after(house, Place._make(after), limit=limit)
    return [_item(one.happened, one.sequence, one.number) for one in found]


def _held(house: House) -> dict[Hashable, Item]:
    holds = house.firings.holds(limit=MOST_HOLDS)
    return {(hold.uid, hold.slot_at): _item(told_of_hold(hold), None, 0) for hold in holds}


def _item(happened: Happened, sequence: int | None, number: int) -> Item:
    facts = facts_of(happened)
    return Item(sequence, number, facts.owner, _frame(facts.type, event_words(happened)))


def _messages_after(house: House, after: Cursor, limit: int) -> list[Item]:
    found = house.messages.after(after[0], limit=limit)
    return [Item(0, one.id, one.owner, _frame("message", message_words(one))) for one in found]


def _frame(kind: str, words: Object) -> bytes:
    return f"event: {kind}\ndata: {_spell(words)}\n\n".encode(errors="replace")
