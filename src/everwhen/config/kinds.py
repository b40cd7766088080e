"""Kinds of values: what a key takes, said once for the check of a file and for the JSON Schema of editors.

A kind checks a value in its place and complains there; it converts nothing. Every complaint is one sentence
that says what would be right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from everwhen.config.document import Block, Items
from everwhen.config.node import Node
from everwhen.config.problems import unknown
from everwhen.errors import SchedulerError, shown

Schema = dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Kind(Protocol):
    """What a value may be."""

    def check(self, node: Node) -> None: ...

    def schema(self) -> Schema: ...


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `example` shows what is meant."""

    example: str = ""
    pattern: str | None = None
    says: str = "must be text"
    longest: int = 10_000

    def check(self, node: Node) -> None:
        value = node.value
        if not isinstance(value, str):
            node.complain(f"{self._wanted}, not {spelled(value)}{_quote_hint(value)}")
        elif "\0" in value:
            node.complain(ZERO_BYTE)
        elif not value.strip() or len(value) > self.longest or not _fits(self.pattern, value):
            node.complain(
                f'"{shown(value)}" {self._wanted}' if value.strip() else f"{self._wanted}, not empty"
            )

    @property
    def _wanted(self) -> str:
        return f"{self.says}, such as {self.example}" if self.example else self.says

    def schema(self) -> Schema:
        found: Schema = {"type": "string"}
        if self.pattern:
            found["pattern"] = f"^(?:{self.pattern})$"
        return found | ({"examples": [self.example]} if self.example else {})


@dataclass(frozen=True, slots=True)
class AnyText:
    """A text that may be empty, for programs and headers."""

    def check(self, node: Node) -> None:
        if "\0" in node.value:
            node.complain(ZERO_BYTE)

    def schema(self) -> Schema:
        return {"type": "string"}


ZERO_BYTE = "holds a zero byte, which no program and no database takes"


@dataclass(frozen=True, slots=True)
class Flag:
    def check(self, node: Node) -> None:
        if not isinstance(node.value, bool):
            node.complain(f"must be true or false, not {spelled(node.value)}")

    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number within bounds."""

    least: int = 0
    most: int = 2**31

    def check(self, node: Node) -> None:
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return
        bounds = f"from {self.least}" + (f" to {self.most:,}" if self.most < 2**31 else " on")
        node.complain(f"must be a whole number {bounds}, not {spelled(value)}")

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few words."""

    words: tuple[str, ...]
    what: str = ""  # what they are called, where they are too many to be listed

    def check(self, node: Node) -> None:
        if node.value in self.words:
            return
        if not self.what:
            node.complain(f"{spelled(node.value)} must be one of {', '.join(self.words)}")
            return
        hint = unknown(self.what, str(node.value), self.words).removeprefix(f"unknown {self.what}")
        node.complain(f"{spelled(node.value)} is no {self.what}{hint}")

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Only:
    """One value and no other."""

    value: Any

    def check(self, node: Node) -> None:
        if node.value != self.value:
            node.complain(f"{spelled(node.value)} must be {spelled(self.value)}, or left out")

    def schema(self) -> Schema:
        return {"const": self.value}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value that a parser of ours reads; its error is the complaint."""

    parse: Callable[[Any], object]
    shape: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    also: tuple[Any, ...] = ()  # values that mean something of their own

    def check(self, node: Node) -> None:
        if node.value in self.also and not isinstance(node.value, bool):
            return
        complaint = _complaint(self.parse, _hashable(node.value))
        if complaint is not None:
            node.complain(complaint)

    def schema(self) -> Schema:
        return {"anyOf": [dict(self.shape), {"enum": list(self.also)}]} if self.also else dict(self.shape)


@lru_cache(maxsize=20_000, typed=True)  # 1 is no true; thousands of schedules say `5m` or `Europe/Berlin`
def _complaint(parse: Callable[[Any], object], value: Any) -> str | None:
    try:
        parse(list(value) if isinstance(value, tuple) else value)
    except SchedulerError as error:
        return str(error)
    return None


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(repr(item) if isinstance(item, bool) else _hashable(item) for item in value)
    return repr(value) if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class ListOf:
    kind: Kind
    says: str = "must be a list"
    least: int = 0
    may_be_trusted: bool = False  # items that were sound when the file was last read

    def check(self, node: Node) -> None:
        if not isinstance(node.value, Items):
            node.complain(f"{self.says}, not {spelled(node.value)}")
            return
        if len(node.value) < self.least:
            node.complain(f"{self.says}, not empty")
        for item in node.items():
            if not (self.may_be_trusted and node.report.trusts(item.value)):
                self.kind.check(item)

    def schema(self) -> Schema:
        return {"type": "array", "items": self.kind.schema()} | (
            {"minItems": self.least} if self.least else {}
        )


@dataclass(frozen=True, slots=True)
class MapOf:
    """Names of the writer's own, each with a value of one kind."""

    kind: Kind
    has_names: bool = True  # names that become part of an id
    says: str = "must be a mapping of names"

    def check(self, node: Node) -> None:
        if not isinstance(node.value, Block):
            node.complain(f"{self.says}, not {spelled(node.value)}")
            return
        for key in node.value:
            if self.has_names and not NAME.fullmatch(key):
                node.complain(NO_NAME, key)
            if node.value[key] is not None:
                self.kind.check(node[key])

    def schema(self) -> Schema:
        names = {"propertyNames": {"pattern": f"^{NAME.pattern}$"}} if self.has_names else {}
        return {"type": "object", "additionalProperties": self.kind.schema(), **names}


