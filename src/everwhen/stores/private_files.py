"""File permissions of an SQLite database: only its owner may read the files.

They contain payloads, hashes of tokens and the output of jobs. Moreover a user who can read the database or its lock
can lock them, which stops every write. SQLite gives its log and its shared memory the mode of the database, so it is
enough to create that one first. Files of an earlier release, or of another program, are tightened if this user owns
them. A database of another owner keeps its mode: that is how several users share one, and its lock gets the same
mode.

Nothing of the database is opened in here: closing a descriptor of it would drop the locks that SQLite holds there.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

PRIVATE = 0o600
_SUFFIXES = ("", "-wal", "-shm", "-journal")


def make_private(path: str) -> None:
    """Create a missing database for its owner alone, and tighten the files of one that this user owns."""
    with suppress(OSError):  # SQLite reports what is wrong with the path, and its error is translated
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
    for suffix in _SUFFIXES:
        with suppress(OSError):
            _tighten(path + suffix)


def _tighten(path: str) -> None:
    found = os.lstat(path)
    is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    if is_ours and stat.S_IMODE(found.st_mode) & ~PRIVATE:
        os.chmod(path, PRIVATE)  # noqa: PTH101 - like lstat


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
    for owner in (
        wanted.st_uid,
        -1,
    ):  # only root may change the owner; a member of the group may set the group
        with suppress(OSError):
            os.fchown(descriptor, owner, wanted.st_gid)
            return
