"""What is on record, events and messages, as it is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping

from everwhen.model.derived import Derived
from everwhen.model.history import Recorded
from everwhen.model.job import trace_id_of
from everwhen.model.subscription import Message
from everwhen.operations.event_feed import FeedEntry, facts_of
from everwhen.views.values import Object, when_text

_NOT_TOLD = {"slot_count": 1, "actor": None}


# The instants in details, beside all that end in `_at`. They are stored as numbers, which the ledger counts with.
_INSTANTS = frozenset(("first", "last", "from", "to", "until"))


def detail_to_json(detail: Mapping[str, object]) -> Object:
    """A detail as it is told: instants are ISO 8601, as everywhere else."""
    return {
        key: when_text(value)
        if isinstance(value, int)
        and not isinstance(value, bool)
        and (key in _INSTANTS or key.endswith("_at"))
        else value
        for key, value in detail.items()
    }


def event_to_json(entry: FeedEntry) -> Object:
    facts = facts_of(entry)
    return {
        "id": entry.id if isinstance(entry, Recorded) else None,
        **(_NOT_TOLD if isinstance(entry, Derived) else {}),
        "trace_id": None if facts.job_id is None else trace_id_of(facts.job_id),
        **facts._asdict(),
        "at": when_text(facts.at),
        "slot_at": when_text(facts.slot_at),
        "detail": detail_to_json(facts.detail),
    }


def message_to_json(message: Message) -> Object:
    fields = message._asdict()
    body = json.loads(fields.pop("body"))
    del fields["event_id"]
    return {**fields, "at": when_text(message.at), "event": body}
