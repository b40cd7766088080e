"""JSON Schema validation in linear time: patterns run on RE2, and `uniqueItems` compares hashes.

A pattern of a manifest is applied to untrusted payloads, and Python's own engine can take minutes for one short text.
Plugins of this format were written for RE2, which supports neither look-around nor back-references, and rejects them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import re2
from jsonschema import ValidationError, validators

from everwhen.errors import shown

_UNICODE_ESCAPE = re.compile(r"(\\\\)|\\u([0-9a-fA-F]{4})")
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # they are raised, too
_OPTIONS.never_capture = True

Errors = Iterator[ValidationError]


@cache
def linear_validator(kind: Any) -> Any:
    """Return a validator of the same draft, with its costly keywords replaced."""
    return validators.extend(
        kind, {name: check for name, check in _KEYWORDS.items() if name in kind.VALIDATORS}
    )


def search(pattern: str, text: str) -> bool:
    """Return whether the pattern matches anywhere in the text."""
    return _compiled(pattern).search(text) is not None


@lru_cache(maxsize=500)
def _compiled(pattern: str) -> Any:
    spelled = _UNICODE_ESCAPE.sub(lambda found: found[1] or rf"\x{{{found[2]}}}", pattern)
    try:
        return re2.compile(spelled, _OPTIONS)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f'the pattern "{shown(pattern)}" cannot be used: {reason}') from None


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Errors:
    if validator.is_type(instance, "string") and not search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    for pattern, schema in patterns.items():
        for name, value in instance.items():
            if search(pattern, name):
                yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    known, patterns = schema.get("properties", {}), list(schema.get("patternProperties", ()))
    extras = [
        name
        for name in instance
        if name not in known and not any(search(pattern, name) for pattern in patterns)
    ]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(instance[name], allowed, path=name)
    elif not allowed and extras:
        names = ", ".join(repr(shown(name)) for name in sorted(extras)[:5])
        verb = "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({names} {verb} unexpected)")


def _unevaluated_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Errors:
    if "patternProperties" in json.dumps(schema):
        raise ValueError("unevaluatedProperties beside patternProperties cannot be used")
    yield from validators.Draft202012Validator.VALIDATORS["unevaluatedProperties"](
        validator, allowed, instance, schema
    )


def _unique_items(validator: Any, is_wanted: bool, instance: Any, _schema: Any) -> Errors:
    if is_wanted and validator.is_type(instance, "array"):
        seen = {_hashable(item) for item in instance}
        if len(seen) < len(instance):
            yield ValidationError(f"{instance!r} has non-unique elements")


def _hashable(value: Any) -> Any:
    """Return a hashable value, equal for values that JSON Schema treats as equal: 1 and 1.0, but not 1 and true."""
    if isinstance(value, dict):
        return frozenset((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return (type(value), value) if isinstance(value, bool) else value


_KEYWORDS = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}
