"""Payloads: the input of a target, an object that is stored as JSON with a size limit; and their schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from everwhen.errors import PayloadSizeError, TimetableError, shown

LARGEST_PAYLOAD = 64 * 1024


def payload_text(value: Any) -> str:
    """Return a payload as it is stored; raise TimetableError when it is not an object, not valid JSON, or too large.

    >>> payload_text({"source": "scheduler"})
    '{"source": "scheduler"}'
    """
    if not isinstance(value, Mapping):
        raise TimetableError("payload must be an object", key="payload", value=value)
    try:
        text = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:  # a date, a set, NaN, an object within itself
        raise TimetableError(f"payload cannot be written as JSON: {error}", key="payload") from error
    if len(text) > LARGEST_PAYLOAD:
        raise PayloadSizeError(
            f"payload is {len(text)} bytes as JSON; at most {LARGEST_PAYLOAD} are allowed, so pass a reference "
            "to the data instead",
            key="payload",
        )
    return text


# The schemas of payloads: JSON Schemas, and the short form `field: type` that plugins may use instead.


FAULTS_SHOWN, FAULTS_SORTED = 10, 1_000
_TYPES = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))


def expand_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of either form as a JSON Schema. Fields of the short form are optional.

    >>> expand_schema({"url": "string"})
    {'type': 'object', 'properties': {'url': {'type': 'string'}}}
    """
    if not is_short(schema):
        return dict(schema)
    return {"type": "object", "properties": {str(key): _property(value) for key, value in schema.items()}}


def is_short(schema: Mapping[str, Any]) -> bool:
    """Return whether this is a flat map of fields. A payload is an object, so `type: string` can only be a field."""
    if schema.get("type") == "object" or isinstance(schema.get("type"), list):
        return False
    return not any(str(key).startswith("$") for key in schema) and not _has_keywords(schema)


def _has_keywords(schema: Mapping[str, Any]) -> bool:
    """Return whether the schema has keywords of JSON Schema.

    `properties` and similar keywords hold mappings, lists or booleans; a field of that name would hold the name of a
    type.
    """
    keywords = ("properties", "required", "allOf", "anyOf", "oneOf", "additionalProperties")
    return any(isinstance(schema.get(key), Mapping | list | bool) for key in keywords)


def _property(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    # A value that is not a JSON Schema type describes the field and constrains nothing.
    return {"type": value} if value in _TYPES else {}


def defaults_of(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the default values of the fields of a schema."""
    if schema is None:
        return {}
    properties = expand_schema(schema).get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {
        key: spec["default"]
        for key, spec in properties.items()
        if isinstance(spec, Mapping) and "default" in spec
    }


class PayloadFault(NamedTuple):
    """What is wrong with a value, and where in it; `path` is None when it is the schema that cannot be used."""

    path: tuple[str | int, ...] | None
    message: str


def payload_faults(schema: Mapping[str, Any] | None, payload: Mapping[str, Any]) -> list[str]:
    """Return the faults of a payload, each with its path; an empty list when it satisfies the schema."""
    if schema is None:
        return []
    return [
        fault.message if fault.path is None else f"{_place(fault.path)}: {fault.message}"
        for fault in faults_in(schema, payload)
    ]


def faults_in(schema: Mapping[str, Any], value: Mapping[str, Any]) -> list[PayloadFault]:
    """Return the faults of an object, at most ten; an empty list when it satisfies the schema."""
    from jsonschema import exceptions, validators  # takes 0.1 s, and few schedules have a schema
    from referencing import Registry

    from everwhen.model.linear_schema import linear_validator

    whole = expand_schema(schema)
    kind = validators.validator_for(whole, default=validators.Draft202012Validator)
    try:
        kind.check_schema(whole)
        # An empty registry: an external reference is a fault, never a request over the network.
        validator = linear_validator(kind)(whole, registry=Registry())
        found = sorted(islice(validator.iter_errors(dict(value)), FAULTS_SORTED), key=_order)
    except exceptions.SchemaError as error:
        return [PayloadFault(None, f"the schema is not a valid JSON Schema: {shown(error.message)}")]
    except Exception as error:  # an unresolvable reference, an invalid pattern
        return [PayloadFault(None, f"the schema cannot be applied: {shown(str(error))}")]
    return [PayloadFault(tuple(error.absolute_path), shown(error.message)) for error in found[:FAULTS_SHOWN]]


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Return why a schema cannot be used at all; None when it can."""
    return next((fault.message for fault in faults_in(schema, {}) if fault.path is None), None)


def _place(path: Any) -> str:
    return ".".join(["payload", *(str(step) for step in path)])


def _order(error: Any) -> tuple[list[str], str]:
    return [str(step) for step in error.absolute_path], error.message
