"""Kinds of values that contain others: lists, maps and records of keys. They check files and make the JSON Schema.

Like the scalar kinds in `scalars` they check in place and convert nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from everwhen.errors import oversize
from everwhen.model.scalars import CheckedValue, Schema, Word, spelled, unknown
from everwhen.model.target_kinds import header_fault

MOST_UNKNOWN = 20  # keys of one mapping that are reported one by one

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
NO_NAME = "is not a valid name; use at most 100 letters, digits, - and _, beginning with a letter or digit"


class Kind(Protocol):
    """What a value may be."""

    def check(self, node: CheckedValue) -> None: ...

    def schema(self) -> Schema: ...


class ListOf(NamedTuple):
    kind: Kind
    message: str = "must be a list"
    least: int = 0
    most: int | None = None
    may_be_trusted: bool = False  # items that were valid when the file was last read

    def check(self, node: CheckedValue) -> None:
        if not isinstance(node.value, list):
            node.complain(f"{self.message}, not {spelled(node.value)}")
            return
        if len(node.value) < self.least:
            node.complain(f"{self.message}, not empty")
        if self.most is not None and len(node.value) > self.most:
            node.complain(f"has {len(node.value):,} items; at most {self.most:,} are allowed")
            return
        for item in node.items():
            if not (self.may_be_trusted and item.is_trusted):
                self.kind.check(item)

    def schema(self) -> Schema:
        bounds = {"minItems": self.least or None, "maxItems": self.most}
        return {"type": "array", "items": self.kind.schema()} | {
            name: bound for name, bound in bounds.items() if bound is not None
        }


class MapOf(NamedTuple):
    """A mapping whose keys are names chosen by the user, with values of one kind."""

    kind: Kind
    has_names: bool = True  # keys that become part of an id
    message: str = "must be a mapping of names"

    def check(self, node: CheckedValue) -> None:
        if not isinstance(node.value, dict):
            node.complain(f"{self.message}, not {spelled(node.value)}")
            return
        for key in node.value:
            if self.has_names and not NAME.fullmatch(key):
                node.complain(NO_NAME, key)
            if node.value[key] is not None:
                self.kind.check(node[key])

    def schema(self) -> Schema:
        names = {"propertyNames": {"pattern": f"^{NAME.pattern}$"}} if self.has_names else {}
        return {"type": "object", "additionalProperties": self.kind.schema(), **names}


class Headers(NamedTuple):
    """Headers of a request, except those that the client sets itself."""

    kind: Kind

    def check(self, node: CheckedValue) -> None:
        if not isinstance(node.value, dict):
            node.complain(f"must be a mapping of headers, not {spelled(node.value)}")
            return
        for name, value in node.value.items():
            fault = header_fault(name, "" if value is None else value)
            if fault is not None:
                node.complain(fault, name)
            elif value is not None:
                self.kind.check(node[name])

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.kind.schema()}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping."""

    kind: Kind
    about: str
    default: Any = None
    is_required: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys. `needs` checks the mapping as a whole."""

    keys: Mapping[str, Key]
    needs: Callable[[CheckedValue], None] | None = field(default=None, compare=False)
    required: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        required = tuple(name for name, key in self.keys.items() if key.is_required)
        object.__setattr__(self, "required", required)

    def check(self, node: CheckedValue) -> None:
        value = node.value
        if not isinstance(value, dict):
            node.complain(f"must be a mapping with {_few(self.keys)}, not {spelled(value)}")
            return
        strange = []
        for name in value:
            key = self.keys.get(name)
            if key is None:
                strange.append(name)
            elif value[name] is not None:
                key.kind.check(node[name])
        if strange:
            self._refuse_unknown(node, strange)
        for name in self.required:
            if value.get(name) is None:
                node.complain(f"{name} is required")
        if self.needs is not None:
            self.needs(node)

    def _refuse_unknown(self, node: CheckedValue, names: list[str]) -> None:
        for name in names[:MOST_UNKNOWN]:
            node.complain(unknown("key", name, self.keys), name)
        if len(names) > MOST_UNKNOWN:
            node.complain(f"has {len(names) - MOST_UNKNOWN:,} further unknown keys")

    def schema(self) -> Schema:
        found: Schema = {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: _described(key) for name, key in self.keys.items()},
        }
        return found | ({"required": list(self.required)} if self.required else {})


def _described(key: Key) -> Schema:
    default = {} if key.default is None else {"default": key.default}
    return {**key.kind.schema(), "description": _full_text(key), **default}


def _full_text(key: Key) -> str:
    """Return what a key is about, with the meaning of each word that it may be."""
    meanings = key.kind.meanings if isinstance(key.kind, Word) else {}
    words = "; ".join(f"{word}: {meaning}" for word, meaning in meanings.items())
    return f"{key.about} {words}." if words else key.about


class Either(NamedTuple):
    """One of several kinds, selected by the type of the value; the last takes all other types."""

    kinds: tuple[tuple[type | tuple[type, ...], Kind], ...]
    last: Kind

    def check(self, node: CheckedValue) -> None:
        for types, kind in self.kinds:
            if isinstance(node.value, types):
                kind.check(node)
                return
        self.last.check(node)

    def schema(self) -> Schema:
        return {"anyOf": [*(kind.schema() for _, kind in self.kinds), self.last.schema()]}


class Refused(NamedTuple):
    """No value at all: a key that belongs elsewhere or was replaced."""

    message: str

    def check(self, node: CheckedValue) -> None:
        node.complain(self.message)

    def schema(self) -> Schema:
        return {"not": {}}


class Anything:
    """Plain data, passed on unchanged."""

    def check(self, node: CheckedValue) -> None:
        return None

    def schema(self) -> Schema:
        return {}


class Object(NamedTuple):
    """A JSON object of limited size."""

    most_bytes: int

    def check(self, node: CheckedValue) -> None:
        if not isinstance(node.value, dict):
            node.complain(f"must be an object, not {spelled(node.value)}")
        elif (size := len(json.dumps(node.value))) > self.most_bytes:
            node.complain(oversize(size, self.most_bytes))

    def schema(self) -> Schema:
        return {"type": "object"}


def _few(keys: Mapping[str, Key]) -> str:
    names = list(keys)
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])}, …"
