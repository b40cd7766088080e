"""A directory as a work source: one file per item, claimed by moving it.

    inbox/fix-login.md                        can be claimed, in order of names
    inbox/claimed/{job}.{attempt}/fix-login.md  in progress
    inbox/done/ , inbox/failed/               ended

The worker that claims an item holds an exclusive flock on its file until the work ends. The kernel releases the lock
when the process ends, however it ends: so a claimed file without a lock is a dead claim, and is offered again. This
needs no clock, no heartbeat and no cleanup; in return, all workers of one inbox must run on one machine and use a
local file system.

The lock decides a race between two claims; the loser finds the lock held, or the file gone. Files whose name begins
with a dot are not items: write such a file first, then rename it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from everwhen.errors import ConfigError
from everwhen.model.host_fault import host_fault_of
from everwhen.model.work_item import WorkItem, WorkOutcome, item_of

LARGEST_ITEM = 1024 * 1024
CLAIMED, DONE, FAILED = "claimed", "done", "failed"


class DirectorySource:
    """The items of one directory."""

    def __init__(self, path: str | Path) -> None:
        self._root = Path(path)
        self._held: dict[str, int] = {}
        self._lock = threading.Lock()

    def fetch_available(self, *, limit: int = 10) -> list[WorkItem]:
        claimed = sorted((self._root / CLAIMED).glob("*/*"))
        dead = [path for path in claimed if _is_item(path) and not _is_locked(path)]
        waiting = sorted(path for path in self._root.iterdir() if _is_item(path))
        items = (self._read(path) for path in (*dead, *waiting))
        return list(islice((item for item in items if item is not None), limit))

    def claim(self, item_id: str, *, by: str) -> WorkItem | None:
        source = self._path(item_id)
        try:
            descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if host_fault_of(error) is not None:
                raise
            return None  # claimed or removed since it was listed
        destination = self._root / CLAIMED / by / source.name
        try:
            claimed = _take(descriptor, source, destination)
        except BaseException:
            os.close(descriptor)
            raise
        if not claimed:
            os.close(descriptor)
            return None
        try:
            item = self._read(destination)
            assert item is not None
        except BaseException:  # without its lock it is a dead claim, and is offered again
            os.close(descriptor)
            raise
        with self._lock:
            self._held[item.id] = descriptor
        return item

    def complete(self, item_id: str, outcome: WorkOutcome) -> None:
        self._leave(item_id, self._root / (DONE if outcome.status == "success" else FAILED))

    def release(self, item_id: str, *, reason: str) -> None:
        self._leave(item_id, self._root)

    def get(self, item_id: str) -> WorkItem | None:
        return self._read(self._path(item_id))

    def _leave(self, item_id: str, folder: Path) -> None:
        """Move a claimed file to a folder, then release its lock; a file that cannot be moved becomes a dead claim."""
        source = self._path(item_id)
        with self._lock:
            descriptor = self._held.pop(item_id, None)
        try:
            folder.mkdir(exist_ok=True)
            _move_into(source, folder, source.parent.name)
            with contextlib.suppress(OSError):
                source.parent.rmdir()
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _path(self, item_id: str) -> Path:
        path = (self._root / item_id).resolve()
        if not path.is_relative_to(self._root.resolve()):
            raise ValueError(f'"{item_id}" is not an item of {self._root}')
        return self._root.resolve() / path.relative_to(self._root.resolve())

    def _read(self, path: Path) -> WorkItem | None:
        try:
            with path.open("rb") as file:
                text = file.read(LARGEST_ITEM).decode(errors="replace")
        except OSError as error:
            if host_fault_of(error) is not None:  # it is there all the same
                raise
            return None
        fields = _fields_of(path, text)
        return item_of(
            {**fields, "id": str(path.resolve().relative_to(self._root.resolve()))}, source="directory"
        )


def open_directory(fields: Mapping[str, Any]) -> DirectorySource:
    """Open `{type: directory, path: inbox}`; the directory must exist, or a typo would be an empty inbox."""
    path = fields.get("path")
    if not isinstance(path, str) or not path:
        raise ConfigError("work_source: a directory needs a path")
    if not Path(path).is_dir():
        raise ConfigError(f'work_source: there is no directory "{path}"; create it first')
    return DirectorySource(path)


def _fields_of(path: Path, text: str) -> dict[str, Any]:
    """Return the fields of an item: those in a `.json` file; any other file is the description, titled by its name."""
    named: dict[str, Any] = {"external_id": path.name, "title": path.stem}
    if path.suffix == ".json":
        with contextlib.suppress(ValueError):
            document = json.loads(text)
            if isinstance(document, dict):
                return {**named, **document}
    return {**named, "description": text}


def _take(descriptor: int, source: Path, destination: Path) -> bool:
    """Lock the file, then rename it; return False when another worker has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    destination.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not _is_same(descriptor, source):
            return False  # the path refers to another file since it was opened
        source.rename(destination)
    except FileNotFoundError:
        return False
    if not _is_same(descriptor, destination):
        destination.rename(source)  # another file replaced it just before the rename: move that one back
        return False
    return True


def _is_same(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), path.stat())


def _is_item(path: Path) -> bool:
    return not path.name.startswith(".") and path.is_file() and not path.is_symlink()


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if host_fault_of(error) is not None:
            raise
        return True  # gone meanwhile
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: checks do not block each other
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _move_into(source: Path, folder: Path, by: str) -> None:
    """Move a file into a folder without ever replacing an existing file."""
    destination = folder / source.name
    try:
        os.link(source, destination)
    except FileExistsError:
        source.rename(folder / f"{by}.{source.name}")  # `by` is unique
        return
    source.unlink()
