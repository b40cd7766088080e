"""Replacing an SQLite database by a backup: the old file stays until the complete new one takes its name.

The copy is built next to the database under another name: checked, migrated, prepared to continue (`flows.restore`)
and synced to disk before it gets the database's name. That last step is one rename, under the lock that every writer
takes, and while no other process is connected: SQLite grants `journal_mode = DELETE` to the last connection only.
That also folds the old file's log, which would otherwise be read as the new one's. A process killed at any point
leaves one of the two files, and perhaps the copy, which is ignored.

A damaged database cannot say which nodes use it. It is kept next to the new one, so that it can be salvaged.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from everwhen.errors import BackupError, MovedError, StoreError, shown
from everwhen.runtime import Progress
from everwhen.store.backup_file import refusal, refuse_newer_backup, refuse_other_kind, usable_rows
from everwhen.store.lanes import Lane
from everwhen.store.restore import Restored, go_on_from_backup, numbers_skipped, refuse_beating
from everwhen.store.schema.migrate import Applied, migrate
from everwhen.store.schema.migrations import SQLITE_MIGRATIONS
from everwhen.store.sqlite.database import SqliteDatabase, usable
from everwhen.store.sqlite.errors import translated
from everwhen.store.sqlite.files import PRIVATE, FileLock, share_like, sync_path
from everwhen.store.sqlite.move import mark_in, own_parts
from everwhen.store.sqlite.transaction import SqliteSnapshot, SqliteStore

_PATIENCE = 10.0
_SUFFIXES = ("", "-wal", "-shm", "-journal", ".lock")
_LOGS = ("-wal", "-shm", "-journal")
_KINDS = ("TABLE", "VIEW", "INDEX", "UNIQUE INDEX", "TRIGGER", "VIRTUAL TABLE")
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def restore(
    database: str | None, path: Path, now: Callable[[], int], *, catch_up: bool, progress: Progress
) -> Restored:
    """Replace the file by a backup; `database` None is memory, which cannot be restored into."""
    if database is None:
        raise StoreError("a database in memory ends with its process; name a file with --database")
    target = Path(usable(database))
    refuse_other_kind(path, is_postgres=False)
    if target.exists() and target.samefile(path):
        raise BackupError(f"{path} is the database itself; name a backup of it", path)
    skipped = _refuse_if_used(target, now())
    growing = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        _make_like(growing, target)
        _copy(path, growing, progress)
        restored = _make_ready(growing, path, now(), catch_up, skipped)
        sync_path(growing)
        lock = FileLock(f"{target}.lock", timeout=_PATIENCE, protects=str(target))
        try:
            with lock:
                _put_in_place(growing, target, now())
        finally:
            lock.close()
        sync_path(target.parent)
    except OSError as error:
        raise BackupError(
            f"{target} cannot be replaced: {error.strerror}; nothing was changed", path
        ) from error
    finally:
        for suffix in _SUFFIXES:
            with suppress(OSError):  # a folder that cannot be written to has none
                Path(f"{growing}{suffix}").unlink(missing_ok=True)
    progress(1.0)
    return restored


# -- the copy --


def _make_like(growing: Path, target: Path) -> None:
    descriptor = os.open(growing, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    try:
        share_like(descriptor, str(target))  # users who share a database continue to share it
    finally:
        os.close(descriptor)


def _copy(path: Path, growing: Path, progress: Progress) -> None:
    """Copy page by page, and check that the copy is complete and belongs to everwhen."""

    def report(_status: int, remaining: int, total: int) -> None:
        progress(0.9 * (1.0 - remaining / total) if total else 0.9)

    try:
        _refuse_cut_off(path)
        with closing(_open_backup(path)) as source, closing(sqlite3.connect(growing)) as copy:
            source.backup(copy, pages=1_000, progress=report, sleep=0)
            _refuse_strange_parts(copy, path)
            (verdict,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise refusal(path, f"is damaged: {shown(verdict)}")
            refuse_newer_backup(_applied(copy, path), SQLITE_MIGRATIONS, path)
            _refuse_moved(copy, path)
            _refuse_triggers(copy, path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in (*_DAMAGED, sqlite3.SQLITE_ERROR):  # the last: a table is missing
            raise refusal(path, f"is damaged: {error}") from error
        where = shown(str(growing.parent))
        raise refusal(path, f"cannot be copied to {where}: {error}") from error


def _open_backup(path: Path) -> sqlite3.Connection:
    """Open the backup for reading only, even in a read-only directory; a log that was left next to it is included."""
    log = path.with_name(f"{path.name}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    fields = "mode=ro" if has_log else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(os.fsencode(path.resolve()))}?{fields}", uri=True)


def _refuse_cut_off(path: Path) -> None:
    """Refuse a truncated file: SQLite reads the missing part as zeros, but the header contains the number of pages."""
    with path.open("rb") as file:
        header = file.read(100)
    page_size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    if len(header) < 100 or path.stat().st_size < (65_536 if page_size == 1 else page_size) * pages:
        raise refusal(path, "is damaged: it ends too soon")


def _refuse_strange_parts(copy: sqlite3.Connection, path: Path) -> None:
    """Refuse a file in which something else has the name of a table or a view of ours.

    A view may take for ever to read, and a virtual table runs code of its module. SQLite goes by the statement, and not
    by the type that stands beside it; it writes statements with these beginnings, and only a forger others.
    """
    ours = {name.lower(): _kind_of(sql) for name, sql in own_parts().items()}
    for name, sql in copy.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall():
        kind = _kind_of(sql)
        if kind is None or ours.get(str(name).lower(), kind) != kind:
            raise refusal(path, f"is damaged: {shown(name)} is not what a backup has under this name")


def _kind_of(sql: object) -> str | None:
    return next((kind for kind in _KINDS if str(sql).startswith(f"CREATE {kind} ")), None)


def _refuse_triggers(copy: sqlite3.Connection, path: Path) -> None:
    """Refuse a file with triggers: they would go on acting in the restored database."""
    found = copy.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TRIGGER %'").fetchone()
    if found is not None:
        raise refusal(path, f"has a trigger, {shown(found[0])}, which everwhen does not make")


def _refuse_other_views(database: SqliteDatabase, path: Path) -> None:
    """Refuse views that are not as the migrations make them."""
    with database.read() as connection:
        views = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'").fetchall())
    for name, sql in own_parts().items():
        if _kind_of(sql) == "VIEW" and views.get(name) != sql:
            raise refusal(path, f"is damaged: its view {name} is not that of any release")


def _refuse_moved(copy: sqlite3.Connection, path: Path) -> None:
    move = mark_in(copy)
    if move is not None:
        raise MovedError(
            f"{path} was copied from a database after that was moved to {move.to}; restore a backup of that one there; "
            "nothing was changed",
            to=move.to,
        )


def _applied(copy: sqlite3.Connection, path: Path) -> Applied:
    if not copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'everwhen_migrations'").fetchall():
        raise refusal(path, "is not a backup of everwhen")
    columns = {name for _, name, *_ in copy.execute("PRAGMA table_info(everwhen_migrations)").fetchall()}
    if not {"number", "step"} <= columns:
        raise refusal(path, "is damaged: its list of migrations cannot be read")
    return frozenset(copy.execute("SELECT number, step FROM everwhen_migrations").fetchall())


def _make_ready(growing: Path, path: Path, now: int, catch_up: bool, skipped: int) -> Restored:
    database = SqliteDatabase(str(growing))
    try:
        with usable_rows(path, sqlite3.Error):
            migrate(database, SQLITE_MIGRATIONS, applied_at=now)
            _refuse_other_views(database, path)
            store = SqliteStore(database)
            restored = store.write(
                Lane.API, lambda tx: go_on_from_backup(tx, now, catch_up=catch_up, skipped=skipped)
            )
    finally:
        database.close()
    if Path(f"{growing}-wal").exists():
        raise StoreError(
            f"the log of {shown(str(growing))} could not be folded; nothing was changed; try again"
        )
    return restored


# -- replacing the file --


def _put_in_place(growing: Path, target: Path, now: int) -> None:
    if not target.exists():
        for suffix in _LOGS:  # of a deleted file; SQLite would take them for the new one's
            Path(f"{target}{suffix}").unlink(missing_ok=True)
        growing.replace(target)
        return
    with translated(str(target)), closing(_connect(target, "rw")) as connection:
        if not _is_ours(connection, target, now):
            _keep_damaged(target)
        growing.replace(target)


def _refuse_if_used(target: Path, now: int) -> int:
    """Refuse early where it can be known, and again when the file is locked; return the numbers skipped so far."""
    if target.exists():
        with suppress(sqlite3.DatabaseError), closing(_connect(target, "ro")) as connection:
            _refuse_live(connection, target, now)
            return numbers_skipped(SqliteSnapshot(connection))
    return 0


def _is_ours(connection: sqlite3.Connection, target: Path, now: int) -> bool:
    """Lock the file, with its log folded and new connections waiting; return False for a damaged file."""
    try:
        _refuse_live(connection, target, now)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode == "delete":
            connection.execute("BEGIN EXCLUSIVE")
            return True
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in _DAMAGED:
            raise
        return False
    raise StoreError(
        f"the database {shown(str(target))} is open in another process; find it with `fuser {shown(str(target))}`, and "
        "stop it; nothing was changed",
        fault="locked",
    )


def _refuse_live(connection: sqlite3.Connection, target: Path, now: int) -> None:
    """Refuse while a node is alive, and where the database was moved to another address: slots would fire on both."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'nodes'").fetchall():
        return
    refuse_beating(SqliteSnapshot(connection).nodes(), now)
    move = mark_in(connection)
    if move is not None:
        raise MovedError(
            f"the database {shown(str(target))} was moved to {move.to}; restore a backup of that one there. To go back "
            "to this file, stop what runs there and start `everwhen up --force` here once; then restore",
            to=move.to,
        )


def _connect(target: Path, mode: str) -> sqlite3.Connection:
    name = quote(os.fsencode(target))
    return sqlite3.connect(f"file:{name}?mode={mode}", uri=True, timeout=1.0, isolation_level=None)


def _keep_damaged(target: Path) -> None:
    kept = target.with_name(f"{target.name}.damaged-{secrets.token_hex(4)}")
    kept.hardlink_to(target)
    for suffix in _LOGS:
        with suppress(FileNotFoundError):
            Path(f"{target}{suffix}").rename(f"{kept}{suffix}")
