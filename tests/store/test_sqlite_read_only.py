"""A file that may only be read for a while is written to again, by the same process, as soon as that is over (G3)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from everwhen.errors import StoreError
from everwhen.store.lanes import Lane
from everwhen.store.sqlite.database import SqliteDatabase
from tests.servers.account import account_for_postgres


@pytest.fixture
def path() -> Iterator[Path]:
    """A file of an ordinary user: root may write to everything."""
    account, before = account_for_postgres(), os.geteuid()
    with TemporaryDirectory() as folder:
        account.take_over(Path(folder))
        if account.user is not None:
            os.seteuid(account.user)
        try:
            yield Path(folder) / "everwhen.db"
        finally:
            os.seteuid(before)


def permit(path: Path, mode: int) -> None:
    for suffix in ("", "-wal", "-shm"):
        file = Path(f"{path}{suffix}")
        if file.exists():
            file.chmod(mode)


def note(database: SqliteDatabase, text: str) -> None:
    database.write(Lane.API, lambda c: c.execute("INSERT INTO notes VALUES (?)", (text,)))


def noted(database: SqliteDatabase) -> list[str]:
    with database.read() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM notes")]


@pytest.mark.parametrize("is_read", [False, True], ids=["nobody reads", "somebody reads"])
@pytest.mark.parametrize("failures", [1, 3])
def test_a_file_that_was_read_only_for_a_while_is_written_again(
    path: Path, is_read: bool, failures: int
) -> None:
    database = SqliteDatabase(str(path))
    database.write(Lane.API, lambda c: c.execute("CREATE TABLE notes (text)"))
    note(database, "before")
    permit(path, 0o444)
    with pytest.raises(Exception, match="closed database"):
        database.write(Lane.API, lambda c: c.close())  # as after a disk that failed: another has to be opened
    for _ in range(failures):
        with pytest.raises(StoreError, match="may only be read"):
            note(database, "lost")
        if is_read:
            assert noted(database) == ["before"]
            database.change_counter()
    permit(path, 0o644)
    note(database, "after")
    assert noted(database) == ["before", "after"]
    database.close()
