"""Conversion of values to PostgreSQL's binary format and back, without floats or datetimes in between.

An instant is an integer in Python and a timestamptz in PostgreSQL, which on the wire is a whole number of
microseconds since 2000: the two differ by a constant. Each column of a batch is sent as one array, packed in one
call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain, repeat
from struct import Struct, pack

from psycopg import BaseConnection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from everwhen.store.dialect import storable
from everwhen.store.records import Row
from everwhen.store.schema.migrations import column_types

FROM_1970_TO_2000 = 946_684_800_000_000

_INT8 = Struct("!q")
_LENGTH = Struct("!i")
_NULL = _LENGTH.pack(-1)
_TIMESTAMPTZ, _INT8_OID, _TEXT, _BOOL = 1184, 20, 25, 16
_ARRAYS = {_TIMESTAMPTZ: 1185, _INT8_OID: 1016, _TEXT: 1009, _BOOL: 1000}


class At(int):
    """One instant, as a parameter."""


class Column:
    """The values of one column of a batch."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[object]) -> None:
        self.values = values


class Instants(Column):
    """A column of timestamptz."""


class Integers(Column):
    """A column of bigint."""


class Texts(Column):
    """A column of text; characters that PostgreSQL cannot store (NUL, lone surrogates) are replaced."""


class Flags(Column):
    """A column of boolean."""


Kind = type[Column]

_OF_TYPE: dict[str, Kind] = {
    "INSTANT": Instants,
    **dict.fromkeys(("INT", "BIGINT", "NUMBERED"), Integers),
    "FLAG": Flags,
}
_KINDS: dict[str, Kind] = {name: _OF_TYPE.get(type_, Texts) for name, type_ in column_types().items()}
_KINDS["free"] = Integers  # the places of a limit, in a batch


def kind_of(column: str) -> Kind:
    return _KINDS.get(column, Texts)


def columns_of(names: Sequence[str], rows: Sequence[Row]) -> list[Column]:
    """Turn rows into columns, each of the kind that its name has in every table."""
    return [kind_of(name)(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)]


def register(connection: BaseConnection[object]) -> None:
    """Register the adapters for instants and columns on a connection."""
    adapters = connection.adapters
    adapters.register_dumper(At, _AtDumper)
    adapters.register_loader("timestamptz", _InstantLoader)
    for kind, dumper in _DUMPERS.items():
        adapters.register_dumper(kind, dumper)


class _AtDumper(Dumper):
    format = Format.BINARY
    oid = _TIMESTAMPTZ

    def dump(self, obj: At) -> bytes:
        return _INT8.pack(obj - FROM_1970_TO_2000)


class _InstantLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> int:
        found: int = _INT8.unpack(data)[0]
        return found + FROM_1970_TO_2000


def _dumper(oid: int, pack_all: Callable[[Sequence[object]], tuple[bytes, bool]]) -> type[Dumper]:
    class ColumnDumper(Dumper):
        format = Format.BINARY

        def dump(self, obj: Column) -> bytes:
            body, has_null = pack_all(obj.values)
            return pack("!iiIii", 1, has_null, oid, len(obj.values), 1) + body

    ColumnDumper.oid = _ARRAYS[oid]
    return ColumnDumper


def _eight_bytes(shift: int) -> Callable[[Sequence[object]], tuple[bytes, bool]]:
    one = Struct("!iq")

    def pack_all(values: Sequence[object]) -> tuple[bytes, bool]:
        if None in values:
            return b"".join([_NULL if v is None else one.pack(8, v - shift) for v in values]), True  # type: ignore[operator]
        shifted = [v - shift for v in values] if shift else values  # type: ignore[operator]
        return pack("!" + "iq" * len(values), *chain.from_iterable(zip(repeat(8), shifted))), False

    return pack_all


def _texts(values: Sequence[object]) -> tuple[bytes, bool]:
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(_NULL)
            continue
        data = storable(str(value)).encode()
        parts.append(_LENGTH.pack(len(data)))
        parts.append(data)
    return b"".join(parts), None in values


