"""The meaning of SQLite's errors and their remedies: StoreError with the original as its cause.

A violated constraint (IntegrityError) passes unchanged, because the store handles it; so do the errors that only a
mistake in our own code can raise (ProgrammingError, InterfaceError). A trigger that refuses is not a violated
constraint: only a database that was moved has such triggers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from everwhen.errors import StoreError, StoreFault

_PRIMARY = 0xFF
_PASSED_ON = (sqlite3.IntegrityError, sqlite3.ProgrammingError)

_REMEDIES = {
    sqlite3.SQLITE_BUSY: "another program keeps it locked; let it (a shell, a backup?) end its transaction",
    sqlite3.SQLITE_LOCKED: "a query on the same connection is unfinished; read to its end first",
    sqlite3.SQLITE_NOMEM: "there is not enough memory; free some",
    sqlite3.SQLITE_READONLY: "it may only be read here; writes need a turn of the writer, and permission "
    "to write to the file and its directory",
    sqlite3.SQLITE_IOERR: "the disk fails to read or write; look at the kernel's log and at the space left",
    sqlite3.SQLITE_CORRUPT: "it is damaged; stop every process that uses it, and restore a backup or salvage "
    "it with `sqlite3 FILE .recover`",
    sqlite3.SQLITE_FULL: "there is no room left, and nothing of the transaction was kept; free some space, "
    "and the next write will work",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; see that its directory exists and can be written to",
    sqlite3.SQLITE_PERM: "this user may not use it; give it read and write permission",
    sqlite3.SQLITE_AUTH: "this user may not use it; give it read and write permission",
    sqlite3.SQLITE_PROTOCOL: "its locks do not work; put it on a local disk",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; name another file, or move this one away",
}
_FAULTS: dict[int, StoreFault] = {
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_PERM: "read_only",
    sqlite3.SQLITE_CANTOPEN: "away",
}
_UNKNOWN_REMEDY = "if this release is newer than the database, run `everwhen db migrate`; otherwise report it"

# After these errors a connection is unreliable: it is closed, and the next request opens another. With BUSY_SNAPSHOT
# a forgotten cursor ties the connection to an old snapshot; closing ends it. A connection that was opened while the
# file was read-only stays read-only: SQLite accepts the access it gets, and does not try again.
_BREAKING = frozenset(
    {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOTADB,
    }
)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn SQLite's errors into StoreError; `where` names the database in the message."""
    try:
        yield
    except _PASSED_ON as error:
        if is_refusal(error):
            raise StoreError(f"the database {where}: {error}", fault="moved") from error
        raise
    except sqlite3.DatabaseError as error:
        raise store_error(error, where) from error


def store_error(error: sqlite3.Error, where: str) -> StoreError:
    code = _code(error) & _PRIMARY
    remedy = _REMEDIES.get(code, _UNKNOWN_REMEDY)
    return StoreError(f"the database {where} answered “{error}”: {remedy}", fault=_FAULTS.get(code))


def is_refusal(error: sqlite3.Error) -> bool:
    """Return whether the database was moved (`store.sqlite.move`) and refuses changes."""
    return _code(error) == sqlite3.SQLITE_CONSTRAINT_TRIGGER


def breaks_connection(error: BaseException) -> bool:
    if not isinstance(error, sqlite3.Error):
        return False
    code = _code(error)
    return code == sqlite3.SQLITE_BUSY_SNAPSHOT or code & _PRIMARY in _BREAKING


def is_read_only(error: BaseException) -> bool:
    """Return whether the connection, or the memory that it shares with others of this process, is read-only."""
    return isinstance(error, sqlite3.Error) and _code(error) & _PRIMARY == sqlite3.SQLITE_READONLY


def _code(error: sqlite3.Error) -> int:
    # Errors that Python's module raises by itself have no code.
    return getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR
