"""The one connection of this process that writes and checkpoints; it does not interpret what is written.

The protocol
------------
A turn takes the mutex of this process (by lane), then the flock on `{database}.lock`, then runs BEGIN IMMEDIATE, the
work, COMMIT, and perhaps a checkpoint, and releases both locks. Nothing writes, checkpoints, opens or closes a writing
connection without the flock. So on one machine a checkpoint never runs at the same time as a write of another
connection, which is what the WAL-reset bug of SQLite before 3.51.3 needs to damage a file
(https://sqlite.org/wal.html#walresetbug). Readers take none of these locks; they use SQLite's snapshots, and cannot
write.

What happens when a process dies
- Killed while waiting: nothing was begun.
- Killed between BEGIN and COMMIT: the kernel frees the flock; the frames in the log lack their commit mark, so the next
  connection does not see them. Nothing of the transaction remains.
- Killed after COMMIT: the log is on disk (synchronous=FULL); everything remains.
- Killed in a checkpoint: the pages are still in the log, and the next checkpoint copies them again.
- Stopped, not killed (SIGSTOP, a debugger): it keeps the flock. The others fail after the busy timeout, with the name
  of the lock, and their writers stay usable. An API caller waits only a few seconds, and one second while the file is
  known to be locked: callers occupy threads, and those are few.
- A COMMIT that fails in fsync: the writer raises and the transaction is not visible. Should the machine then lose power
  at once, the log may turn out to be complete nevertheless. A caller that retries needs keys that allow a repetition.

Checkpoints
-----------
A checkpoint costs about 15 ms for a log of 4 MB and 75 ms for 64 MB, where pages occur more than once. It is therefore
left to quiet moments: after an isolated write (not a tick, no thread waits, the previous write ended a while ago), or
when the engine is idle and calls `fold`. During a burst the log grows to 64 MB before a checkpoint runs. The checkpoint
is PASSIVE: it waits for no reader, and copies what no reader still needs. Its failure does not fail the write, which is
committed; the error is kept in `checkpoint_error`.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TypeVar

from everwhen.errors import StoreError, shown
from everwhen.store.lanes import Lane, LaneMutex
from everwhen.store.sqlite.connection import GIVES_SPACE_BACK, connect_memory, connect_writer
from everwhen.store.sqlite.errors import breaks_connection, is_read_only, store_error, translated
from everwhen.store.sqlite.files import FileLock, WalGauge, make_private

T = TypeVar("T")

FOLD_WHEN_QUIET = 4 << 20
FOLD_AT_ONCE = 64 << 20
QUIET_SECONDS = 0.02  # since the previous write
CALLER_WAITS, CALLER_WAITS_LOCKED = 4.0, 1.0  # seconds, for a turn and once more for the lock


class SqliteWriter:
    """Turns on one connection, one after the other, by lane."""

    def __init__(
        self,
        connection: FileConnection | MemoryConnection,
        *,
        on_read_only: Callable[[], None] = lambda: None,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_commit` is called in the turn, when rows that it changed can be seen; it must not raise.

        It is not called for heartbeats: nobody waits for them, and they would wake every idle node of the file.
        """
        self.commits = 0
        self.checkpoint_error: StoreError | None = None
        self._home = connection
        self._on_read_only = on_read_only
        self._on_commit = on_commit
        self._mutex = LaneMutex()
        self._is_closed = False
        self._is_locked = False  # the last turn failed, perhaps because another process has the file locked
        self._ended_at = 0.0
        self._was_read_only = False  # the last transaction failed because the database is read-only

    @property
    def queue_length(self) -> int:
        """Return how many requests wait for their turn at this moment."""
        return self._mutex.queue_length

    def write(self, lane: Lane, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._turn(lane):
            quiet_seconds = time.monotonic() - self._ended_at
            result = self._transact(work, is_news=lane is not Lane.HEARTBEAT)
            came_alone = quiet_seconds >= QUIET_SECONDS and not self._mutex.queue_length
            self._fold_beyond(FOLD_WHEN_QUIET if came_alone and lane is not Lane.TICK else FOLD_AT_ONCE)
            self._ended_at = time.monotonic()
            return result

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection]:
        """Open a snapshot on the writer's own connection, read-only like any other: for a database in memory."""
        with self._turn(Lane.API):
            connection = self._home.get()
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
                connection.execute("PRAGMA query_only = OFF")

    def fold(self) -> None:
        """Checkpoint if it is worth it, behind every other request."""
        with self._turn(Lane.RETENTION):
            self._fold_beyond(FOLD_WHEN_QUIET)

    def rewrite(self, check: Callable[[sqlite3.Connection], None]) -> int:
        """Rewrite the file without its free pages, if `check` does not raise; return its size.

        It is one long turn: no other process writes meanwhile.
        """
        with self._turn(Lane.API):
            connection = self._home.get()
            check(connection)
            connection.execute(GIVES_SPACE_BACK)
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            return int(pages * size)

    def close(self) -> None:
        """Close after the requests that wait already; later ones are refused."""
        self._mutex.acquire(Lane.RETENTION)
        try:
            if not self._is_closed:
                self._is_closed = True
                self._home.close()
        finally:
            self._mutex.release()

    @contextmanager
    def _turn(self, lane: Lane) -> Iterator[None]:
        self._take(lane)
        try:
            if self._is_closed:
                raise StoreError(f"the database {self._home.where} was closed; open it again to use it")
            self._home.wait_at_most(self._patience if lane is Lane.API else float("inf"))
            with self._watched(), self._home.lock, translated(self._home.where):
                yield
        finally:
            self._mutex.release()

    def _take(self, lane: Lane) -> None:
        if not self._mutex.acquire(lane, within=self._patience if lane is Lane.API else -1):
            raise StoreError(
                f"the database {self._home.where} is busy with other writes, or another program keeps it locked; "
                "try again in a moment",
                fault="locked",
            )

    @property
    def _patience(self) -> float:
        return CALLER_WAITS_LOCKED if self._is_locked else CALLER_WAITS

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Record whether the file could be written to; a turn that failed with any other error counts as success."""
        try:
            yield
        except StoreError:
            self._is_locked = True
            raise
        except BaseException:
            self._is_locked = False
            raise
        self._is_locked = False

    def _transact(self, work: Callable[[sqlite3.Connection], T], *, is_news: bool) -> T:
        if self._was_read_only:
            self._on_read_only()
        connection = self._home.get()
        rows_before = connection.total_changes
        try:
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            if not connection.in_transaction:
                raise StoreError(
                    "the work ended the writer's transaction itself, so that it was not one piece; "
                    "leave out commit, rollback and executescript, and raise to undo"
                )
            connection.execute("COMMIT")
        except BaseException as error:
            self._undo(connection, error)
            raise
        self.commits += 1
        if is_news and connection.total_changes != rows_before:
            self._on_commit()
        self._was_read_only = False
        return result

    def _undo(self, connection: sqlite3.Connection, error: BaseException) -> None:
        try:
            if connection.in_transaction:  # a full disk, for example, has already ended it
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._home.discard()
        else:
            if breaks_connection(error):
                self._home.discard()
        self._was_read_only = is_read_only(error)

    def _fold_beyond(self, size: int) -> None:
        if not self._home.log_outgrows(size):
            return
        try:
            self._home.fold_log()
        except sqlite3.Error as error:
            self.checkpoint_error = store_error(error, self._home.where)
        else:
            self.checkpoint_error = None


# The connection of the writer, and its storage: a file with its lock and its log, or memory.
#
# It owns opening, reopening after damage, and closing. `store.sqlite.writer` decides when to write or to
# checkpoint. All of it but `lock`, `wait_at_most` and `close` needs the lock.


class FileConnection:
    """A writing connection to a file, reopened after an error that broke it."""

    def __init__(self, path: str, *, busy_timeout: float) -> None:
        self.where = shown(path)
        self._path = path
        self._busy_timeout = busy_timeout
        self._patience = self._timeout_set = busy_timeout  # as wanted, and as set on the connection
        self._gauge = WalGauge(path)
        make_private(path)
        self.lock = FileLock(path + ".lock", timeout=busy_timeout, protects=path)
        try:
            with self.lock, translated(self.where):
                self._connection: sqlite3.Connection | None = connect_writer(path, busy_timeout, create=True)
                self._identity = _identity(path)  # under the lock: no restore can replace the file
        except BaseException:
            self.lock.close()
            raise

    def wait_at_most(self, seconds: float) -> None:
        """Set how long the next turn waits for a lock on the file; never longer than the busy timeout."""
        self._patience = self.lock.timeout = min(seconds, self._busy_timeout)

    def get(self) -> sqlite3.Connection:
        # SQLite would continue to write to a file that no longer has a name, and every commit would be lost.
        if _identity(self._path) != self._identity:
            raise StoreError(
                f"the database {self.where} was deleted, moved or replaced while it was open; "
                "put it back, or restart every process that uses it"
            )
        if self._connection is None:
            self._connection = connect_writer(self._path, self._busy_timeout, create=False)
            self._timeout_set = self._busy_timeout
        if self._timeout_set != self._patience:
            self._connection.execute(f"PRAGMA busy_timeout = {round(self._patience * 1_000)}")
            self._timeout_set = self._patience
        return self._connection

    def discard(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        self._gauge.close()

    def log_outgrows(self, size: int) -> bool:
        return self._gauge.outgrows(size)

    def fold_log(self) -> None:
        _, frames, _ = self.get().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._gauge.fold_seen(frames)

    def close(self) -> None:
        # Under the lock, because the last connection to close checkpoints once more and deletes the log. Where the
        # lock cannot be obtained, another process is working; SQLite leaves the log alone while that one is
        # connected.
        with suppress(StoreError), self.lock:
            self._empty_log()
            self.discard()
        self.discard()
        self.lock.close()

    def _empty_log(self) -> None:
        if self._connection is None:
            return
        with suppress(sqlite3.Error):  # another process reads it: the last one to close will empty it
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


class MemoryConnection:
    """A database inside its connection, which is therefore kept whatever error occurs.

    No other connection can reach the data: it ends with `close`, or with the last reference to this object.
    """

    def __init__(self) -> None:
        self.where = "in memory"
        self.lock = nullcontext()
        self._connection = connect_memory()
        # Not at the end of the program: threads that nobody stopped still use the connection then, and SQLite crashes
        # when it is closed in the middle of a call.
        weakref.finalize(self, self._connection.close).atexit = False

    def wait_at_most(self, seconds: float) -> None:
        pass

    def get(self) -> sqlite3.Connection:
        return self._connection

    def discard(self) -> None:
        pass

    def log_outgrows(self, size: int) -> bool:
        return False

    def fold_log(self) -> None:
        pass

    def close(self) -> None:
        self._connection.close()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - called at every write; Path.stat costs twice as much
    except OSError:
        return None
    return status.st_dev, status.st_ino
