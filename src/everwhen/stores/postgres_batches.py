"""A batch as one statement: columns that vary are sent as arrays, constant ones as single values.

Most columns of a batch are the same in every row: the origin, the queue, the revision, empty ones. Unnesting an array
costs the server as much per value as storing it, so only varying columns are unnested. Which columns vary determines
the text of the statement; there are few such variants, and the driver prepares each of them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from everwhen.stores.postgres_adapters import Column, kind_of
from everwhen.stores.records import Row

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
    values = ", ".join(_cast(n, _value(n, varies)) for n, varies in zip(names, varying, strict=True))
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


def _cast(name: str, value: str) -> str:
    return f"{value}::jsonb" if name == "detail" else value


def _source(names: Sequence[str], varying: Sequence[bool]) -> str:
    found = [name for name, varies in zip(names, varying, strict=True) if varies]
    if not found:
        return ""
    arrays, columns = ", ".join(["%s"] * len(found)), ", ".join(f'"{name}"' for name in found)
    return f"FROM unnest({arrays}) AS v({columns})"
