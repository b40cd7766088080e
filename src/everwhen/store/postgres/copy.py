"""The PostgreSQL database that an installation is moved to: everything arrives in one transaction, or nothing.

The tables are locked before anything is read. So whatever an earlier attempt sent has been committed or rolled back
by then, and a node that starts meanwhile waits until everything is there.

Commit order: events and messages get the number of this transaction, so they are in the order of their ids, as
on SQLite, and before everything that is committed here later. The sequences continue behind the highest number that
was ever assigned, so cursors of subscribers and streams stay valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from struct import Struct, error
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import Connection
from psycopg.sql import SQL, Composed, Identifier

from everwhen.errors import CopyError, UncertainCopyError, shown
from everwhen.model.vitals import Move, Received, ReplacedText
from everwhen.runtime import Progress
from everwhen.store.dialect import storable
from everwhen.store.postgres.adapters import FROM_1970_TO_2000, At
from everwhen.store.postgres.database import PostgresDatabase
from everwhen.store.sqlite.move import SourceSchema, SqliteTable

COPIED = "copied_from"  # the setting with the id of the copy

# A large table takes longer than any statement of a node may; and the source may pause between two pieces.
_BEGIN = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
_COLUMNS = """
SELECT a.attname, t.typname, a.attidentity <> ''
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_SET_APPLIED = "UPDATE everwhen_migrations SET applied_at = %s WHERE number = %s AND step = %s"
_LINE = re.compile(r"^COPY \w+, \D*(\d+)", re.MULTILINE)  # "line" in the server's language


class _Column(NamedTuple):
    name: str
    type: str
    is_identity: bool


