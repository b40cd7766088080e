"""A backup of the whole database, in a file that is either complete or absent."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from everwhen.errors import BackupError
from everwhen.runtime import Progress, Runtime
from everwhen.stores.opened import store_of


def back_up(
    runtime: Runtime, path: Path, *, may_replace: bool = False, progress: Progress = lambda _share: None
) -> int:
    """Copy the database to `path` while it is in use; return the size in bytes.

    The copy is written under a temporary name, readable by its owner only, and renamed when it is completely on disk.
    """
    if path.is_dir():
        raise BackupError(f"{path} is a directory; name the file that is to be written", path)
    if path.exists() and not path.is_file():
        raise BackupError(f"{path} is a pipe, a device or a socket; name a file that is to be written", path)
    if path.exists() and not may_replace:
        raise BackupError(f"{path} exists already; name another file, or use --force", path)
    growing = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        growing.touch(mode=0o600, exist_ok=False)
        store_of(runtime).upkeep.backup(growing, progress)
        _sync(growing)
        _put_in_place(growing, path, may_replace)
        _sync(path.parent)
        return path.stat().st_size
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}; nothing was changed", path) from error
    finally:
        for suffix in ("", "-journal"):
            with suppress(OSError):  # a folder that cannot be written to has none
                Path(f"{growing}{suffix}").unlink(missing_ok=True)


def _put_in_place(growing: Path, path: Path, may_replace: bool) -> None:
    if may_replace:
        growing.replace(path)
        return
    try:
        path.hardlink_to(growing)  # unlike a rename, a link fails if the name was taken meanwhile
    except FileExistsError as error:
        raise BackupError(f"{path} exists already; name another file, or use --force", path) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
