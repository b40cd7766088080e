"""The files of an SQLite database: the lock, their permissions, their file system, the length of the log.

An exclusive lock between the processes of one machine: flock on a file that is never deleted.

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
import re
import stat
import time
import weakref
from contextlib import suppress
from pathlib import Path, PurePosixPath

from everwhen.errors import StoreError, shown

_SHORTEST_PAUSE = 0.0001
_LONGEST_PAUSE = 0.002
_NOT_OPEN = -1


class FileLock:
    """The lock as a context manager, for one thread at a time; StoreError when it is not free in time."""

    def __init__(self, path: str, *, timeout: float, protects: str | None = None) -> None:
        """Open the lock file. `protects`: the file that the lock is for, whose owner and mode it gets."""
        self.path = path
        self._protects = protects
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
                raise StoreError(
                    f"the lock {shown(self.path)} was held by another process for {self.timeout:g} seconds; "
                    f"find it with `fuser {shown(self.path)}`, and let it finish or end it",
                    fault="locked",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def touch(self) -> None:
        """Notify those who watch the file: the holder of the lock has written something."""
        with suppress(OSError):  # a file of another user: the others look by themselves, a little later
            os.utime(self._descriptor)

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
            if self._protects is not None:
                share_like(descriptor, self._protects)
            return descriptor
        except OSError as error:
            raise StoreError(
                f"the lock {shown(self.path)} cannot be opened ({error.strerror}); "
                "see that this user may write in its directory, and that the lock is this user's",
                fault="read_only" if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else None,
            ) from error


_open_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _close_inherited() -> None:
    for lock in list(_open_locks):
        lock.close()


os.register_at_fork(after_in_child=_close_inherited)


# File permissions of an SQLite database: only its owner may read the files.
#
# They contain payloads, hashes of tokens and the output of jobs. Moreover a user who can read the database or
# its lock can lock them, which stops every write. SQLite gives its log and its shared memory the mode of the
# database, so it is enough to create that one first. Files of an earlier release, or of another program, are
# tightened if this user owns them. A database of another owner keeps its mode: that is how several users
# share one, and its lock gets the same mode.
#
# Nothing of the database is opened in here: closing a descriptor of it would drop the locks that SQLite holds
# there.


PRIVATE = 0o600
_SUFFIXES = ("", "-wal", "-shm", "-journal")


def make_private(path: str) -> None:
    """Create a missing database for its owner alone, and tighten the files of one that this user owns."""
    with suppress(OSError):  # SQLite reports what is wrong with the path, and its error is translated
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
    for suffix in _SUFFIXES:
        with suppress(OSError):
            found = os.lstat(path + suffix)
            is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
            if is_ours and stat.S_IMODE(found.st_mode) & ~PRIVATE:
                os.chmod(path + suffix, PRIVATE)  # noqa: PTH101 - like lstat


def share_like(descriptor: int, path: str) -> None:
    """Give an open file the owner, group and mode of another, as far as this user may."""
    try:
        wanted, found = os.stat(path), os.fstat(descriptor)  # noqa: PTH116
    except OSError:
        return
    mode = stat.S_IMODE(wanted.st_mode) & 0o666
    if (found.st_uid, found.st_gid) != (wanted.st_uid, wanted.st_gid):
        _change_owner(descriptor, wanted)
    if stat.S_IMODE(found.st_mode) != mode:
        with suppress(OSError):
            os.fchmod(descriptor, mode)


def _change_owner(descriptor: int, wanted: os.stat_result) -> None:
    # Only root may change the owner; a member of the group may set the group.
    for owner in (wanted.st_uid, -1):
        with suppress(OSError):
            os.fchown(descriptor, owner, wanted.st_gid)
            return


# The file system of a path, and the refusal of network file systems.
#
# SQLite coordinates its WAL through shared memory, and everwhen through flock: neither works between two
# machines, and a database damaged that way is noticed weeks later. The check works on Linux; on other systems
# nothing is refused.


NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs"}
    | {"fuse.beegfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.davfs", "fuse.davfs2", "fuse.gcsfuse"}
    | {"fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.mount.glusterfs", "fuse.nfs", "fuse.rclone"}
    | {"fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs"}
)

_MOUNTINFO = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


def refuse_network_file_system(path: str, mounts: Path = _MOUNTINFO) -> None:
    if not mounts.exists():
        return
    kind = file_system_of(path, mounts.read_text(errors="surrogateescape"))
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(network_refusal(path, kind))


def network_refusal(path: str, kind: str) -> str:
    return (
        f"the database {shown(path)} lies on a network file system ({kind}), "
        "where the locks of SQLite do not hold; put it on a local disk, or use PostgreSQL (postgresql://…)"
    )


def file_system_of(path: str, mountinfo: str) -> str:
    """Return the type of the mount that contains an absolute, resolved path; empty when the text names none.

    >>> file_system_of("/srv/a.db", "27 1 254:0 / / rw - ext4 /dev/vda rw\\n30 27 0:5 / /srv rw - nfs4 h: rw")
    'nfs4'
    """
    deepest, kind = -1, ""
    for mount in mountinfo.splitlines():
        before, separator, after = mount.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = PurePosixPath(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # Not only deeper but equally deep: a later mount on the same point covers the earlier one.
        if len(point.parts) >= deepest and PurePosixPath(path).is_relative_to(point):
            deepest, kind = len(point.parts), after.split(" ")[0]
    return kind


# The length of the write-ahead log, determined by two short reads of the file itself.
#
# The file size does not show it: SQLite starts again at the front of the file once all of it has been copied
# back into the database, and does not shorten it (overwriting old frames costs a third less than appending,
# as fsync has no new length to record). But each frame contains the salts of the generation that wrote it,
# and the file's header those of the current one: where a frame's salts equal the header's, the log reaches at
# least that far. See https://sqlite.org/fileformat2.html#walformat. Only the -wal file may be opened like
# this; closing a descriptor of the database or its -shm file would drop the locks that SQLite holds on them.


_HEADER = 32
_FRAME_HEADER = 24


class WalGauge:
    """A check whether the log has outgrown a size since the last checkpoint; never raises."""

    def __init__(self, database: str) -> None:
        self._path = database + "-wal"
        self._descriptor = _NOT_OPEN
        self._generation = b""
        self._folded_frames = 0

    def outgrows(self, size: int) -> bool:
        try:
            return self._outgrows(size)
        except OSError:  # for example no free descriptors: a checkpoint can wait until there are some
            return False

    def fold_seen(self, frames: int) -> None:
        """Record that a checkpoint ended with so many frames in the log.

        If a reader prevented it from emptying the log, the next attempt is worthwhile when the log has grown again,
        not after every write.
        """
        self._folded_frames = frames

    def close(self) -> None:
        if self._descriptor != _NOT_OPEN:
            os.close(self._descriptor)
            self._descriptor = _NOT_OPEN

    def _outgrows(self, size: int) -> bool:
        if self._descriptor == _NOT_OPEN:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        header = os.pread(self._descriptor, _HEADER, 0)
        salts = header[16:24]
        if salts != self._generation:
            self._generation, self._folded_frames = salts, 0
        frame_size = _FRAME_HEADER + int.from_bytes(header[8:12], "big")
        frame = self._folded_frames + size // frame_size
        found = os.pread(self._descriptor, 8, _HEADER + frame * frame_size + 8)
        return found == salts and len(found) == 8


def sync_path(path: Path) -> None:
    """Write a file to the disk, or the entries of a directory, before returning."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
