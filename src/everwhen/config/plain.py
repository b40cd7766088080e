"""Conversion of values from JSON or Python to a document without lines; it refuses what is not plain data."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from everwhen.config.document import MOST_DEPTH, Block, Document, Items
from everwhen.config.problems import Path, Place, Report
from everwhen.errors import shown


def plain_document(value: Any, report: Report) -> Document:
    """Convert values from JSON or Python to a document without lines; report what is not plain data."""
    return Document("", _Copier(report).copied(value, ()), is_file=False)


class _Copier:
    """Converts plain values to the types that a file is read into."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def copied(self, value: Any, path: Path) -> Any:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            return (
                value
                if value.isascii() or _is_unicode(value)
                else self._refused(path, "holds no Unicode text")
            )
        if isinstance(value, float):
            return value if isfinite(value) else self._refused(path, f"{value} is no JSON value")
        if len(path) > MOST_DEPTH:
            return self._refused(path[:3], f"is nested more than {MOST_DEPTH} levels deep")
        if isinstance(value, Mapping):
            return self._block(value, path)
        if isinstance(value, list | tuple):
            items = Items()
            items.extend(self.copied(item, (*path, number)) for number, item in enumerate(value))
            return items
        return self._refused(path, f"a {type(value).__name__} is no JSON value")

    def _block(self, value: Mapping[Any, Any], path: Path) -> Block:
        block = Block()
        for key, item in value.items():
            if not isinstance(key, str) or not _is_unicode(key):
                self._refused(path, f'the key "{shown(key)}" must be text')
            else:
                block[key] = self.copied(item, (*path, key))
        return block

    def _refused(self, path: Path, message: str) -> None:
        self._report.add(Place("", 0), path, message)


def _is_unicode(text: str) -> bool:
    """Tell whether a text has no lone surrogate, which JSON can express and no database can store."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
