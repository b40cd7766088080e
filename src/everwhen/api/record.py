"""The shapes of what is on record, events and messages, as lists show them and as streams send them."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import partial

from pydantic import Field

from everwhen.api.feeds import Cursor, Item, Source
from everwhen.api.payloads import Shape, When
from everwhen.model.derived import event_of_hold
from everwhen.operations.audit import held_slots
from everwhen.operations.event_feed import (
    FeedEntry,
    Place,
    facts_of,
    feed_after,
    last_message_id,
    last_place,
    messages_after,
)
from everwhen.operations.job_watch import JobWatch
from everwhen.runtime import Runtime
from everwhen.views.record import event_to_json, message_to_json
from everwhen.views.values import Object

_spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class AuditEvent(Shape):
    """One line of the audit, or of what is told beside it."""

    id: int | None = Field(
        description="Its number on record; none for `schedule.fired`, `.retried`, `.held`, `job.started`,"
        " `.succeeded`, `.failed` and `.timed_out`, which are not recorded but read from jobs and schedules."
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


# -- as streams send them --


def event_source(runtime: Runtime) -> Source:
    """What happens as items of a feed: events and firings; holds, starts and ends of jobs when they are seen."""
    seen = partial(_seen, runtime, JobWatch(runtime))
    return Source(partial(_feed_after, runtime), partial(last_place, runtime), seen)


def message_source(runtime: Runtime) -> Source:
    return Source(partial(_messages_after, runtime), lambda: (last_message_id(runtime),))


def _feed_after(runtime: Runtime, after: Cursor, limit: int) -> list[Item]:
    found = feed_after(runtime, Place._make(after), limit=limit)
    return [_item(one.entry, one.sequence, one.number) for one in found]


def _seen(runtime: Runtime, watch: JobWatch) -> dict[Hashable, Item]:
    """What has no number in a sequence and is told when it is seen: holds, and what began and ended since."""
    holds = held_slots(runtime)
    found: dict[Hashable, Item] = {
        (one.uid, one.slot_at): _item(event_of_hold(one), None, 0) for one in holds
    }
    for item in watch.look():
        found[item.type, item.job_id, item.at] = _item(item, None, 0)
    return found


def _item(entry: FeedEntry, sequence: int | None, number: int) -> Item:
    facts = facts_of(entry)
    return Item(sequence, number, facts.owner, _frame(facts.type, event_to_json(entry)))


def _messages_after(runtime: Runtime, after: Cursor, limit: int) -> list[Item]:
    found = messages_after(runtime, after[0], limit=limit)
    return [Item(0, one.id, one.owner, _frame("message", message_to_json(one))) for one in found]


def _frame(kind: str, fields: Object) -> bytes:
    return f"event: {kind}\ndata: {_spell(fields)}\n\n".encode(errors="replace")
