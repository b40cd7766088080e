"""Messages: what a schedule of kind `message` publishes when it fires (a MessageEvent), built from its job alone.

The same job always gives the same event_id and dedupe_key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from everwhen.errors import TimetableError
from everwhen.model.fast_values import by_text
from everwhen.model.instants import rfc3339_text
from everwhen.model.job import Job, trace_id_of
from everwhen.model.outcome import NewMessage
from everwhen.model.schedule import Definition, Target
from everwhen.model.target_kinds import SPOKEN_BY

MESSAGE = "message"
SCHEMA_VERSION = "1.0"
CHANNEL = "scheduler"
_SHORT = ("text", "thread_id", "actor", "structured")
_NAMESPACE = bytes.fromhex("6f1d9a0e6f0b5c6e9d0a0c2f5f5d9e11")
_encode = json.JSONEncoder(sort_keys=True).encode
_VARIANT = {f"{digit:x}": f"{0b1000 | digit & 0b0011:x}" for digit in range(16)}


def message_target(fields: Mapping[str, Any]) -> Target:
    """Return the target for `{text, thread_id, actor, structured}`, or for a MessageEvent as a template."""
    spec = _short(fields)
    unknown = [key for key in spec if key not in _SHORT]
    if unknown:
        known = ", ".join(_SHORT)
        raise TimetableError(f'message: unknown key "{unknown[0]}", known are {known}', key=unknown[0])
    if not isinstance(spec.get("text", ""), str):
        raise TimetableError("message.text must be text", key="text", value=spec["text"])
    if not isinstance(spec.get("structured") or {}, Mapping):
        raise TimetableError("message.structured must be an object", key="structured")
    return Target(MESSAGE, json.dumps({key: value for key, value in spec.items() if value is not None}))


def _short(fields: Mapping[str, Any]) -> dict[str, Any]:
    return _from_template(fields) if "content" in fields or "source" in fields else dict(fields)


def _from_template(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a template sets; the rest of a MessageEvent is filled in when it fires."""
    content, source = template.get("content") or {}, template.get("source") or {}
    if not isinstance(content, Mapping) or not isinstance(source, Mapping):
        raise TimetableError("a MessageEvent has objects for content and source", key="content")
    return {
        "text": content.get("text", ""),
        "structured": content.get("structured"),
        "thread_id": source.get("thread_id"),
        "actor": template.get("actor"),
    }


def spoken_by(target: Target, actor: str | None) -> Target:
    """Return the message with this actor as its author, in place of any actor that its fields name."""
    fields = {key: value for key, value in json.loads(target.spec).items() if key not in ("actor", SPOKEN_BY)}
    return Target(target.kind, json.dumps(fields if actor is None else {**fields, SPOKEN_BY: actor}))


class MessageJob(NamedTuple):
    """The fields of a job that a message needs."""

    job_id: str
    number: int
    schedule_id: str
    uid: str
    payload: str | None


def message_of(
    job: Job | MessageJob, definition: Definition, now: int, actor: str | None = None
) -> NewMessage:
    """Return the message of one job, as it is written when the job is settled; `actor` is who triggered it manually."""
    event_id = _dashed(_uuid(job.job_id))
    body = event_of(job, definition, event_id, now, actor)
    return NewMessage(event_id, job.schedule_id, job.uid, definition.owner, job.job_id, body=_encode(body))


@by_text(most=4_096)
def _object_in(spec: str) -> Mapping[str, Any]:
    """Parse the message of a schedule, or its payload, once and not for every slot."""
    fields: dict[str, Any] = json.loads(spec)
    return fields


_instant_text = lru_cache(maxsize=16)(rfc3339_text)  # all messages of one evaluation have the same instant


def _uuid(name: str) -> str:
    """Return the hexadecimal digits of `uuid5` in our namespace, in a third of its time.

    >>> from uuid import UUID, uuid5
    >>> _uuid("sched-a1b2c3d4e5f6-n5-rc0") == uuid5(UUID(bytes=_NAMESPACE), "sched-a1b2c3d4e5f6-n5-rc0").hex
    True
    """
    from hashlib import sha1  # it loads OpenSSL, which commands that only read do not need

    digits = sha1(_NAMESPACE + name.encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:12]}5{digits[13:16]}{_VARIANT[digits[16]]}{digits[17:32]}"


def _dashed(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _named_actor(job: Job | MessageJob, spec: Mapping[str, Any]) -> str | None:
    """Return the actor that the message names, but None over REST (uid equals id), where a caller could name anyone."""
    named: str | None = None if job.uid == job.schedule_id else spec.get("actor")
    return named


def event_of(
    job: Job | MessageJob, definition: Definition, event_id: str, now: int, actor: str | None
) -> dict[str, Any]:
    fields = _object_in(definition.target.spec)
    spec = _short(fields)
    payload = _object_in(job.payload or definition.payload)
    return {
        "event_id": event_id,
        "schema_version": SCHEMA_VERSION,
        "occurred_at": _instant_text(now),
        "source": {
            "channel": CHANNEL,
            "connector_id": job.schedule_id,
            "thread_id": spec.get("thread_id"),
            "message_id": job.job_id,
        },
        "actor": actor or fields.get(SPOKEN_BY) or _named_actor(job, spec) or definition.owner,
        "content": {
            "text": spec.get("text", ""),
            "structured": {**(spec.get("structured") or {}), **payload},
        },
        "context": {"timezone": definition.zone.name},
        "correlation": {
            "trace_id": trace_id_of(job.job_id),
            "dedupe_key": f"{job.uid}:n{job.number}",
        },
    }


# Stored messages, the position of each subscriber in them, and what a subscriber is.
#
# Delivery is at least once: a node holds the subscription for a limited time, delivers messages in order, and
# moves the cursor. When it dies first, the next node that holds the subscription delivers them again.


class Message(NamedTuple):
    """A message as it is stored. `body` is the MessageEvent as JSON."""

    id: int
    event_id: str
    at: int
    schedule_id: str
    uid: str
    owner: str | None
    job_id: str
    body: str


class Subscription(NamedTuple):
    """The position of a subscriber. `cursor` is the id of the last message that was delivered to it."""

    subscriber: str
    cursor: int
    failures: int = 0
    next_attempt_at: int | None = None
    last_error: str | None = None
    node: str | None = None
    held_until: int | None = None

    def waits_at(self, now: int) -> bool:
        """Check whether the next message is to be delivered later, after a failure."""
        return self.next_attempt_at is not None and self.next_attempt_at > now


class Subscriber(Protocol):
    """One receiver. `subscriber_id` names its cursor: the same id continues where it was, on every node."""

    @property
    def subscriber_id(self) -> str: ...

    def deliver(self, event: dict[str, Any]) -> None:
        """Receive one MessageEvent. When this raises, the same one is delivered again, before any later one.

        It is called on a thread of its own and may block. An event may arrive twice, with the same `event_id` and
        `correlation.dedupe_key`.
        """
        ...
