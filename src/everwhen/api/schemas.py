"""JSON Schemas of bodies that are judged as a file is: made from the same tables as the check, so they say the same."""

from __future__ import annotations

from typing import Any

from everwhen.compat.body_shapes import SUBMISSION
from everwhen.config.target_fields import RUN
from everwhen.model.kinds import Record

Schema = dict[str, Any]


def or_null(schema: Schema) -> Schema:
    """The same, where null means that a word is not given."""
    if schema.get("type") == "object" and "properties" in schema:
        required = schema.get("required", ())
        properties = {
            name: or_null(inner) if name in required else _nullable(or_null(inner))
            for name, inner in schema["properties"].items()
        }
        return {**schema, "properties": properties}
    if "items" in schema:
        return {**schema, "items": or_null(schema["items"])}
    if "anyOf" in schema:
        return {**schema, "anyOf": [or_null(inner) for inner in schema["anyOf"]]}
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return {**schema, "additionalProperties": _nullable(or_null(schema["additionalProperties"]))}
    return schema


def _nullable(schema: Schema) -> Schema:
    if not {"type", "anyOf", "enum", "const", "not", "$ref"} & set(schema):
        return schema  # anything at all
    about: Schema = {key: schema[key] for key in ("description", "default") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in about}
    return {"anyOf": [inner, {"type": "null"}], **about}


_TARGET = {"$ref": "#/components/schemas/Target", "description": SUBMISSION.keys["run"].about}
_OTHERS = or_null(Record({name: key for name, key in SUBMISSION.keys.items() if name != "run"}).schema())
SCHEDULE_BODY: Schema = {**_OTHERS, "properties": {**_OTHERS["properties"], "run": _nullable(_TARGET)}}

MOST_AT_ONCE = 10_000
# Each is judged by itself, so that one with a mistake is no mistake of the others.
_SCHEDULES: Schema = {"type": "array", "maxItems": MOST_AT_ONCE, "items": {}, "description": "Schedules."}
NEW_SCHEDULES: Schema = {
    "title": "NewSchedules",
    "description": "Many schedules, or an object that has them.",
    "anyOf": [
        _SCHEDULES,
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["schedules"],
            "properties": {"schedules": _SCHEDULES},
        },
    ],
}


def named_schemas() -> dict[str, Schema]:
    """What OpenAPI has among its components, beside the models; installed kinds of targets are imported for it."""
    target = {"title": "Target", "description": "What is run: one of these.", **or_null(RUN.schema())}
    return {"NewSchedules": NEW_SCHEDULES, "Target": target}
