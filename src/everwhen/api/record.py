"""The shapes of what is on record, events and messages, as lists show them and as streams send them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from functools import partial

from pydantic import Field

from everwhen.api.feeds import Cursor, Item, Source
from everwhen.api.payloads import Object, Shape, When, when_text
from everwhen.model.derived import Derived, told_of_hold
from everwhen.model.history import Recorded
from everwhen.model.job import trace_id_of
from everwhen.operations.audit import MOST_HOLDS
from everwhen.operations.happened import Happened, Place, facts_of, happened_after, last_place
from everwhen.operations.job_watch import JobWatch
from everwhen.ports.house import House
from everwhen.ports.messages import Message

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


_NOT_TOLD = {"slot_count": 1, "actor": None}


# The instants in details, beside all that end in `_at`. They are stored as numbers, which the ledger counts with.
_INSTANTS = frozenset(("first", "last", "from", "to", "until"))


def detail_words(detail: Mapping[str, object]) -> Object:
    """A detail as it is told: instants are ISO 8601, as everywhere else."""
    return {
        key: when_text(value)
        if isinstance(value, int)
        and not isinstance(value, bool)
        and (key in _INSTANTS or key.endswith("_at"))
        else value
        for key, value in detail.items()
    }


def event_words(happened: Happened) -> Object:
    facts = facts_of(happened)
    return {
        "id": happened.id if isinstance(happened, Recorded) else None,
        **(_NOT_TOLD if isinstance(happened, Derived) else {}),
        "trace_id": None if facts.job_id is None else trace_id_of(facts.job_id),
        **facts._asdict(),
        "at": when_text(facts.at),
        "slot_at": when_text(facts.slot_at),
        "detail": detail_words(facts.detail),
    }


def message_words(message: Message) -> Object:
    words = message._asdict()
    body = json.loads(words.pop("body"))
    del words["event_id"]
    return {**words, "at": when_text(message.at), "event": body}


# -- as streams send them --


def event_source(house: House) -> Source:
    """What happens as items of a feed: events and firings; holds, starts and ends of jobs when they are seen."""
    seen = partial(_seen, house, JobWatch(house))
    return Source(partial(_happened_after, house), partial(last_place, house), seen)


def message_source(house: House) -> Source:
    return Source(partial(_messages_after, house), lambda: (house.messages.last_id(),))


def _happened_after(house: House, after: Cursor, limit: int) -> list[Item]:
    found = happened_after(house, Place._make(after), limit=limit)
    return [_item(one.happened, one.sequence, one.number) for one in found]


def _seen(house: House, watch: JobWatch) -> dict[Hashable, Item]:
    """What has no number in a sequence and is told when it is seen: holds, and what began and ended since."""
    holds = house.firings.holds(limit=MOST_HOLDS)
    found: dict[Hashable, Item] = {(one.uid, one.slot_at): _item(told_of_hold(one), None, 0) for one in holds}
    for told in watch.look():
        found[told.type, told.job_id, told.at] = _item(told, None, 0)
    return found


def _item(happened: Happened, sequence: int | None, number: int) -> Item:
    facts = facts_of(happened)
    return Item(sequence, number, facts.owner, _frame(facts.type, event_words(happened)))


def _messages_after(house: House, after: Cursor, limit: int) -> list[Item]:
    found = house.messages.after(after[0], limit=limit)
    return [Item(0, one.id, one.owner, _frame("message", message_words(one))) for one in found]


def _frame(kind: str, words: Object) -> bytes:
    return f"event: {kind}\ndata: {_spell(words)}\n\n".encode(errors="replace")
