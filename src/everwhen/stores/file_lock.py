"""An exclusive lock between the processes of one machine: flock on a file that is never deleted.

The kernel releases the lock when its last descriptor closes, so a process that is killed leaves none behind. Three
things would break that, and are handled here:

- A child made by fork (without exec) shares the description, and with it the lock: a parent killed during a write would
  leave the lock to a child that does not use it. The child closes its copy.
- A program started by exec would inherit the descriptor. It is opened close-on-exec.
- The file is deleted. Later processes would lock another file of the same name. So a process that has obtained the lock
  checks that its file still has a name, and otherwise takes the new one.

Python cannot wait for flock with a timeout (only a signal ends the wait, and only in the main thread), so a contended
lock is polled, with pauses that are short compared to another process's turn.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import weakref

from everwhen.errors import StoreError, shown
from everwhen.stores.private_files import PRIVATE, share_like

_SHORTEST_PAUSE = 0.0001
_LONGEST_PAUSE = 0.002
_NOT_OPEN = -1


class FileLock:
    """The lock as a context manager, for one thread at a time; StoreError when it is not free in time."""

    def __init__(self, path: str, *, timeout: float, beside: str | None = None) -> None:
        """Open the lock file. `beside`: the file that the lock is for, whose owner and mode it gets."""
        self.path = path
        self._beside = beside
        self.timeout = timeout
        self._descriptor = self._open()
        _open_locks.add(self)

    def __enter__(self) -> None:
        if self._is_taken():
            return
        deadline = time.monotonic() + self.timeout
        pause = _SHORTEST_PAUSE
        while not self._is_taken():
            if time.monotonic() >= deadline:
                raise StoreError(self._timed_out(), fault="locked")
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._descriptor != _NOT_OPEN:
            os.close(self._descriptor)
            self._descriptor = _NOT_OPEN

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if os.fstat(self._descriptor).st_nlink:
            return True
        self.close()
        self._descriptor = self._open()
        return False

    def _open(self) -> int:
        # Read access is enough for flock, so any user who may read the file may prevent every write.
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            if self._beside is not None:
                share_like(descriptor, self._beside)
            return descriptor
        except OSError as error:
            raise StoreError(
                f"the lock {shown(self.path)} cannot be opened ({error.strerror}); "
                "see that this user may write in its directory, and that the lock is this user's",
                fault="read_only" if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else None,
            ) from error

    def _timed_out(self) -> str:
        return (
            f"the lock {shown(self.path)} was held by another process for {self.timeout:g} seconds; "
            f"find it with `fuser {shown(self.path)}`, and let it finish or end it"
        )


_open_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _close_inherited() -> None:
    for lock in list(_open_locks):
        lock.close()


os.register_at_fork(after_in_child=_close_inherited)
