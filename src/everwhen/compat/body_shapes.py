"""The shapes of bodies that Pipelit and SYRIS send: `interval_seconds`, and `type` with `spec`.

Each shape has defaults of its own, as the columns `seconds` and `spec` of `model.fields`. Everything is
translated to the keys of a file, and those are checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from everwhen.config.document import Block, Document, DocumentNode
from everwhen.config.submission import GENERAL, Translated
from everwhen.errors import SchedulerError
from everwhen.model.defaults import Shape
from everwhen.model.fields import FIELDS, TRIGGER_KEYS
from everwhen.model.instants import SECOND
from everwhen.model.kinds import Either, Key, Object, Record
from everwhen.model.message import message_target
from everwhen.model.scalars import CheckedValue, Number, Schema, Text, Word, spelled
from everwhen.model.values import MOST_PAYLOAD, WORKFLOW_ID, parse_duration
from everwhen.timetable.interval import LONGEST
from everwhen.timetable.trigger import Every, parse_every

_WHOLE = re.compile(r"\s*[-+]?[0-9]+\s*")
_TRIGGER_OF = {"interval": "every", "cron": "cron", "one_shot": "at"}
_ON_REQUEST = ("webhook", "chat")
_GENERAL = frozenset(GENERAL)


class _JsonText:
    """A text where an object is expected: what is the JSON of a message template has been parsed before."""

    def check(self, node: CheckedValue) -> None:
        node.complain(
            f"must be an object, not {spelled(node.value)}; beside type and spec also its JSON as text"
        )

    def schema(self) -> Schema:
        return {"type": "string", "contentMediaType": "application/json"}


SUBMISSION = Record(
    {
        **GENERAL,
        "interval_seconds": Key(Number(1, LONGEST), "The same as every, in seconds."),
        "type": Key(
            Word((*_TRIGGER_OF, *_ON_REQUEST)),
            "The kind of trigger in spec. Requests fire webhook and chat schedules, which have no spec.",
        ),
        "spec": Key(Either(((int, Number(1, LONGEST)),), Text("300 or 0 9 * * *")), "The trigger."),
        "workflow_id": Key(WORKFLOW_ID, "The workflow to start."),
        "trigger_node_id": Key(Text(), "The trigger node of the workflow."),
        "timeout_seconds": Key(Number(0, LONGEST), "The same as timeout, in seconds; 0 means no limit."),
        "payload": Key(
            Either(((str, _JsonText()),), FIELDS["payload"].kind),
            f"{FIELDS['payload'].about} Beside type and spec its JSON as text, too.",
        ),
        "trigger_payload": Key(Object(MOST_PAYLOAD), "The same as payload."),
        "catch_up_policy": FIELDS["catch_up"],
        "quiet_hours_policy_id": FIELDS["quiet_hours"],
        "user_profile_id": Key(WORKFLOW_ID, "The same as owner."),
        "secret": Key(FIELDS["secret"].kind, "The secret that signs the requests of a webhook."),
        "signature": FIELDS["signature"],
    }
)


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the object that a text is as JSON; None where it is none."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


class _Alias(NamedTuple):
    """Another name for a key, and how its value is written there."""

    key: str
    said: Callable[[Any], Any] = lambda value: value


_ALIASES = {
    "interval_seconds": _Alias("every", lambda seconds: f"{seconds}s"),
    "timeout_seconds": _Alias("timeout", lambda seconds: f"{seconds}s"),
    "trigger_payload": _Alias("payload"),
    "catch_up_policy": _Alias("catch_up"),
    "quiet_hours_policy_id": _Alias("quiet_hours"),
    "user_profile_id": _Alias("owner", str),
}


class ForeignBodies:
    """The keys of a file, and the two other shapes."""

    keys = SUBMISSION

    def parse_texts(
        self, fields: Mapping[str, Any], existing: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Parse the payload of SYRIS's shape, whose database has it as JSON text."""
        text = fields.get("payload")
        if not isinstance(text, str) or not _is_template(fields, existing):
            return fields
        template = parse_object(text)
        return fields if template is None else {**fields, "payload": template}

    def translate(self, submitted: DocumentNode, existing: Mapping[str, Any] | None = None) -> Translated:
        if existing is None and _GENERAL.issuperset(submitted.value):  # the keys of a file already
            return Translated(submitted, {}, "general")
        given = submitted.fields()
        block = Block()
        block.update({key: value for key, value in submitted.value.items() if key in GENERAL})
        shape = _shape_of(given) if existing is None else "general"
        node = DocumentNode(Document("", block, is_file=False), (), block, submitted.report)
        translated = Translated(node, {}, shape)
        for name, alias in _ALIASES.items():
            if name in given:
                _say(translated, name, alias.key, alias.said(given[name]))
            elif name in submitted.value:
                block.setdefault(alias.key, None)
        _take_workflow(submitted, given, translated, existing or {})
        _take_requests(submitted, given, translated, existing)
        _take_spec(submitted, given, translated, existing or {})
        _take_template(submitted, translated, existing)
        if existing is not None and "interval_seconds" in submitted.value and "every" in block:
            _move_retries(block, existing)
        return translated


