"""The files of a database are their owner's alone, whatever the umask says."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).parent / "everwhen")
NOBODY = 65_534
# The interpreter may lie in root's home: it is started, and becomes another user then.
BECOME = """
import fcntl, os, sqlite3, sys
if sys.argv[2] != "0":
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
"""
# A process with an open database that was written to, so that log and shared memory are there.
OPENED = f"""
from everwhen.store.sqlite.database import Lane, open_sqlite
{BECOME}
database = open_sqlite("sqlite:///" + sys.argv[1])
database.write(Lane.API, lambda connection: connection.execute("CREATE TABLE IF NOT EXISTS a (b)"))
with database.read() as connection:
    connection.execute("SELECT count(*) FROM a").fetchone()
for name in sorted(os.listdir(os.path.dirname(sys.argv[1]))):
    print(name, oct(os.stat(os.path.join(os.path.dirname(sys.argv[1]), name)).st_mode & 0o777))
database.close()
"""
FLOCK = f"{BECOME}\nfcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may look into, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="everwhen-private-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def modes_when_opened(path: Path, *, umask: int = 0o022, user: int = 0) -> dict[str, str]:
    done = run_as(user, OPENED, path, umask=umask)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ") for line in done.stdout.splitlines())


def run_as(user: int, program: str, path: Path, *, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    fields = [sys.executable, "-c", program, str(path), str(user)]
    return subprocess.run(fields, umask=umask, capture_output=True, text=True, check=False)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_database_log_shared_memory_and_lock_are_the_owners(folder: Path, umask: int) -> None:
    found = modes_when_opened(folder / "a.db", umask=umask)
    assert found == dict.fromkeys(["a.db", "a.db-shm", "a.db-wal", "a.db.lock"], "0o600")


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_files_of_an_earlier_release_are_tightened(folder: Path, umask: int) -> None:
    modes_when_opened(folder / "a.db", umask=umask)
    for name in ("a.db", "a.db.lock"):
        (folder / name).chmod(0o666)
    assert set(modes_when_opened(folder / "a.db", umask=umask).values()) == {"0o600"}


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_the_commands_leave_nothing_for_others_to_read(folder: Path, umask: int) -> None:
    database = f"sqlite:///{folder}/a.db"
    for fields in (["migrate"], ["backup", str(folder / "copy.db")]):
        subprocess.run(
            [COMMAND, "db", *fields, "--database", database],
            umask=umask,
            cwd=folder,
            check=True,
            capture_output=True,
        )
    assert {path.name: mode_of(path) for path in folder.iterdir()} == {
        "a.db": 0o600,
        "a.db.lock": 0o600,
        "copy.db": 0o600,
    }


@as_root
def test_a_stranger_cannot_lock_the_database(folder: Path) -> None:
    modes_when_opened(folder / "a.db", umask=0)
    for name in ("a.db", "a.db.lock"):
        done = run_as(NOBODY, FLOCK, folder / name)
        assert "PermissionError" in done.stderr
    with (folder / "a.db.lock").open() as lock:  # the owner can, so the attempt was a real one
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@as_root
def test_root_leaves_the_lock_to_the_owner_of_the_database(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)
    modes_when_opened(folder / "a.db", user=NOBODY)
    (folder / "a.db.lock").unlink()
    modes_when_opened(folder / "a.db")
    assert (folder / "a.db.lock").stat().st_uid == NOBODY
    modes_when_opened(folder / "a.db", user=NOBODY)


@as_root
def test_a_database_that_another_user_shares_keeps_its_mode_and_so_does_its_lock(folder: Path) -> None:
    folder.chmod(0o777)
    modes_when_opened(folder / "a.db")
    (folder / "a.db").chmod(0o666)
    (folder / "a.db.lock").unlink()
    assert modes_when_opened(folder / "a.db", user=NOBODY)["a.db.lock"] == "0o666"


def test_a_link_in_the_place_of_a_log_is_not_followed(folder: Path) -> None:
    modes_when_opened(folder / "a.db")
    other = folder / "other"
    other.write_text("")
    other.chmod(0o644)
    (folder / "a.db-journal").symlink_to(other)
    run_as(0, OPENED, folder / "a.db")
    assert mode_of(other) == 0o644
