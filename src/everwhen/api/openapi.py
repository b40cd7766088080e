"""The OpenAPI document: that of the framework, in a form from which generated clients can make every call.

Generators give anonymous enumerations, unions and objects names of their own, which change when something else changes,
or they leave the call out. So each of them has a name here and is a component, once; `tests/api/test_openapi.py` finds
those that have none. Schedules in bodies have no `default`: generated clients send it with every request, and a PATCH
would then set every key that it does not name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, get_args

from fastapi import FastAPI

from everwhen.api.payloads import MOST_AT_ONCE, Problem, Schema, or_null
from everwhen.compat.body_shapes import SUBMISSION
from everwhen.config.schema import QUIET_HOURS
from everwhen.config.target_fields import RUN, TARGET_KEYS
from everwhen.model.alerts import (
    AlertState,
    ChannelKind,
    DeliveryKind,
    DeliveryState,
    Severity,
    SilenceKind,
)
from everwhen.model.fields import (
    EXPECT,
    EXPECT_RULE,
    FIELDS,
    PING,
    PingFormat,
    ScheduleType,
    SignatureScheme,
)
from everwhen.model.history import Cause
from everwhen.model.host_fault import HostFault
from everwhen.model.job import CostSource, JobStatus, Origin
from everwhen.model.kinds import Key, Record
from everwhen.model.limits import BreakerState, TransitionReason
from everwhen.model.node import Role
from everwhen.model.policy import CatchUp, IfRunning, IntervalFrom, OnExhausted, OnLost, OnReached, WhenClosed
from everwhen.model.queries import SORTS, STATUS_ALIASES, Facet
from everwhen.model.schedule import Status
from everwhen.model.spending import BudgetKind, BudgetLevel, LimitName
from everwhen.model.token import AccessRole, ApprovalMode
from everwhen.model.values import (
    BREAKER,
    BREAKER_RULE,
    DST,
    DURATION,
    DURATION_OR_NONE,
    ENVIRONMENT,
    GRACE,
    SCALAR,
    WEEKDAYS,
    WORKFLOW_ID,
)
from everwhen.model.webhooks import OffReason, WebhookState
from everwhen.operations.diff import What
from everwhen.operations.event_feed import TYPES
from everwhen.operations.recent import SlotOutcome
from everwhen.operations.record import Fate
from everwhen.operations.timeline_bars import Kind
from everwhen.operations.timeline_spans import SpanKind
from everwhen.runtime import DatabaseKind
from everwhen.timetable.civil_time import Fold, Gap
from everwhen.timetable.occurrences import FirstRun
from everwhen.views.schedules import FIELD_GROUPS, FIELD_NAMES

PREFIX = "#/components/schemas/"
_NOTES = ("title", "description", "default", "examples")  # beside a reference; no part of what a schema means


def document_of(app: FastAPI) -> dict[str, Any]:
    """Return the document, with every body, answer, enumeration and union as a named component."""
    document = FastAPI.openapi(app)
    models = document.setdefault("components", {}).setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template=PREFIX + "{model}")
    models.update(problem.pop("$defs", {}))
    naming = _Naming()
    for name, schema in _parts().items():
        naming.add(name, schema)
    components = {name: naming.inside(schema) for name, schema in {**models, "Problem": problem}.items()}
    components |= {name: naming.inside(schema) for name, schema in body_schemas().items()}
    document["paths"] = naming.everywhere(document["paths"])
    for call in (call for methods in document["paths"].values() for call in methods.values()):
        _tidy(call)
    document["components"]["schemas"] = {**components, **naming.components}
    return document


def _tidy(call: dict[str, Any]) -> None:
    """Leave out what generated clients stumble over."""
    if not call.get("requestBody", {"required": True}).get("required"):
        # A body that may be left out: with null as well, some send neither, but a value that is not JSON.
        for media in call["requestBody"]["content"].values():
            media["schema"] = next(iter(media["schema"].get("anyOf", ())), media["schema"])
    for response in call["responses"].values():
        if response.get("content", {}).get("application/json") == {"schema": {}}:  # which the framework adds
            del response["content"]["application/json"]


def reference(name: str) -> Schema:
    return {"$ref": PREFIX + name}


# -- what has a name --


def _choice(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


_ENUMERATIONS = {
    "AccessRole": AccessRole,
    "AlertChannel": ChannelKind,
    "AlertDeliveryKind": DeliveryKind,
    "AlertDeliveryState": DeliveryState,
    "AlertSeverity": Severity,
    "AlertState": AlertState,
    "ApprovalMode": ApprovalMode,
    "BarKind": Kind,
    "BreakerState": BreakerState,
    "BudgetKind": BudgetKind,
    "BudgetLevel": BudgetLevel,
    "BudgetLimitName": LimitName,
    "CatchUp": CatchUp,
    "CostSource": CostSource,
    "DatabaseKind": DatabaseKind,
    "Difference": What,
    "FirstRun": FirstRun,
    "Fold": Fold,
    "Gap": Gap,
    "HostFault": HostFault,
    "IfRunning": IfRunning,
    "IntervalFrom": IntervalFrom,
    "JobStatus": JobStatus,
    "NodeRole": Role,
    "OnExhausted": OnExhausted,
    "OnLost": OnLost,
    "OnReached": OnReached,
    "Origin": Origin,
    "PingFormat": PingFormat,
    "RevisionCause": Cause,
    "ScheduleFacet": Facet,
    "ScheduleStatus": Status,
    "ScheduleType": ScheduleType,
    "SignatureScheme": SignatureScheme,
    "SilenceKind": SilenceKind,
    "SlotFate": Fate,
    "SlotOutcome": SlotOutcome,
    "SpanKind": SpanKind,
    "TransitionReason": TransitionReason,
    "WebhookOffReason": OffReason,
    "WebhookState": WebhookState,
    "WhenClosed": WhenClosed,
}


def _parts() -> dict[str, Schema]:
    """Return what bodies and answers consist of; one that contains another comes after it."""
    found = {name: _choice(*get_args(words)) for name, words in _ENUMERATIONS.items()}
    found |= {
        "CatchUpChoice": FIELDS["catch_up"].kind.schema(),
        "EventType": _choice(*TYPES),
        "ExpectEach": _choice("slot"),
        "HealthStatus": _choice("ok", "ready", "unready"),
        "HttpMethod": TARGET_KEYS["http"].keys["method"].kind.schema(),
        "LoopStatus": _choice("running", "stopping", "stopped"),
        "MeVia": _choice("token", "session"),
        "ReportedStatus": _choice("succeeded", "failed"),
        "ScheduleField": _choice(*FIELD_NAMES),
        "ScheduleFieldGroup": _choice(*FIELD_GROUPS),
        "ScheduleSort": _choice(*SORTS),
        "ScheduleStatusFilter": _choice(*STATUS_ALIASES),
        "Duration": DURATION.schema(),
        "DurationOrNone": DURATION_OR_NONE.schema(),
        "MisfireGrace": GRACE.schema(),
        "Scalar": SCALAR.schema(),
        "ScalarMap": ENVIRONMENT.schema(),
        "JsonObject": {"type": "object"},
        "WorkflowId": WORKFLOW_ID.schema(),
        "Weekday": WEEKDAYS.shape["anyOf"][1],
        "Weekdays": WEEKDAYS.schema(),
        "Payload": SUBMISSION.keys["payload"].kind.schema(),
        "Spec": SUBMISSION.keys["spec"].kind.schema(),
        "Dst": DST.schema(),
        "BreakerRule": BREAKER_RULE.schema(),
        "CircuitBreaker": BREAKER.schema(),
        "ExpectRule": EXPECT_RULE.schema(),
        "Expect": EXPECT.schema(),
        "Ping": PING.schema(),
    }
    policy = QUIET_HOURS.schema()["properties"]
    found |= {"QuietWindowBody": policy["windows"]["items"]}
    found |= {
        "DateRangeBody": policy["dates"]["items"]["anyOf"][0],
        "QuietDateBody": policy["dates"]["items"],
    }
    found["QuietDate"] = {"anyOf": [{"type": "string"}, reference("DateRange")]}
    for name, schema in RUN.schema()["properties"].items():  # also of kinds that are installed
        if schema.get("properties"):
            found[f"{_camel_case(name)}Target"] = schema
    return found


def _camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", name))


# What generators can take instead: an enumeration of a number and texts has no type in most languages, and a union with
# anything at all is anything at all.
_PLAINER: dict[str, Schema] = {
    "JsonObject": {"type": "object", "additionalProperties": True},
    "DurationOrNone": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]},
    "MisfireGrace": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]},
    "Scalar": {"anyOf": [{"type": "string"}, {"type": "boolean"}, {"type": "number"}]},
    "CircuitBreaker": {"anyOf": [{"type": "boolean", "const": False}, reference("BreakerRule")]},
    "Expect": {"anyOf": [{"type": "boolean", "const": True}, reference("ExpectRule")]},
}
_ABOUT = {
    "BreakerRule": "When a circuit breaker opens, and for how long.",
    "CircuitBreaker": "A rule, or false: no circuit breaker.",
    "Expect": "A rule, or true: a success after each slot, within an hour.",
    "ExpectRule": "When a success is expected.",
    "Duration": "A text such as 5m or 1h30m, or a whole number of seconds.",
    "DurationOrNone": "A text such as 5m or 1h30m, or a whole number of seconds; 0 means no limit.",
    "JsonObject": "Any object.",
    "MisfireGrace": "A duration, or auto.",
    "Payload": "An object; of a message template, beside type and spec, also its JSON as text.",
    "Scalar": "A text, a number, or true or false.",
    "ScalarMap": "Values by name.",
    "ScheduleField": "The name of a field of a schedule.",
    "ScheduleFieldGroup": "Some fields of a schedule.",
    "ScheduleFacet": "A column by which schedules are counted.",
    "ScheduleSort": "The order of a list of schedules; a - in front descends.",
    "ScheduleStatusFilter": "A status of a schedule, also by the names that other schedulers have for it.",
    "Spec": "A trigger: a number of seconds, a cron expression, or an instant.",
    "Weekday": "A name such as saturday or sat, or a number from 0 (Sunday) to 7.",
    "WorkflowId": "A number or a text; it is answered as it was given.",
}


def body_schemas() -> dict[str, Schema]:
    """Return the bodies that are checked as a file is, from the tables of that check."""
    run = _with_described_defaults(or_null(RUN.schema()))
    text, anything = {"type": "string"}, reference("JsonObject")
    # Functions of a program have names that no body can give, and a message may be a template of another scheduler.
    others = {
        name: {**run["properties"][name], "anyOf": [schema, {"type": "null"}]}
        for name, schema in (("python", text), ("message", anything))
    }
    stored = {**run, "properties": {**run["properties"], **others}}
    keys = {name: _of_all_shapes(key) for name, key in SUBMISSION.keys.items() if name != "run"}
    schedule = _with_described_defaults(or_null(Record(keys).schema()))
    schedule["properties"]["run"] = {
        "anyOf": [reference("Target"), {"type": "null"}],
        "description": SUBMISSION.keys["run"].about,
    }
    change = _with_described_defaults(or_null(QUIET_HOURS.schema()))
    named = {
        "type": ["string", "null"],
        "description": "A name; a UUID when none is given.",
        "examples": ["nights"],
    }
    # Each schedule of a batch is judged by itself, so that one with a mistake is no mistake of the others.
    many: Schema = {
        "type": "array",
        "maxItems": MOST_AT_ONCE,
        "items": {"description": "A ScheduleBody; the result of each says what is wrong with it."},
    }
    return {
        "Target": {"description": "What is run: exactly one of these.", **run},
        "StoredTarget": {"description": "What a schedule runs: exactly one of these.", **stored},
        "ScheduleBody": {"description": "A schedule in any of the accepted shapes.", **schedule},
        "ScheduleBodies": {"description": "Many schedules.", **many},
        "ScheduleBatch": {
            "description": "Many schedules in an object.",
            "type": "object",
            "additionalProperties": False,
            "required": ["schedules"],
            "properties": {"schedules": reference("ScheduleBodies")},
        },
        "NewSchedules": {
            "description": "Many schedules, or an object that has them.",
            "anyOf": [reference("ScheduleBatch"), reference("ScheduleBodies")],
        },
        "QuietHoursBody": {
            "description": "New quiet hours.",
            **change,
            "properties": {"id": named, **change["properties"]},
        },
        "QuietHoursChange": {"description": "The keys of quiet hours that change.", **change},
        "HookBody": {"description": "Anything; it becomes `payload.body` of the job."},
    }


def _of_all_shapes(key: Key) -> Key:
    """Return the key without its default, where not every shape has the same."""
    return Key(key.kind, key.about, None if getattr(key, "defaults", {}) else key.default)


def _with_described_defaults(schema: Schema) -> Schema:
    """Return an object with the defaults of its properties in their descriptions only."""
    properties = dict(schema.get("properties", {}))
    for name, one in properties.items():
        if "default" in one:
            default = one["default"] if isinstance(one["default"], str) else json.dumps(one["default"])
            rest = {key: value for key, value in one.items() if key != "default"}
            properties[name] = {**rest, "description": f"{one['description']} Default: {default}."}
    return {**schema, "properties": properties} if properties else schema


# -- how names take the place of schemas --


class _Naming:
    """Replaces each schema that has a name by a reference to its component."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._names: dict[str, str] = {}  # by what the schema means

    def add(self, name: str, schema: Schema) -> None:
        """Name a schema, and the same with nulls in the place of keys that are not given."""
        bare = self.inside(schema)
        given = self.inside(or_null(schema))
        for form in (bare, given):
            self._names[_meaning(form, _NOTES[:-1])] = name
            self._names.setdefault(_meaning(form), name)  # of those that differ in examples alone, the first
        found = _with_described_defaults(_PLAINER.get(name, given))
        about = {"description": _ABOUT[name]} if name in _ABOUT else {}
        self.components[name] = {**about, **found}

    def everywhere(self, value: Any) -> Any:
        """Return a part of the document with a reference in the place of each schema that has a name."""
        if isinstance(value, list):
            return [self.everywhere(item) for item in value]
        if not isinstance(value, dict):
            return value
        found = self.inside(value)
        if (marked := found.get("x-schema")) is not None:
            return {**_notes_of(found), **reference(marked)}
        name = self._name_of(found)
        return self._nullable(found) if name is None else {**_notes_of(found), **reference(name)}

    def inside(self, schema: Mapping[str, Any]) -> Schema:
        """Return a schema with references in it, itself as it is; texts for people and examples are left alone."""
        found = {
            key: value
            if key in ("examples", "example", "default", "enum", "const")
            else self._part(key, value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str) and "properties" not in schema)
        }
        if isinstance(types := found.get("type"), list):
            rest = {key: value for key, value in found.items() if key not in ("type", *_NOTES)}
            found = {**_notes_of(found), "anyOf": [{"type": one, **rest} for one in types]}
        if "enum" in found and all(isinstance(word, str) for word in found["enum"]):
            found["type"] = "string"
        return found

    def _part(self, key: str, value: Any) -> Any:
        if key == "properties" and isinstance(value, dict):  # whose keys are no keywords
            return {name: self.everywhere(schema) for name, schema in value.items()}
        return self.everywhere(value)

    def _name_of(self, schema: Schema) -> str | None:
        return self._names.get(_meaning(schema, _NOTES[:-1])) or self._names.get(_meaning(schema))

    def _nullable(self, found: Schema) -> Schema:
        """Name the others of a union with null: the union itself is one of a named schema and null."""
        others = [one for one in found.get("anyOf", ()) if one != {"type": "null"}]
        if len(others) < 2 or len(others) == len(found["anyOf"]):
            return found
        name = self._name_of({"anyOf": others})
        return found if name is None else {**found, "anyOf": [reference(name), {"type": "null"}]}


def _meaning(schema: Mapping[str, Any], notes: Collection[str] = _NOTES) -> str:
    """Return the text by which equal schemas are recognised; descriptions of one do not belong to it."""
    said = {key: value for key, value in schema.items() if key not in notes}
    if said.get("additionalProperties") is True:  # as when nothing is said
        del said["additionalProperties"]
    return json.dumps(said, sort_keys=True)


def _notes_of(schema: Mapping[str, Any]) -> Schema:
    return {key: schema[key] for key in _NOTES if key in schema}