BODY_SHAPES = ForeignBodies()


def _say(translated: Translated, name: str, key: str, value: Any) -> None:
    block = translated.node.value
    if block.get(key) is not None:
        translated.node.complain(f"means the same as {key}; keep only one of them", name)
        return
    block[key] = value
    translated.spelled[key] = name


_WORKFLOW_KEYS = {"workflow_id": "id", "trigger_node_id": "trigger_node_id"}


def _take_workflow(
    submitted: DocumentNode, given: Mapping[str, Any], translated: Translated, existing: Mapping[str, Any]
) -> None:
    """Read the workflow to start and its trigger node; an edit of one of them leaves the other as it is."""
    names = [name for name in _WORKFLOW_KEYS if name in submitted.value]
    if not names or any(name not in given and submitted.value[name] is not None for name in names):
        return  # none of them, or one that is refused already
    named = {_WORKFLOW_KEYS[name]: given.get(name) for name in names}
    workflow = {**((existing.get("run") or {}).get("workflow") or {}), **named}
    if workflow.get("id") is None:
        if named.get("trigger_node_id") is not None:
            submitted.complain("is allowed only with workflow_id", "trigger_node_id")
        return
    run = Block()
    run["workflow"] = Block()
    run["workflow"].update({key: value for key, value in workflow.items() if value is not None})
    _say(translated, "workflow_id" if "id" in named else "trigger_node_id", "run", run)
    translated.spelled.update({f"run.workflow.{key}": name for name, key in _WORKFLOW_KEYS.items()})


def _take_requests(
    submitted: DocumentNode, given: dict[str, Any], translated: Translated, existing: Mapping[str, Any] | None
) -> None:
    """Take the keys of a schedule that requests fire; refuse them where the clock does."""
    block, kind = translated.node.value, given.get("type")
    if kind in _ON_REQUEST:
        block["type"] = kind
        for key in (*TRIGGER_KEYS, "spec"):
            if given.get(key) is not None or block.get(key) is not None:
                submitted.complain(f"is not allowed with type {kind}", translated.spelled.get(key, key))
    elif existing is not None and "type" not in given and not any(key in block for key in TRIGGER_KEYS):
        kind = existing.get("type")
    for key in ("secret", "signature"):
        if key in given and kind != "webhook":
            submitted.complain("is only for a webhook", key)
        elif key in submitted.value:
            block[key] = submitted.value[key]
    if "signature" in given and (given.get("secret") or (existing or {}).get("secret")) is None:
        submitted.complain("requires secret", "signature")


