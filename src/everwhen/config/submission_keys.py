"""The words of one schedule that comes by itself, over REST or from Python: those of a file, and Pipelit's and SYRIS's.

`interval_seconds` makes it Pipelit's shape, `type` with `spec` SYRIS's; each shape has defaults of its own
(SEMANTICS 10). Everything is turned into the words of a file, and what is judged are those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from everwhen.config.document import Block, Document
from everwhen.config.kinds import Either, Key, Object, Record
from everwhen.config.node import Node
from everwhen.config.scalars import Number, Text, Word
from everwhen.config.schedule_keys import POLICIES, SCHEDULE, TRIGGER
from everwhen.config.values import MOST_PAYLOAD, WORKFLOW_ID
from everwhen.errors import SchedulerError
from everwhen.model.fields import Shape
from everwhen.model.message import message_target
from everwhen.timetable.interval import LONGEST

_WHOLE = re.compile(r"\s*[-+]?[0-9]+\s*")
_TRIGGER_OF = {"interval": "every", "cron": "cron", "one_shot": "at"}
GENERAL = {name: key for name, key in SCHEDULE.keys.items() if name not in ("id", "run")}
GENERAL["run"] = Key(SCHEDULE.keys["run"].kind, "What it runs.")
_GENERAL = frozenset(GENERAL)
SUBMISSION = Record(
    {
        **GENERAL,
        "interval_seconds": Key(Number(1, LONGEST), "every, in seconds."),
        "type": Key(Word(tuple(_TRIGGER_OF)), "What spec is."),
        "spec": Key(Either(((int, Number(1, LONGEST)),), Text("300 or 0 9 * * *")), "The trigger."),
        "workflow_id": Key(WORKFLOW_ID, "The workflow that it starts."),
        "trigger_node_id": Key(Text(), "The trigger of the workflow that is meant."),
        "timeout_seconds": Key(Number(0, LONGEST), "timeout, in seconds; 0 means for ever."),
        "trigger_payload": Key(Object(MOST_PAYLOAD), "payload."),
        "catch_up_policy": POLICIES["catch_up"],
        "quiet_hours_policy_id": POLICIES["quiet_hours"],
        "user_profile_id": Key(WORKFLOW_ID, "owner."),
    }
)


class _Alias(NamedTuple):
    """Another word for a key, and how its value is said there."""

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


class Translated(NamedTuple):
    """The words of a file, under which of the submitter's a word of them stood, and the shape of those."""

    node: Node
    spelled: dict[str, str]
    shape: Shape


def translate(submitted: Node, *, beside: Mapping[str, Any] | None = None) -> Translated:
    """The words of a submission as those of a file, null where one is cleared.

    A new one has the defaults of its shape; one that changes a schedule is read `beside` the words that it has.
    """
    if beside is None and _GENERAL.issuperset(submitted.value):  # those of a file already
        return Translated(submitted, {}, "general")
    given = submitted.fields()
    block = Block()
    block.update({key: value for key, value in submitted.value.items() if key in GENERAL})
    shape = _shape_of(given) if beside is None else "general"
    node = Node(Document("", block, is_file=False), (), block, submitted.report)
    translated = Translated(node, {}, shape)
    for name, alias in _ALIASES.items():
        if name in given:
            _say(translated, name, alias.key, alias.said(given[name]))
        elif name in submitted.value:
            block.setdefault(alias.key, None)
    _take_workflow(submitted, given, translated)
    _take_spec(submitted, given, translated, beside or {})
    _take_template(submitted, translated, beside)
    return translated


def _say(translated: Translated, name: str, key: str, value: Any) -> None:
    block = translated.node.value
    if block.get(key) is not None:
        translated.node.complain(f"is another word for {key}; keep one", name)
        return
    block[key] = value
    translated.spelled[key] = name


def _take_workflow(submitted: Node, given: dict[str, Any], translated: Translated) -> None:
    trigger = given.get("trigger_node_id")
    if "workflow_id" in given:
        workflow = {"id": given["workflow_id"], "trigger_node_id": trigger}
        run = Block()
        run["workflow"] = Block()
        run["workflow"].update({key: value for key, value in workflow.items() if value is not None})
        _say(translated, "workflow_id", "run", run)
        translated.spelled["run.workflow.id"] = "workflow_id"
        translated.spelled["run.workflow.trigger_node_id"] = "trigger_node_id"
    elif trigger is not None and submitted.value.get("workflow_id") is None:
        submitted.complain("goes with workflow_id only", "trigger_node_id")


def _take_spec(
    submitted: Node, given: dict[str, Any], translated: Translated, beside: Mapping[str, Any]
) -> None:
    kind, spec = submitted.value.get("type"), submitted.value.get("spec")
    if kind is None and spec is None:
        return
    if kind is None:  # the type of a schedule that is there is known
        kind = next((name for name, key in _TRIGGER_OF.items() if key in beside), None)
    for name, other, value in (("type", "spec", spec), ("spec", "type", kind)):
        if value is None:
            submitted.complain(f"needs {other} beside it", name)
    if not isinstance(kind, str) or kind not in _TRIGGER_OF or "spec" not in given:
        return
    key = _TRIGGER_OF[kind]
    is_number = key == "every" and _WHOLE.fullmatch(str(spec))
    _say(translated, "spec", key, f"{str(spec).strip()}s" if is_number else spec)
    if translated.spelled.get(key) == "spec":
        TRIGGER[key].kind.check(translated.node[key])


def _take_template(submitted: Node, translated: Translated, beside: Mapping[str, Any] | None) -> None:
    """In SYRIS's shape the payload is the MessageEvent that is said, unless another target is named."""
    block, fields = translated.node.value, submitted.value
    if fields.get("run") is not None or fields.get("workflow_id") is not None:
        return
    is_template = "type" in fields or "spec" in fields
    if beside is not None:
        is_template = _says_template(beside) and "payload" in block
    if not is_template:
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


def _says_template(fields: Mapping[str, Any]) -> bool:
    """Whether a schedule says a MessageEvent as SYRIS gives it."""
    message = (fields.get("run") or {}).get("message")
    return message is not None and (not message or "content" in message or "source" in message)


def _shape_of(given: Mapping[str, Any]) -> Shape:
    if "interval_seconds" in given:
        return "pipelit"
    return "syris" if "spec" in given else "general"