def _flags(values: Sequence[object]) -> tuple[bytes, bool]:
    return b"".join([b"\0\0\0\1\1" if value else b"\0\0\0\1\0" for value in values]), False


_DUMPERS: dict[Kind, type[Dumper]] = {
    Instants: _dumper(_TIMESTAMPTZ, _eight_bytes(FROM_1970_TO_2000)),
    Integers: _dumper(_INT8_OID, _eight_bytes(0)),
    Texts: _dumper(_TEXT, _texts),
    Flags: _dumper(_BOOL, _flags),
}


# A batch as one statement: columns that vary are sent as arrays, constant ones as single values.
#
# Most columns of a batch are the same in every row: the origin, the queue, the revision, empty ones.
# Unnesting an array costs the server as much per value as storing it, so only varying columns are unnested.
# Which columns vary determines the text of the statement; there are few such variants, and the driver
# prepares each of them once.


Statement = tuple[str, list[Column]]


def insert(table: str, names: tuple[str, ...], rows: Sequence[Row]) -> Statement:
    """Return an insert of rows, in their order."""
    varying, values = _columns(names, rows)
    return _insert(table, names, varying), values


def update(table: str, names: tuple[str, ...], rows: Sequence[Row]) -> Statement:
    """Return an update of these columns, for rows whose last value is their row_id."""
    varying, values = _columns((*names, "row_id"), rows)
    return _update(table, names, varying), values


def together(statements: Sequence[Statement]) -> Statement:
    """Combine several independent statements into one."""
    *before, (query, values) = statements
    named = ", ".join(f"part{number} AS ({text})" for number, (text, _) in enumerate(before))
    return f"WITH {named} {query}", [value for _, given in before for value in given] + values


def _columns(names: tuple[str, ...], rows: Sequence[Row]) -> tuple[tuple[bool, ...], list[Column]]:
    """Return which columns vary, and the values of the constant columns followed by those of the varying ones."""
    columns = list(zip(*rows, strict=True))
    is_several = len(rows) > 1
    varying = [is_several and _varies(values) for values in columns]
    if is_several and not any(varying):
        varying[0] = True  # one array has to give the number of rows
    steady = [kind_of(n)(v[:1]) for n, v, varies in zip(names, columns, varying, strict=True) if not varies]
    moving = [kind_of(n)(v) for n, v, varies in zip(names, columns, varying, strict=True) if varies]
    return tuple(varying), [*steady, *moving]


def _varies(values: Row) -> bool:
    first = values[0]
    return values[-1] != first or values.count(first) != len(values)


@cache
def _insert(table: str, names: tuple[str, ...], varying: tuple[bool, ...]) -> str:
    columns = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(
        f"{_value(n, varies)}{'::jsonb' if n == 'detail' else ''}"
        for n, varies in zip(names, varying, strict=True)
    )
    return f"INSERT INTO {table} ({columns}) SELECT {values} {_source(names, varying)}"


@cache
def _update(table: str, names: tuple[str, ...], varying: tuple[bool, ...]) -> str:
    changes = ", ".join(f'"{n}" = {_value(n, varies)}' for n, varies in zip(names, varying, strict=False))
    row_id = _value("row_id", varying[-1])
    # The condition comes before the source in the text only where nothing varies, so the order of values is right.
    source = _source((*names, "row_id"), varying)
    return f"UPDATE {table} s SET {changes} {source} WHERE s.row_id = {row_id}"


def _value(name: str, varies: bool) -> str:
    return f'v."{name}"' if varies else "(%s)[1]"


def _source(names: Sequence[str], varying: Sequence[bool]) -> str:
    found = [name for name, varies in zip(names, varying, strict=True) if varies]
    if not found:
        return ""
    arrays, columns = ", ".join(["%s"] * len(found)), ", ".join(f'"{name}"' for name in found)
    return f"FROM unnest({arrays}) AS v({columns})"
