"""YAML: from text to plain values with their lines, refusing what is not plain data; and back to text.

The reader takes the parser's events and not composed nodes: composing recurses in C, so that a file of brackets crashes
the process, and costs four times as much. Types are those of YAML 1.2's core schema: `no`, `on`, `12:30` and
`2026-12-25` are text. A duplicate key is refused; `<<` merges as in other YAML readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import yaml

from everwhen.config.document import MOST_DEPTH, Block, Document, Items, Plain
from everwhen.config.problems import Location, Report
from everwhen.errors import shown

MOST_BYTES = 16 << 20
LONGEST_NUMBER = 1_000
MOST_VALUES = 5_000_000  # counted with every alias expanded

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_CHOICES: dict[str, Any] = {"": None, "~": None} | {
    spelled: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelled in (word, word.capitalize(), word.upper())
}
_TYPES = {
    "tag:yaml.org,2002:" + name: kind for name, kind in (("int", int), ("float", float), ("bool", bool))
}
_TEXT_TAG = "tag:yaml.org,2002:str"
_NULL_TAG = "tag:yaml.org,2002:null"
_PLAIN_TAGS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class _RefusedError(Exception):
    """The file cannot be read any further."""


def read_document(text: str, file: str, report: Report) -> Document:
    """Return the values of a file; report what is wrong with them, and read on where possible."""
    if len(text) > MOST_BYTES:
        report.add(Location(file, 1), (), f"is larger than {MOST_BYTES >> 20} MiB; split it with include")
        return Document(file, None)
    try:
        builder = _Builder(text, file, report)
        root = builder.document()
        return Document(file, root, True, text, builder.count, has_anchors=builder.has_anchors)
    except _RefusedError:
        return Document(file, None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        report.add(Location(file, line, column), (), f"is not valid YAML: {_fault(error)}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        fault = f"is not valid YAML: it contains a control character (#x{error.character:02x})"
        report.add(Location(file, line), (), fault)
    return Document(file, None)


def _fault(error: yaml.MarkedYAMLError) -> str:
    if error.problem == "found character that cannot start any token":
        return "a tab, @ or ` begins a word; indent with spaces, and put such words in quotes"
    return ", ".join(shown(part) for part in (error.problem, error.context) if part)


def core_value(text: str) -> Any:
    """Return what an unquoted text means in YAML 1.2.

    >>> [core_value(text) for text in ("12", "1.5", "true", "no", "12:30", "2026-12-25", "")]
    [12, 1.5, True, 'no', '12:30', '2026-12-25', None]
    """
    if text in _CHOICES:
        return _CHOICES[text]
    if text[0] not in "0123456789+-.":
        return text
    if len(text) > LONGEST_NUMBER:  # text instead of an approximation
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


class _Builder:
    """Converts the events of one file to values in one pass."""

    def __init__(self, text: str, file: str, report: Report) -> None:
        self._next = yaml.CSafeLoader(text).get_event
        self._file = file
        self._report = report
        self._anchors: dict[str, tuple[Any, int]] = {}
        self.has_anchors = False
        self.count = 0
        self._steps: list[str | int] = []  # the current path; a tuple per value would cost a fifth

    def document(self) -> Any:
        self._next()
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self._value(self._next())
        self._next()
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            self._refuse(event, "holds several documents; keep one, and drop the line with ---")
        return value

    def _value(self, event: Any) -> Any:
        self.count += 1
        if self.count > MOST_VALUES:
            self._refuse(event, f"holds more than {MOST_VALUES:,} values, its aliases written out")
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
            if event.anchor is not None:
                self._keep(event.anchor, value, 1)
            return value
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        return self._collection(event)

    def _collection(self, event: Any) -> Block | Items:
        if len(self._steps) >= MOST_DEPTH:
            del self._steps[3:]
            self._refuse(event, f"is nested more than {MOST_DEPTH} levels deep")
        if event.tag not in _PLAIN_TAGS:
            self._complain(event, f'the tag "{shown(event.tag)}" is not supported; write plain values')
        before = self.count
        build = self._items if isinstance(event, yaml.SequenceStartEvent) else self._block
        value = build()
        if event.anchor is not None:  # defined from here on: a value cannot contain itself
            self._keep(event.anchor, value, self.count - before + 1)
        return value

    def _keep(self, anchor: str, value: Any, weight: int) -> None:
        self.has_anchors = True
        self._anchors[anchor] = (value, weight)

    def _items(self) -> Items:
        items = Items()
        self._steps.append(0)
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            mark = event.start_mark
            items.spots.append((mark.line, mark.column))
            self._steps[-1] = len(items)
            items.append(self._value(event))
        self._steps.pop()
        return items

    def _block(self) -> Block:
        block, merged = Block(), Block()
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key, is_merge = self._key(event)
            self._steps.append(key)
            mark = event.start_mark
            spot = (mark.line, mark.column)
            value = self._value(self._next())
            if is_merge:
                self._merge(merged, value, event)
            elif key in block:
                self._complain(event, f"duplicate key, first in line {block.spots[key][0] + 1}")
            else:
                block[key] = value
                block.spots[key] = spot
            self._steps.pop()
        for key in merged.keys() - block.keys():
            block[key] = merged[key]
            block.spots[key] = merged.spots[key]
        return block

    def _key(self, event: Any) -> tuple[str, bool]:
        if isinstance(event, yaml.AliasEvent):
            value = self._alias(event)
            return str(value), False
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(event, "a key must be a word, not a list or a mapping")
        return str(event.value), event.value == "<<" and event.implicit[0]

    def _merge(self, merged: Block, value: Any, event: Any) -> None:
        for source in value if isinstance(value, Items) else [value]:
            if not isinstance(source, Block):
                self._complain(event, "takes a mapping, or a list of mappings")
                return
            for key in source.keys() - merged.keys():  # the first of several wins
                merged[key] = source[key]
                merged.spots[key] = source.spots[key]

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            self._refuse(
                event, f"*{shown(event.anchor)} refers to no anchor before it, or to one that contains it"
            )
        value, weight = self._anchors[event.anchor]
        self.count += weight
        return value

    def _scalar(self, event: Any) -> Any:
        text, tag = event.value, event.tag
        if tag is None and not event.implicit[0]:
            return text  # quoted
        if tag in (_TEXT_TAG, "!"):
            return text
        if "${" in text:
            return Plain(text)
        value = core_value(text)
        if (
            tag is not None
            and not (tag == _NULL_TAG and value is None)
            and type(value) is not _TYPES.get(tag)
        ):
            self._complain(event, f'the tag "{shown(tag)}" does not fit "{shown(text)}"; leave it out')
        return value

    def _complain(self, event: Any, message: str) -> None:
        mark = event.start_mark
        self._report.add(Location(self._file, mark.line + 1, mark.column + 1), tuple(self._steps), message)

    def _refuse(self, event: Any, message: str) -> NoReturn:
        self._complain(event, message)
        raise _RefusedError(message)


# The YAML writer: plain values as an `everwhen.yaml` that reads back as the same values.


_SHORT = 90
# C1 and the marks that change the text direction, which YAML's own writer treats as printable.
_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes what YAML 1.1 or 1.2 would read as another type; short collections stay on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        is_plain = isinstance(core_value(text), str) and text != "<<"
        style = None if is_plain else '"'
        if _HIDDEN.search(text):
            style = '"'
        elif "\n" in text and not text.startswith((" ", "\n")):
            style = "|"
        return self.represent_scalar(_TEXT_TAG, text, style=style)

    def represent_block(self, value: Mapping[str, Any]) -> yaml.MappingNode:
        node = self.represent_mapping("tag:yaml.org,2002:map", value.items())
        node.flow_style = self._is_short(value)
        return node

    def represent_items(self, value: list[Any]) -> yaml.SequenceNode:
        node = self.represent_sequence("tag:yaml.org,2002:seq", value)
        node.flow_style = self._is_short(value)
        return node

    @staticmethod
    def _is_short(value: Any) -> bool:
        inside = value.values() if isinstance(value, Mapping) else value
        is_flat = not any(isinstance(item, Mapping | list) for item in inside)
        return (
            is_flat
            and len(value) <= 8
            and len(str(value)) <= _SHORT
            and "\n" not in "".join(map(str, inside))
        )


for _kind, _represent in (
    (str, _Dumper.represent_text),
    (dict, _Dumper.represent_block),
    (list, _Dumper.represent_items),
):
    _Dumper.add_representer(_kind, _represent)
    _Dumper.add_multi_representer(_kind, _represent)


_STYLE: Any = {"sort_keys": False, "allow_unicode": True, "default_flow_style": False, "width": 110}
_PORTION = 200


def _portions(items: list[Any]) -> list[list[Any]]:
    """Cut a list into portions, of which none but the only one is short: a short list is written on one line."""
    cuts = list(range(0, max(len(items) - _PORTION // 2, 1), _PORTION))
    return [items[start:end] for start, end in zip(cuts, [*cuts[1:], len(items)], strict=True)]


def written(document: Mapping[str, Any], progress: Callable[[float], None] = lambda _share: None) -> str:
    """Return the document as YAML, with an empty line between sections; a long list is written in portions.

    >>> print(written({"service": {"name": "no"}}), end="")
    service: {name: 'no'}
    """
    total = max(sum(len(value) if isinstance(value, list) else 1 for value in document.values()), 1)
    sections, done = [], 0
    for key, value in document.items():
        portions = _portions(value) if isinstance(value, list) else [value]
        text = ""
        for portion in portions:
            found = yaml.dump({key: portion}, Dumper=_Dumper, **_STYLE)
            text += found.partition("\n")[2] if text else found
            done += len(portion) if isinstance(value, list) else 1
            progress(done / total)
        sections.append(text)
    # Hidden characters are always in double quotes, where they can be escaped.
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", "\n".join(sections))
