"""One readable copy of a file tree, shared by every process that needs it and removed by the last one.

Test workers run in parallel, and a copy of PostgreSQL takes about a second: with a file lock the first one makes it
and the others wait for it. Each user holds the lock shared; a user that can take it exclusively is the last. A copy
that a killed run left is used, and removed, by the next run.
"""

import fcntl
import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from tests.servers.errors import ServerError

# Headers and static libraries: half of the bytes, and unused by a running server.
_NOT_NEEDED = shutil.ignore_patterns("include", "*.a", "__pycache__")


class SharedCopy:
    """Copies of `sources`, side by side in `tree`, readable for every account until `release`."""

    def __init__(self, *sources: Path) -> None:
        self.folder = Path("/tmp") / f"everwhen-{_fingerprint(sources)}"
        self.tree = self.folder / "tree"
        self._unfinished = self.folder / "unfinished"
        self._sources = sources
        self._lock: int | None = self._join()

    def release(self) -> None:
        """Release the copy; the last user removes it."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another process still uses it
        else:
            self._remove()
        finally:
            os.close(lock)

    def _join(self) -> int:
        while (lock := self._try_to_join()) is None:
            pass
        return lock

    def _try_to_join(self) -> int | None:
        """Return the lock, held shared with the copy in place; or None when the caller should try again."""
        lock = self._open_lock()
        if lock is None:
            return None
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits while another process copies
        if self._is_current(lock) and self.tree.exists():
            return lock
        try:
            self._make_if_alone(lock)
        finally:
            os.close(lock)
        return None

    def _make_if_alone(self, lock: int) -> None:
        # Without waiting: the first process to get the lock makes the copy and then keeps the lock until its release.
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_current(lock) and not self.tree.exists():
                self._make()

    def _open_lock(self) -> int | None:
        self.folder.mkdir(mode=0o755, exist_ok=True)
        self._refuse_a_strangers_folder()
        try:
            return os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            return None  # the last user removed the folder between the two calls

    def _refuse_a_strangers_folder(self) -> None:
        # The name can be guessed and /tmp is shared: programs that another user put there are not run.
        found = self.folder.lstat()
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not is_ours:
            raise ServerError(
                f"{self.folder} was not made by this account; remove it and run the tests again"
            )

    def _is_current(self, lock: int) -> bool:
        """Return whether the lock that we hold is still the one that other processes find."""
        try:
            return os.path.samestat(os.fstat(lock), (self.folder / "lock").stat())
        except FileNotFoundError:
            return False

    def _make(self) -> None:
        shutil.rmtree(self._unfinished, ignore_errors=True)
        for source in self._sources:
            shutil.copytree(source, self._unfinished / source.name, ignore=_NOT_NEEDED)
        for path in (self.folder, self._unfinished, *self._unfinished.rglob("*")):
            _open_to_all(path)
        self._unfinished.rename(self.tree)

    def _remove(self) -> None:
        # The rename first: if we are killed here, a partial tree must not count as a complete one.
        self.tree.rename(self._unfinished)
        shutil.rmtree(self._unfinished)
        (self.folder / "lock").unlink()
        with suppress(OSError):  # a new user has already begun to fill it again
            self.folder.rmdir()


def _fingerprint(sources: tuple[Path, ...]) -> str:
    seen = [(str(path.resolve()), path.stat().st_mtime_ns, os.geteuid()) for path in sources]
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:12]


def _open_to_all(path: Path) -> None:
    mode = path.stat().st_mode
    is_runnable = stat.S_ISDIR(mode) or mode & stat.S_IXUSR
    path.chmod(0o755 if is_runnable else 0o644)
