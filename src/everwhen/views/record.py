"""What is on record, events and messages, as it is answered and streamed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from everwhen.model.event_details import readable_details
from everwhen.model.events import Derived
from everwhen.model.history import Recorded
from everwhen.model.job import trace_id_of
from everwhen.model.masks import masked
from everwhen.model.pause import actor_in, name_in
from everwhen.operations.event_feed import EventNames, FeedEntry, facts_of
from everwhen.views.labels import Labelled, label_to_json
from everwhen.views.shape import Object, View, When, field, when_text


def detail_to_json(detail: Mapping[str, object]) -> Object:
    """Return a detail with its instants in ISO 8601 and its amounts in their unit, as everywhere else."""
    return readable_details(detail, when_text)


class AuditEvent(Labelled):
    """One event of the audit, or one that is derived from jobs and schedules."""

    id: int | None = field(
        about="Its number on record; none for `schedule.fired`, `.retried`, `.held`, `job.started`,"
        " `.succeeded`, `.failed` and `.timed_out`, which are not recorded but read from jobs and schedules."
    )
    at: When
    type: str = field(examples=["schedule.skipped"])
    schedule_id: str | None
    uid: str | None
    owner: str | None
    slot_at: When | None
    reason: str | None
    slot_count: int = field(about="Above 1: a range of slots, its ends in `detail`.")
    job_id: str | None
    actor: str | None
    actor_name: str | None = field(
        about="The name of the token, user or program that did it, in `actor` or in `detail.by`."
    )
    detail: Object = field(via=detail_to_json)
    trace_id: str | None


class AuditList(View):
    items: list[AuditEvent]
    total: int
    total_is_approximate: bool = field("is_approximate")
    actors: dict[str, str] = field(
        about="The names of the tokens that these events name in `actor` or in `detail.by`.",
        examples=[{"token:tok_eefa9d2a251d": "mira"}],
    )
    next_cursor: str | None
    last_event_id: str | None = field(
        about="Behind this list: for `after`, or for Last-Event-ID of the stream. Not on further pages.",
        examples=["12.345"],
    )


class SaidMessage(View):
    """A message of a schedule; `event` is the MessageEvent."""

    id: int
    at: When
    schedule_id: str
    uid: str
    owner: str | None
    job_id: str
    event: Object = field("body", via=json.loads)


def message_to_json(message: object, *, shows_secrets: bool) -> Object:
    """Return a message as it was said, or for those who only look, with masks in the place of secrets."""
    fields = SaidMessage.of(message)
    return fields if shows_secrets else {**fields, "event": masked(fields["event"])}


class MessageList(View):
    items: list[SaidMessage]
    total: int
    total_is_approximate: bool = field("is_approximate")
    next_cursor: str | None


def event_to_json(entry: FeedEntry, names: EventNames) -> Object:
    facts = facts_of(entry)
    label = label_to_json(names.labels.get(facts.uid or ""))
    if isinstance(facts, Derived):
        trace_id = None if facts.job_id is None else trace_id_of(facts.job_id)
        more = {"id": None, "slot_count": 1, "actor": None, "actor_name": None, "trace_id": trace_id}
        return AuditEvent.of(facts, **more, **label)
    actor = actor_in(facts)
    actor_name = None if actor is None else names.actors.get(actor, name_in(actor))
    number = entry.id if isinstance(entry, Recorded) else None
    return AuditEvent.of(facts, id=number, actor_name=actor_name, **label)