NO_NAME = "is no name; use letters, digits, - and _, at most 100, beginning with a letter or digit"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping."""

    kind: Kind
    about: str
    default: Any = None
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys. `needs` complains about a mapping as a whole."""

    keys: Mapping[str, Key]
    needs: Callable[[Node], None] | None = field(default=None, compare=False)

    def check(self, node: Node) -> None:
        value = node.value
        if not isinstance(value, Block):
            node.complain(f"must be a mapping with {_few(self.keys)}, not {spelled(value)}")
            return
        for name in value:
            key = self.keys.get(name)
            if key is None:
                node.complain(unknown("key", name, self.keys), name)
            elif value[name] is not None:
                key.kind.check(node[name])
        for name, key in self.keys.items():
            if key.is_required and value.get(name) is None:
                node.complain(f"{name} is required")
        if self.needs is not None:
            self.needs(node)

    def schema(self) -> Schema:
        required = [name for name, key in self.keys.items() if key.is_required]
        found: Schema = {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: _described(key) for name, key in self.keys.items()},
        }
        return found | ({"required": required} if required else {})


def _described(key: Key) -> Schema:
    default = {} if key.default is None else {"default": key.default}
    return {**key.kind.schema(), "description": key.about, **default}


@dataclass(frozen=True, slots=True)
class Either:
    """One of several kinds, told apart by the type of the value; the last takes what no other does."""

    kinds: tuple[tuple[type | tuple[type, ...], Kind], ...]
    last: Kind

    def check(self, node: Node) -> None:
        for types, kind in self.kinds:
            if isinstance(node.value, types):
                kind.check(node)
                return
        self.last.check(node)

    def schema(self) -> Schema:
        return {"anyOf": [*(kind.schema() for _, kind in self.kinds), self.last.schema()]}


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing at all: a key that has its place elsewhere."""

    says: str

    def check(self, node: Node) -> None:
        node.complain(self.says)

    def schema(self) -> Schema:
        return {"not": {}}


@dataclass(frozen=True, slots=True)
class Anything:
    """Plain data, handed on as it is."""

    def check(self, node: Node) -> None:
        return None

    def schema(self) -> Schema:
        return {}


@dataclass(frozen=True, slots=True)
class Object:
    """A JSON object of bounded size."""

    most_bytes: int

    def check(self, node: Node) -> None:
        if not isinstance(node.value, Block):
            node.complain(f"must be an object, not {spelled(node.value)}")
        elif (size := len(json.dumps(node.value))) > self.most_bytes:
            node.complain(f"is {size:,} bytes long; at most {self.most_bytes:,} are taken")

    def schema(self) -> Schema:
        return {"type": "object"}


def spelled(value: Any) -> str:
    """A value as a message names it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{shown(value)}"'
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else shown(value)


def _quote_hint(value: Any) -> str:
    is_scalar = isinstance(value, int | float)
    return f'; in quotes ("{shown(str(value).lower())}") it is one' if is_scalar else ""


def _fits(pattern: str | None, value: str) -> bool:
    return pattern is None or re.fullmatch(pattern, value) is not None


def _few(keys: Mapping[str, Key]) -> str:
    names = list(keys)
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])}, …"
