"""The file format of a PostgreSQL backup: rows as the server writes them, table by table, compressed.

It is a gzip stream, so that at the latest the checksum reveals a truncated or altered file. Its first line is JSON:
the format, when it was taken, and which migrations the schema had. Then each table has a line with its name and
columns, and its rows in pieces, each preceded by its length; a length of 0 ends the table. The last line contains the
number of tables. This module does not depend on a database.
"""

from __future__ import annotations

import gzip
import json
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeGuard

from everwhen.errors import BackupError, MovedError, SchedulerError, StoreError, shown
from everwhen.model.instants import END
from everwhen.store.schema.migrate import Applied, Migration, is_readable

FORMAT = 1
_COMPRESSION = 3  # a quarter of the size at the speed of a disk; higher levels are slow for little gain
_PIECE = 1 << 18
_MOST = 1 << 30  # PostgreSQL has no larger field, and the writer writes no larger piece
_LONGEST_LINE = 1 << 20
_UNUSABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_SQLITE, _PG_DUMP, _GZIP = b"SQLite format 3\0", b"PGDMP", b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a backup. `applied`: number and step of each migration that its schema has."""

    taken_at: int
    version: str
    applied: frozenset[tuple[int, str]]


class TableRows(NamedTuple):
    """One table: its name, its columns, and its rows in pieces, to be read before the next table."""

    name: str
    columns: Sequence[str]
    pieces: Iterator[bytes]


class BackupWriter:
    """A writer of a backup into an empty file; the backup is complete after an exit without an error."""

    def __init__(self, path: Path, header: Header) -> None:
        self._file = gzip.GzipFile(path, "wb", compresslevel=_COMPRESSION)
        self._tables = 0
        self._line(
            {
                "everwhen_backup": FORMAT,
                "taken_at": header.taken_at,
                "version": header.version,
                "applied": sorted(header.applied),
            }
        )

    def __enter__(self) -> BackupWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._line({"tables": self._tables})
        self._file.close()

    def write_table(self, name: str, columns: Sequence[str], rows: Iterator[bytes]) -> None:
        self._tables += 1
        self._line({"table": name, "columns": list(columns)})
        pending = bytearray()
        for row in rows:
            pending += row
            if len(pending) >= _PIECE:
                self._piece(bytes(pending))
                pending.clear()
        if pending:
            self._piece(bytes(pending))
        self._piece(b"")

    def _piece(self, data: bytes) -> None:
        self._file.write(b"%d\n" % len(data) + data)

    def _line(self, fields: dict[str, Any]) -> None:
        self._file.write(json.dumps(fields).encode() + b"\n")


class BackupReader:
    """A reader of a backup from beginning to end, once; BackupError for other files, and for incomplete ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._raw = path.open("rb")
        except OSError as error:
            raise BackupError(f"{path} cannot be read: {error.strerror}", path) from error
        self._file = gzip.GzipFile(fileobj=self._raw)

    def __enter__(self) -> BackupReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._raw.close()

    def header(self) -> Header:
        fields = self._line()
        if "everwhen_backup" not in fields:
            self._refuse("is not a backup of everwhen")
        number = fields["everwhen_backup"]
        if type(number) is not int or number < FORMAT:
            self._refuse("is damaged: its first line names no format")
        if number > FORMAT:
            self._refuse("was written by a newer release of everwhen; restore it with that one")
        taken_at, version, applied = (fields.get(key) for key in ("taken_at", "version", "applied"))
        if type(taken_at) is not int or not 0 <= taken_at < END:
            self._refuse("is damaged: its first line does not say when it was taken")
        if not isinstance(version, str) or not _are_steps(applied):
            self._refuse("is damaged: its first line does not say which schema it has")
        return Header(taken_at, version, frozenset((number, step) for number, step in applied))

    def tables(self) -> Iterator[TableRows]:
        count = 0
        while "table" in (fields := self._line()):
            count += 1
            name, columns = fields["table"], fields.get("columns")
            if not isinstance(name, str) or not _are_names(columns):
                self._refuse("is damaged: the line of a table does not name its columns")
            pieces = self._pieces()
            yield TableRows(name, columns, pieces)
            for _ in pieces:
                pass  # skip what the caller did not read
        if fields != {"tables": count} or self._read(1):
            self._refuse("is damaged: its end does not fit")

    def _pieces(self) -> Iterator[bytes]:
        """Yield the rows of a table, never much at once: a forged length must not fill the memory."""
        while length := self._length():
            while length:
                data = self._read(min(length, _PIECE))
                if not data:
                    self._refuse("is damaged: it ends too soon")
                length -= len(data)
                yield data

    def _length(self) -> int:
        text = self._read_line()
        if not text.isdigit() or len(text) > len(str(_MOST)) or int(text) > _MOST:
            self._refuse("is damaged: the length of a piece is not a number")
        return int(text)

    def _line(self) -> dict[str, Any]:
        try:
            fields = json.loads(self._read_line())
        except (ValueError, RecursionError):
            self._refuse("is damaged: a line of it cannot be read")
        if not isinstance(fields, dict):
            self._refuse("is damaged: a line of it says nothing")
        return fields

    def _read_line(self) -> bytes:
        line = self._checked(lambda: self._file.readline(_LONGEST_LINE))
        if not line.endswith(b"\n"):
            self._refuse("is damaged: it ends too soon")
        return line.rstrip(b"\n")

    def _read(self, length: int) -> bytes:
        return self._checked(lambda: self._file.read(length))

    def _checked(self, read: Any) -> bytes:
        try:
            data: bytes = read()
        except (OSError, EOFError, zlib.error) as error:
            self._refuse(f"is damaged: {error}", error)
        return data

    def _refuse(self, what: str, cause: BaseException | None = None) -> NoReturn:
        raise refusal(self._path, what) from cause


