"""What the schemas of bodies and answers have in common, as OpenAPI shows them.

An answer is described by a class of `views`, which also makes it; `model_of` derives the model that documents it.
Bodies of schedules are checked by `config.submission`, as a file is; the others by models of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    WithJsonSchema,
    create_model,
    model_validator,
)

from everwhen.model.fields import GENERAL
from everwhen.model.fields import Field as FieldOfSchedule
from everwhen.model.kinds import MOST_UNKNOWN, Kind, Record
from everwhen.model.kinds import Object as ObjectKind
from everwhen.model.scalars import Flag, Number, Word
from everwhen.timetable.instant_text import as_rfc3339
from everwhen.views.schedules import ListedSchedule, Schedule
from everwhen.views.shape import Object, View, key_of

# Text that every database can hold.
Line = Annotated[str, StringConstraints(max_length=10_000, pattern=r"^[^\x00]*$")]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=201, pattern=r"^[^\x00]*$")]
When = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


def documented_as(name: str) -> WithJsonSchema:
    """Document a value by a schema that `openapi` has under this name."""
    return WithJsonSchema({"type": "object", "x-schema": name})


Duration = Annotated[str | int, documented_as("Duration")]


def _written(value: object) -> object:
    """Return an instant as RFC 3339, also from the form in which sentences show it; a bare number could be anything."""
    written = as_rfc3339(value) if isinstance(value, str) else ""
    if "t" not in written.lower():
        raise ValueError("must be an instant with its zone, such as 2026-01-05T09:00:00Z")
    return written


def _tellable(moment: datetime) -> datetime:
    """Return the instant in UTC; refuse one beyond the year 9999 there, which could be stored but never shown."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be within the years 1 to 9999 in UTC") from None


AwareInstant = Annotated[AwareDatetime, Strict(False), BeforeValidator(_written), AfterValidator(_tellable)]


class Shape(BaseModel):
    """A model that refuses unknown keys and converts nothing: true is not a number, and neither is "1"."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, fields: Any) -> Any:
        """Refuse very many keys at once: each unknown one is a problem, made on the thread of the event loop."""
        if isinstance(fields, dict) and len(fields) > len(cls.model_fields) + MOST_UNKNOWN:
            raise ValueError(f"has {len(fields):,} keys; known keys: {', '.join(cls.model_fields)}")
        return fields


class Fault(Shape):
    """One part of a request that cannot be taken."""

    path: str = Field(description="Its place in the body or among the parameters.")
    message: str


class Problem(BaseModel):
    """RFC 9457. `type` is stable; `detail` is a sentence for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:everwhen:problem:not-found"])
    title: str
    status: int
    detail: str
    errors: list[Fault] | None = None


# -- the documentation of answers --


def _type_of(name: str, row: FieldOfSchedule) -> Any:
    """Return the type of a key of a schedule in answers."""
    found = row.answer_type or _TYPES.get(type(row.kind), str)
    if isinstance(row.kind, Word) and row.answer_type is None:
        found = Literal[row.kind.fields]
    if name.endswith("_at"):
        found = When
    if name in _ANSWERED:
        found = Annotated[Object, documented_as(_ANSWERED[name])]
    return found if row.is_answered else found | None


_TYPES: dict[type[Kind], Any] = {Number: int, Flag: bool, Record: Object, ObjectKind: Object}
# Objects in answers whose schemas bodies have, too.
_ANSWERED = {
    "dst": "Dst",
    "expect": "ExpectRule",
    "ping": "Ping",
    "circuit_breaker": "BreakerRule",
    "run": "StoredTarget",
}
_KEYS: dict[str, Any] = {
    name: (_type_of(name, row), Field(description=row.about)) for name, row in GENERAL.items()
}
_KeyedShape = create_model("_KeyedShape", __base__=Shape, **_KEYS)

# The models of views. One that is part of a body as well has a model of its own, which is entered here.
MODELS: dict[type[View], type[BaseModel]] = {}


def model_of(view: type[View]) -> type[BaseModel]:
    """Return the model that documents an answer; it refuses an answer with other keys or types."""
    if view not in MODELS:
        fields: dict[str, Any] = {
            name: _documented(name, annotation, _Names(sys.modules[owner.__module__].__dict__), more)
            for name, (owner, annotation, more) in view.fields().items()
        }
        base = _KeyedShape if issubclass(view, Schedule) else Shape
        model = MODELS[view] = create_model(view.__name__, __base__=base, __doc__=view.__doc__, **fields)
        if view is ListedSchedule:
            model.model_config["json_schema_extra"] = {"required": ["id"]}
            model.model_rebuild(force=True)
    return MODELS[view]


class _Names(dict[str, Any]):
    """The names that an annotation uses: those of its module, with a model in the place of each view."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        super().__init__(When=When)
        self._module = module

    def __missing__(self, name: str) -> Any:
        found = self._module[name]
        return model_of(found) if isinstance(found, type) and issubclass(found, View) else found


def _documented(name: str, annotation: str, names: _Names, more: Any) -> tuple[Any, Any]:
    about: dict[str, Any] = {"description": more.about, "examples": more.examples}
    if more.is_optional:
        about["default"] = None
    if (key := key_of(name)) != name:
        about["alias"] = key
    return eval(annotation, {}, names), Field(**about)


# JSON Schemas of bodies that are judged as a file is: made from the same tables as the check, so they say the
# same.


Schema = dict[str, Any]


def or_null(schema: Schema) -> Schema:
    """Return the same schema, where null means that a key is not given."""
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


MOST_AT_ONCE = 10_000
# What OpenAPI has under these names; `openapi` adds them to the document.
SCHEDULE_BODY: Schema = {"$ref": "#/components/schemas/ScheduleBody"}
HOOK_BODY: Schema = {"$ref": "#/components/schemas/HookBody"}
SCHEDULE_BATCH: Schema = {"$ref": "#/components/schemas/NewSchedules"}
QUIET_HOURS_BODY: Schema = {"$ref": "#/components/schemas/QuietHoursBody"}
QUIET_HOURS_CHANGE: Schema = {"$ref": "#/components/schemas/QuietHoursChange"}
