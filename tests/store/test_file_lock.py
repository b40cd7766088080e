"""The lock between processes. Two locks on one path exclude each other in one process, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.errors import StoreError
from everwhen.store.sqlite.files import FileLock


def test_a_held_lock_is_refused_after_the_timeout_with_its_name_and_what_to_do(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    held, wanted = FileLock(path, timeout=1), FileLock(path, timeout=0.01)
    with (
        held,
        pytest.raises(StoreError, match=r"a\.lock was held by another process for 0\.01 seconds.*fuser"),
        wanted,
    ):
        pass
    with wanted:
        pass
    held.close()
    wanted.close()


def test_whoever_gets_the_lock_of_a_deleted_file_takes_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    older = FileLock(str(path), timeout=1)
    path.unlink()
    newer = FileLock(str(path), timeout=0.01)
    with older, pytest.raises(StoreError), newer:
        pass
    older.close()
    newer.close()


def test_a_lock_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be opened \(No such file or directory\)"):
        FileLock(str(tmp_path / "missing" / "a.lock"), timeout=1)