@contextmanager
def usable_rows(path: Path, *database_errors: type[Exception]) -> Iterator[None]:
    """Raise BackupError for rows that this release cannot go on with, although the file can be read.

    A checksum shows an accident, not a forgery, and SQLite has none. `database_errors` are those that rows cause, as
    opposed to a full disk or a lost connection, which are not the backup's fault.
    """
    expected: tuple[type[Exception], ...] = (SchedulerError, *_UNUSABLE, *database_errors)
    try:
        yield
    except BackupError:
        raise
    except expected as error:
        if isinstance(error, MovedError) or (isinstance(error, StoreError) and error.fault is not None):
            raise
        cause = error.__cause__ if isinstance(error, StoreError) and error.__cause__ else error
        said = shown(str(cause) or type(cause).__name__)
        raise refusal(path, f"is damaged: its rows cannot be used ({said})") from error


def refusal(path: Path, what: str) -> BackupError:
    """Return the error about a file that is refused before anything was changed."""
    advice = "; restore another backup" if what.startswith("is damaged") else ""
    return BackupError(f"{path} {what}{advice}; nothing was changed", path)


def refuse_newer_backup(applied: Applied, migrations: Sequence[Migration], path: Path) -> None:
    """Raise BackupError for a schema that this release does not know, or that no release has written."""
    is_sound = all(type(number) is int and step in ("before", "after") for number, step in applied)
    newest = max((number for number, _ in applied), default=0) if is_sound else 0
    known = migrations[-1].number
    if not is_readable(applied, known):
        what = f"is at migration {newest}, and this release knows {known}; restore it with the newer release"
        raise refusal(path, what)
    if not is_sound or not _is_possible(applied, [migration.number for migration in migrations]):
        raise refusal(path, "is damaged: its list of migrations is not that of any release")


def _is_possible(applied: Applied, known: Sequence[int]) -> bool:
    """Return whether some release could have applied these steps: in order, none left out, `before` first."""
    before = {number for number, step in applied if step == "before"}
    after = {number for number, step in applied if step == "after"}
    ours = sorted(number for number in before if number <= known[-1])
    return bool(ours) and ours == list(known[: len(ours)]) and after <= before


def _are_steps(applied: Any) -> TypeGuard[list[tuple[int, str]]]:
    return isinstance(applied, list) and all(
        isinstance(pair, list) and [type(part) for part in pair] == [int, str] for pair in applied
    )


def _are_names(columns: Any) -> TypeGuard[list[str]]:
    is_list = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    return is_list and 0 < len(columns) == len(set(columns))


def refuse_other_kind(path: Path, *, is_postgres: bool) -> None:
    """Raise BackupError for a file whose beginning shows that it is not a backup of that kind of database."""
    try:
        # A pipe would be waited for, for ever.
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise refusal(path, "is not a file")
        with path.open("rb") as file:
            beginning = file.read(len(_SQLITE))
    except OSError as error:
        raise refusal(path, f"cannot be read: {error.strerror}") from error
    if beginning.startswith(_PG_DUMP):
        what = (
            "is an archive of pg_dump, as an earlier release made it; restore it with pg_restore into an empty "
            "database, back that up with `everwhen db backup`, and restore the copy"
        )
    elif beginning == _SQLITE and is_postgres:
        what = (
            "is a backup of SQLite, and the database is PostgreSQL; restore it into an SQLite file, and move "
            "that with `everwhen db copy`"
        )
    elif beginning.startswith(_GZIP) and not is_postgres:
        what = "is a backup of PostgreSQL, and the database is SQLite; name one of PostgreSQL with --database"
    elif not beginning.startswith(_GZIP if is_postgres else _SQLITE):
        what = "is not a backup of everwhen"
    else:
        return
    raise refusal(path, what)
