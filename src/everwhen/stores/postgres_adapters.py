"""Conversion of values to PostgreSQL's binary format and back, without floats or datetimes in between.

An instant is an integer in Python and a timestamptz in PostgreSQL, which on the wire is a whole number of
microseconds since 2000: the two differ by a constant. Each column of a batch is sent as one array, packed in one
call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from struct import Struct, pack

from psycopg import BaseConnection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from everwhen.stores.records import Row
from everwhen.stores.storable import storable

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

_INSTANTS = """
anchor_at next_slot_at next_run_at held_slot_at held_due_at held_since release_at last_slot_at last_fired_at
last_run_at last_completed_at last_success_at skip_first_at skip_last_at resume_at created_at updated_at slot_at
due_at not_before started_at deadline_at ended_at released_at ready_at opened_at at in_force_at hour day
expires_at revoked_at handed_over_at""".split()
_INTEGERS = """
row_id revision fire_count outstanding running_jobs waiting retries_waiting current_repeat current_retry run_count
error_count skip_count schedule_row number retry attempt rescues capacity_limit fence slot_count failure_count
running hour_fires day_fires widest deliveries failed_slots numbers_skipped free""".split()
_FLAGS = "is_ready is_counted is_probe cancel_requested".split()
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(_INSTANTS, Instants),
    **dict.fromkeys(_INTEGERS, Integers),
    **dict.fromkeys(_FLAGS, Flags),
}


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


def _array(oid: int, count: int, body: bytes, has_null: bool) -> bytes:
    return pack("!iiIii", 1, has_null, oid, count, 1) + body


def _dumper(oid: int, pack_all: Callable[[Sequence[object]], tuple[bytes, bool]]) -> type[Dumper]:
    class ColumnDumper(Dumper):
        format = Format.BINARY

        def dump(self, obj: Column) -> bytes:
            body, has_null = pack_all(obj.values)
            return _array(oid, len(obj.values), body, has_null)

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
