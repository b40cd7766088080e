"""Rows of SQLite in the binary format of PostgreSQL's COPY: exact, without floats or datetimes in between.

Texts arrive as bytes. What PostgreSQL cannot store is replaced as in other writes (`storable`) and recorded with its
row; a value that does not fit its column is a CopyError that names table, row and column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct, error
from typing import Any

from everwhen.errors import CopyError, shown
from everwhen.model.database_copy import ReplacedText
from everwhen.stores.postgres_adapters import FROM_1970_TO_2000
from everwhen.stores.sqlite_move import SqliteTable
from everwhen.stores.storable import storable

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
CHUNK = 256 << 10
MOST_NAMED = 100

_FIELDS = Struct("!h")
_LENGTH = Struct("!i")
_NULL = _LENGTH.pack(-1)
_INT4, _INT8 = Struct("!ii"), Struct("!iq")
_FLAGS = {0: b"\0\0\0\1\0", 1: b"\0\0\0\1\1"}
_JSONB = b"\1"

Pack = Callable[[Any], bytes]


class TablePacker:
    """A packer for the rows of one table; `replaced` are the first texts that had to be changed."""

    def __init__(self, table: SqliteTable, types: Sequence[str]) -> None:
        self.replaced: list[ReplacedText] = []
        self.replaced_count = 0
        self._table = table
        self._types = types
        unknown = [column for column, kind in zip(table.columns, types, strict=True) if kind not in _PACKS]
        if unknown:
            raise CopyError(f"the copy does not know the type of the column {table.name}.{unknown[0]}")
        self._packs = [_PACKS[kind] for kind in types]

    def chunks(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[bytes, int]]:
        """Yield pieces of the stream, each with the number of its rows; no more than one is in memory."""
        buffer, count = bytearray(HEADER), 0
        for row in rows:
            buffer += self._pack(row)
            count += 1
            if len(buffer) >= CHUNK:
                yield bytes(buffer), count
                buffer, count = bytearray(), 0
        yield bytes(buffer) + TRAILER, count

    def _pack(self, row: tuple[Any, ...]) -> bytes:
        try:
            return _FIELDS.pack(len(row)) + b"".join(
                [
                    _NULL if value is None else pack(value)
                    for pack, value in zip(self._packs, row, strict=True)
                ]
            )
        except _Unstorable:
            return self._pack(self._replace(row))  # the replaced row contains nothing unstorable
        except (error, TypeError, KeyError, ValueError):
            raise self._misfit(row) from None

    def _replace(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            return tuple([self._replaced_value(index, value, row) for index, value in enumerate(row)])
        except ValueError:  # not valid JSON at all
            raise self._misfit(row) from None

    def _replaced_value(self, index: int, value: Any, row: tuple[Any, ...]) -> Any:
        clean = _CLEAN.get(self._types[index])
        if clean is None or value is None:
            return value
        found = clean(value)
        if found != value:
            self.replaced_count += 1
            if len(self.replaced) < MOST_NAMED:
                self.replaced.append(
                    ReplacedText(self._table.name, self.key_of(row), self._table.columns[index])
                )
        return found

    def _misfit(self, row: tuple[Any, ...]) -> CopyError:
        for column, kind, pack, value in zip(self._table.columns, self._types, self._packs, row, strict=True):
            try:
                if value is not None:
                    pack(value)
            except _Unstorable:
                pass
            except (error, TypeError, KeyError, ValueError):
                return CopyError(
                    f"the row {self.key_of(row)} of {self._table.name} cannot be copied: its {column} is "
                    f"“{shown(_readable(value))}”, which is not of the type {kind}; correct or delete it, "
                    "then try again"
                )
        return CopyError(f"the row {self.key_of(row)} of {self._table.name} cannot be copied")

    def key_of(self, row: tuple[Any, ...]) -> str:
        """Return the key of a row as text, to name it."""
        values = dict(zip(self._table.columns, row, strict=True))
        return shown(", ".join(f"{name} {_readable(values[name])}" for name in self._table.key))


class _Unstorable(Exception):  # noqa: N818 - not an error: the text is replaced
    """A text that PostgreSQL cannot store."""


def _readable(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _sized(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _text(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError
    if b"\0" in value or not (value.isascii() or _is_valid(value)):
        raise _Unstorable
    return _sized(value)


def _is_valid(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _clean_text(value: bytes) -> bytes:
    return storable(value.decode("utf-8", "replace")).encode()


def _jsonb(value: object) -> bytes:
    text = _text(value)[4:]
    # The only escapes that may be something else than a character: NUL, and halves of surrogate pairs.
    if (b"\\u0000" in text or b"\\ud" in text.lower()) and _clean_json(text) != text:
        raise _Unstorable
    return _sized(_JSONB + text)


def _clean_json(value: bytes) -> bytes:
    text = _clean_text(value)
    document = json.loads(text)
    clean = _cleaned(document)
    return text if clean == document else json.dumps(clean, ensure_ascii=False).encode()


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    if isinstance(value, dict):
        return {storable(key): _cleaned(one) for key, one in value.items()}
    return value


def _bytea(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError
    return _sized(value)


_PACKS: dict[str, Pack] = {
    "int4": lambda value: _INT4.pack(4, value),
    "int8": lambda value: _INT8.pack(8, value),
    "timestamptz": lambda value: _INT8.pack(8, value - FROM_1970_TO_2000),
    "bool": _FLAGS.__getitem__,
    "text": _text,
    "jsonb": _jsonb,
    "bytea": _bytea,
}
_CLEAN: dict[str, Callable[[bytes], bytes]] = {"text": _clean_text, "jsonb": _clean_json}
