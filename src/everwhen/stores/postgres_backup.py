"""A copy of a PostgreSQL database: an archive of `pg_dump`, which knows more about it than we do.

The program must not be older than the server. It is the one that EVERWHEN_PG_DUMP names, or the first that will do
on the PATH and where distributions put it. The password goes to it through the environment: an argument is seen by
everybody on the machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from everwhen.errors import StoreError, shown
from everwhen.ports.upkeep import Progress

_FOLDERS = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt", "/usr/local/opt", "/usr")


def back_up(url: str, path: Path, version: int, progress: Progress) -> None:
    """Write an archive for pg_restore; StoreError when there is no program for it, or it failed."""
    progress(0.0)
    program = _program(version)
    words = conninfo_to_dict(url)
    password = words.pop("password", None)
    environ = {**os.environ, "PGAPPNAME": "everwhen backup"}
    if password is not None:
        environ["PGPASSWORD"] = str(password)
    command = [program, "--format=custom", "--no-password", f"--file={path}", make_conninfo("", **words)]
    done = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise StoreError(f"pg_dump failed: {shown(done.stderr.strip() or f'exit code {done.returncode}')}")
    progress(1.0)


def _program(version: int) -> str:
    for candidate in _candidates(version):
        if _version_of(candidate) >= version:
            return candidate
    raise StoreError(
        f"a backup of PostgreSQL {version} needs pg_dump {version} or newer, and none was found; "
        "install the client programs (on Debian: postgresql-client), or put the folder of pg_dump on the PATH"
    )


def _candidates(version: int) -> Iterator[str]:
    if named := os.environ.get("EVERWHEN_PG_DUMP"):
        yield named
        return
    if found := shutil.which("pg_dump"):
        yield found
    for folder in _FOLDERS:
        for inner in (f"{version}/bin", f"postgresql@{version}/bin", "bin"):
            program = Path(folder, inner, "pg_dump")
            if program.is_file():
                yield str(program)


def _version_of(program: str) -> int:
    """The major version; 0 for what is no pg_dump."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
        return int(said.split()[2].partition(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0