class PostgresCopyTarget:
    """The target of a copy; its schema exists."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def receive(self, move: Move, source: SourceSchema, progress: Progress) -> Received:
        """Write every row and the id of the copy, in one transaction.

        First checks, with every table locked, whether this copy exists already. Raises CopyError where the target has
        other rows or a row cannot be written, and UncertainCopyError where it is unknown whether the commit took
        place.
        """
        with self._database.connection() as connection, _transaction(connection, self._database.where):
            names = SQL(", ").join([Identifier(table.name) for table in source.tables])
            connection.execute(SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(names))
            copied = connection.execute("SELECT value FROM settings WHERE key = %s", (COPIED,)).fetchone()
            if copied is not None and json.loads(copied[0])["copy_id"] == move.copy_id:
                counts = {table.name: _number(connection, "count(*)", table) for table in source.tables}
                return Received(counts, (), 0, source.foreign, is_new=False)
            _refuse_rows(connection, source.tables, self._database.where)
            return _write_all(connection, move, source, progress)


@contextmanager
def _transaction(connection: Connection[Any], where: str) -> Iterator[None]:
    """Commit at the end of the block; a commit without a response is an UncertainCopyError."""
    try:
        connection.execute(_BEGIN)
        yield
    except BaseException:
        with suppress(psycopg.Error):  # a lost connection has nothing to roll back
            connection.execute("ROLLBACK")
        raise
    try:
        connection.execute("COMMIT")
    except BaseException as error:
        raise UncertainCopyError(
            f"the database {where} did not answer the commit ({shown(str(error).strip())}), so the copy may be there "
            "or not; run the same command again, and start nothing before it has ended"
        ) from error


def _number(connection: Connection[Any], value: LiteralString | Composed, table: SqliteTable) -> int:
    of = SQL(value) if isinstance(value, str) else value
    query = SQL("SELECT {} FROM {}").format(of, Identifier(table.name))
    return int(connection.execute(query).fetchall()[0][0])


def _refuse_rows(connection: Connection[Any], tables: Sequence[SqliteTable], where: str) -> None:
    for table in tables:
        query = SQL("SELECT 1 FROM {} LIMIT 1").format(Identifier(table.name))
        if connection.execute(query).fetchone() is not None:
            raise CopyError(
                f"the database {where} is not empty: its table {table.name} has rows; name an empty database, or drop "
                "this one and create it again"
            )


def _write_all(connection: Connection[Any], move: Move, source: SourceSchema, progress: Progress) -> Received:
    rows: dict[str, int] = {}
    replaced: list[ReplacedText] = []
    replaced_count = 0
    counted = _counting(progress, sum(table.count for table in source.tables))
    for table in source.tables:
        columns = _columns(connection, table)
        packer = TablePacker(table, [columns[name].type for name in table.columns])
        _write_table(connection, table, packer, counted)
        rows[table.name] = table.count
        replaced += packer.replaced
        replaced_count += packer.replaced_count
        _set_sequences(connection, table, columns)
        connection.execute(SQL("ANALYZE {}").format(Identifier(table.name)))
    for (number, step), at in source.migrated.items():
        connection.execute(_SET_APPLIED, (At(at), number, step))
    fields = json.dumps({"copy_id": move.copy_id, "at": move.at})
    connection.execute("INSERT INTO settings (key, value) VALUES (%s, %s)", (COPIED, fields))
    return Received(rows, replaced[:MOST_NAMED], replaced_count, source.foreign, is_new=True)


def _columns(connection: Connection[Any], table: SqliteTable) -> dict[str, _Column]:
    found = {row[0]: _Column._make(row) for row in connection.execute(_COLUMNS, (f'"{table.name}"',))}
    missing = [name for name in table.columns if name not in found]
    if missing:
        raise CopyError(f"the target has no column {table.name}.{missing[0]}; migrate both with this release")
    return found


def _counting(progress: Progress, total: int) -> Callable[[int], None]:
    done = 0

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        progress(done / total if total else 1.0)

    return count


def _write_table(
    connection: Connection[Any], table: SqliteTable, packer: TablePacker, counted: Callable[[int], None]
) -> None:
    names = SQL(", ").join([Identifier(name) for name in table.columns])
    statement = SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(Identifier(table.name), names)
    cursor = connection.cursor()
    try:
        with closing(table.rows()) as rows, cursor.copy(statement) as copy:
            for data, count in packer.chunks(rows):
                copy.write(data)
                counted(count)
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise _refused(error, table, packer) from error
    if cursor.rowcount != table.count:
        raise CopyError(f"{cursor.rowcount} of {table.count} rows of {table.name} arrived; nothing was kept")


def _refused(error: psycopg.Error, table: SqliteTable, packer: TablePacker) -> CopyError:
    line = _LINE.search(error.diag.context or "")
    with closing(table.rows()) as rows:
        row = next(islice(rows, int(line[1]) - 1, None), None) if line else None
    which = "a row" if row is None else f"the row {packer.key_of(row)}"
    return CopyError(
        f"{which} of {table.name} cannot be copied: {shown(str(error.diag.message_primary))}; correct or delete it, "
        "then try again"
    )


def _set_sequences(connection: Connection[Any], table: SqliteTable, columns: dict[str, _Column]) -> None:
    for column in columns.values():
        if not column.is_identity:
            continue
        last = SQL("coalesce(max({}), 0)").format(Identifier(column.name))
        highest = max(_number(connection, last, table), table.last_number())
        if highest:
            connection.execute(
                "SELECT setval(pg_get_serial_sequence(%s, %s), %s)", (f'"{table.name}"', column.name, highest)
            )


# Rows of SQLite in the binary format of PostgreSQL's COPY: exact, without floats or datetimes in between.
#
# Texts arrive as bytes. What PostgreSQL cannot store is replaced as in other writes (`storable`) and recorded
# with its row; a value that does not fit its column is a CopyError that names table, row and column.


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
            pairs = zip(self._packs, row, strict=True)
            packed = [_NULL if value is None else pack(value) for pack, value in pairs]
            return _FIELDS.pack(len(row)) + b"".join(packed)
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
    try:
        value.decode()
    except UnicodeDecodeError:
        raise _Unstorable from None
    if b"\0" in value:
        raise _Unstorable
    return _sized(value)


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


_PACKS: dict[str, Pack] = {
    "int4": lambda value: _INT4.pack(4, value),
    "int8": lambda value: _INT8.pack(8, value),
    "timestamptz": lambda value: _INT8.pack(8, value - FROM_1970_TO_2000),
    "bool": _FLAGS.__getitem__,
    "text": _text,
    "jsonb": _jsonb,
    "bytea": _sized,
}
_CLEAN: dict[str, Callable[[bytes], bytes]] = {"text": _clean_text, "jsonb": _clean_json}