def _take_spec(
    submitted: DocumentNode, given: dict[str, Any], translated: Translated, existing: Mapping[str, Any]
) -> None:
    kind, spec = submitted.value.get("type"), submitted.value.get("spec")
    if (kind is None and spec is None) or kind in _ON_REQUEST:
        return
    if kind is None:  # the type of a schedule that is there is known
        kind = next((name for name, key in _TRIGGER_OF.items() if key in existing), None)
    for name, other, value in (("type", "spec", spec), ("spec", "type", kind)):
        if value is None:
            submitted.complain(f"requires {other}", name)
    if not isinstance(kind, str) or kind not in _TRIGGER_OF or "spec" not in given:
        return
    key = _TRIGGER_OF[kind]
    is_number = key == "every" and _WHOLE.fullmatch(str(spec))
    _say(translated, "spec", key, f"{str(spec).strip()}s" if is_number else spec)
    if translated.spelled.get(key) == "spec":
        FIELDS[key].kind.check(translated.node[key])


def _take_template(
    submitted: DocumentNode, translated: Translated, existing: Mapping[str, Any] | None
) -> None:
    """Read SYRIS's shape: its payload is the MessageEvent to publish, unless another target is named."""
    block = translated.node.value
    if not _is_template(submitted.value, existing) or (existing is not None and "payload" not in block):
        return
    template = block.pop("payload", None)
    name = translated.spelled.pop("payload", "payload")
    block["run"] = Block()
    block["run"]["message"] = template if isinstance(template, Block) else Block()
    translated.spelled["run.message"] = name
    try:
        message_target(block["run"]["message"])
    except SchedulerError as error:
        submitted.complain(str(error).removeprefix("message: "), name)


def _is_template(fields: Mapping[str, Any], existing: Mapping[str, Any] | None) -> bool:
    """Return whether the payload of a submission is a MessageEvent as SYRIS gives it."""
    if fields.get("run") is not None or fields.get("workflow_id") is not None:
        return False
    if existing is not None:
        return _has_template(existing)
    return "spec" in fields or ("type" in fields and fields["type"] not in _ON_REQUEST)


def _has_template(fields: Mapping[str, Any]) -> bool:
    """Return whether a schedule publishes a MessageEvent as SYRIS gives it."""
    message = (fields.get("run") or {}).get("message")
    return message is not None and (not message or "content" in message or "source" in message)


def _shape_of(given: Mapping[str, Any]) -> Shape:
    if "interval_seconds" in given:
        return "seconds"
    return "spec" if "spec" in given else "general"


def _move_retries(block: Block, existing: Mapping[str, Any]) -> None:
    """Retries of Pipelit's shape wait for one interval: they follow a new one."""
    if "every" not in existing or "retry_delay" not in existing:
        return
    trigger = parse_every(existing["every"])
    if isinstance(trigger, Every) and trigger.seconds * SECOND == parse_duration(existing["retry_delay"]):
        block.setdefault("retry_delay", block["every"])


GENERAL_EXAMPLE = {
    "name": "Nightly backup",
    "cron": "0 2 * * *",
    "timezone": "Europe/Berlin",
    "max_retries": 3,
    "run": {"http": {"url": "https://example.com/backup"}},
}
WORKFLOW_EXAMPLE = {
    "name": "Daily report",
    "workflow_id": 1,
    "trigger_node_id": "trigger_schedule_abc123",
    "interval_seconds": 86400,
    "total_repeats": 0,
    "max_retries": 3,
    "timeout_seconds": 600,
    "trigger_payload": {"report_type": "daily"},
}
MESSAGE_EXAMPLE = {
    "name": "Good morning",
    "type": "cron",
    "spec": "0 8 * * *",
    "timezone": "Europe/Paris",
    "catch_up_policy": "run_once",
    "payload": {"content": {"text": "Good morning!"}, "source": {"thread_id": "family"}},
}
WEBHOOK_EXAMPLE = {
    "name": "On push",
    "type": "webhook",
    "secret": "a long random text",
    "signature": "github",
    "run": {"http": {"url": "https://example.com/build"}},
}
SCHEDULE_EXAMPLES = {
    "general": GENERAL_EXAMPLE,
    "Pipelit": WORKFLOW_EXAMPLE,
    "SYRIS": MESSAGE_EXAMPLE,
    "webhook": WEBHOOK_EXAMPLE,
}
SHAPES = (
    "The general shape (every, cron, at or after, and run), Pipelit's or SYRIS's; each has its own defaults."
)
