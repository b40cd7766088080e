"""Kinds of single values: texts, flags, numbers, choices, and values with their own parser.

A kind checks a value in its place and reports problems there; it converts nothing. Every problem is one sentence that
says what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

from everwhen.errors import SchedulerError, shown

Schema = dict[str, Any]
Severity = Literal["error", "warning"]
LONGEST_GUESSED = 50  # characters
MOST_LISTED = 20  # names in a message
LONGEST_PARSED = 1_000  # characters or items; parsed values are cached
ZERO_BYTE = "contains a zero byte, which is not allowed"


class CheckedValue(Protocol):
    """A value in its place, where a kind reports what is wrong with it: in a file, a request or a call."""

    @property
    def value(self) -> Any: ...

    @property
    def is_trusted(self) -> bool: ...

    @property
    def is_in_file(self) -> bool: ...

    def complain(self, message: str, *steps: str | int, severity: Severity = "error") -> None: ...

    def __getitem__(self, step: str | int) -> CheckedValue: ...

    def items(self) -> Sequence[CheckedValue]: ...


def unknown(what: str, key: str, known: Iterable[str]) -> str:
    """Return `unknown key, did you mean "jitter"?`; long keys are not guessed, because no known key is that long.

    >>> unknown("key", "jiter", ["jitter", "every"]), unknown("key", "colour", ["threshold", "reset_after"])
    ('unknown key, did you mean "jitter"?', 'unknown key; known keys: threshold, reset_after')
    """
    from difflib import get_close_matches  # commands that only read check no keys

    names = list(known)
    near = get_close_matches(key, names, n=1, cutoff=0.6) if len(key) <= LONGEST_GUESSED else []
    if near:
        return f'unknown {what}, did you mean "{near[0]}"?'
    is_listed = what == "key" and 0 < len(names) <= MOST_LISTED
    return f"unknown key; known keys: {', '.join(names)}" if is_listed else f"unknown {what}"


def hint(word: str, known: Iterable[str]) -> str:
    """Return what follows the message that a name does not exist: the nearest name, and those that exist.

    >>> hint("pol", ["poll", "push"]), hint("x", ["poll"]), hint("x", [])
    (', did you mean "poll"? Available: poll, push', '; available: poll', '')
    """
    names = list(known)
    if not names:
        return ""
    near = unknown("", word, names).removeprefix("unknown ")
    few = ", ".join(shown(name) for name in names[:MOST_LISTED])
    more = f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else ""
    return f"{near} Available: {few}{more}" if near else f"; available: {few}{more}"


class Text(NamedTuple):
    """A text; `example` shows what is expected."""

    example: str = ""
    pattern: str | None = None
    message: str = "must be text"
    longest: int = 10_000
    python: str = "str"  # its type in Python

    def check(self, node: CheckedValue) -> None:
        value = node.value
        if not isinstance(value, str):
            node.complain(f"{self._wanted}, not {spelled(value)}{_quote_hint(value)}")
        elif "\0" in value:
            node.complain(ZERO_BYTE)
        elif len(value) > self.longest:
            node.complain(f"must have at most {self.longest:,} characters, not {len(value):,}")
        elif not value.strip() or not _fits(self.pattern, value):
            node.complain(
                f'"{shown(value)}" {self._wanted}' if value.strip() else f"{self._wanted}, not empty"
            )

    @property
    def _wanted(self) -> str:
        return f"{self.message}, such as {self.example}" if self.example else self.message

    def schema(self) -> Schema:
        found: Schema = {"type": "string"}
        if self.pattern:
            found["pattern"] = f"^(?:{self.pattern})$"
        return found | ({"examples": [self.example]} if self.example else {})


class AnyText:
    """A text that may be empty, for programs and headers."""

    def check(self, node: CheckedValue) -> None:
        if "\0" in node.value:
            node.complain(ZERO_BYTE)

    def schema(self) -> Schema:
        return {"type": "string"}


class Flag:
    def check(self, node: CheckedValue) -> None:
        if not isinstance(node.value, bool):
            node.complain(f"must be true or false, not {spelled(node.value)}")

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Number(NamedTuple):
    """A whole number within bounds."""

    least: int = 0
    most: int = 2**31

    def check(self, node: CheckedValue) -> None:
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return
        bounds = f"from {self.least}" + (f" to {self.most:,}" if self.most < 2**31 else " on")
        node.complain(f"must be a whole number {bounds}, not {spelled(value)}")

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Word(NamedTuple):
    """One of a few choices."""

    fields: tuple[str, ...]
    what: str = ""  # what to call them in messages if they are too many to list
    meanings: Mapping[str, str] = {}  # what each means, of those that do not say it themselves

    def check(self, node: CheckedValue) -> None:
        if node.value in self.fields:
            return
        if not self.what:
            node.complain(f"{spelled(node.value)} must be one of {', '.join(self.fields)}")
            return
        hint = unknown(self.what, str(node.value), self.fields).removeprefix(f"unknown {self.what}")
        node.complain(f"{spelled(node.value)} is not a known {self.what}{hint}")

    def schema(self) -> Schema:
        return {"enum": list(self.fields)}


class Only(NamedTuple):
    """Exactly one value."""

    value: Any

    def check(self, node: CheckedValue) -> None:
        if node.value != self.value:
            node.complain(f"{spelled(node.value)} must be {spelled(self.value)}, or left out")

    def schema(self) -> Schema:
        return {"const": self.value}


class Parsed(NamedTuple):
    """A value that a parser reads; the error of the parser is the reported problem."""

    parse: Callable[[Any], object]
    shape: Mapping[str, Any] = {"type": "string"}
    also: tuple[Any, ...] = ()  # values with a special meaning
    python: str = "str"  # its type in Python

    def check(self, node: CheckedValue) -> None:
        if node.value in self.also and not isinstance(node.value, bool):
            return
        if isinstance(node.value, str | list) and len(node.value) > LONGEST_PARSED:
            node.complain(f"is longer than {LONGEST_PARSED:,} characters or items")
            return
        complaint = _complaint(self.parse, _hashable(node.value))
        if isinstance(node.value, dict):  # the parser gets its repr, which may be a valid text
            complaint = complaint or "must be a single value, not a mapping"
        if complaint is not None:
            node.complain(complaint)

    def schema(self) -> Schema:
        return {"anyOf": [dict(self.shape), {"enum": list(self.also)}]} if self.also else dict(self.shape)


@lru_cache(maxsize=20_000, typed=True)  # 1 is not true; thousands of schedules say `5m` or `Europe/Berlin`
def _complaint(parse: Callable[[Any], object], value: Any) -> str | None:
    try:
        parse(list(value) if isinstance(value, tuple) else value)
    except SchedulerError as error:
        return str(error)
    return None


def _hashable(value: Any) -> Any:
    """Return a short hashable value for the parser and its cache; what is not text never becomes a valid text."""
    if isinstance(value, list):
        return tuple(shown(item) if isinstance(item, str) else _hashable_item(item) for item in value)
    return shown(repr(value)) if isinstance(value, dict) else value


def _hashable_item(item: Any) -> Any:
    return shown(repr(item)) if isinstance(item, bool | list | dict) else item


def spelled(value: Any) -> str:
    """Format a value for a message."""
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
    return f'; write it in quotes: "{shown(str(value).lower())}"' if is_scalar else ""


def _fits(pattern: str | None, value: str) -> bool:
    return pattern is None or re.fullmatch(pattern, value) is not None
