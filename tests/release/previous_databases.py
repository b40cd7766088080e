"""Writes the databases that `test_upgrade.py` upgrades: `python -m tests.release.previous_databases`.

Processes of the previous release, taken from the history, fill a SQLite file and a PostgreSQL database. Both are stored
as SQL, so that the upgrade is part of every run of the tests, and needs no history. The files of earlier releases stay.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

from tests.environment import without_settings
from tests.servers.postgres import PostgresServer
from tests.servers.previous_release import RELEASE, install_previous_release

FOLDER = Path(__file__).parent / "databases"
CONFIG = """
service: {check_interval: 1s}
quiet_hours: {nearly-always: {windows: [{between: "00:00-23:58"}], action: defer}}
schedules:
  - {id: tick, every: 1h, catch_up: run_once, run: {command: [echo, tock]}}
  - {id: nightly, cron: "0 2 * * *", timezone: Europe/Paris, max_retries: 3, run: {command: ["true"]}}
  - {id: once, after: 1s, run: {command: ["true"]}}
  - {id: held, every: 24h, quiet_hours: nearly-always, run: {command: ["true"]}}
  - {id: retried, every: 24h, max_retries: 3, retry_delay: 6h, run: {command: ["false"]}}
  - {id: words, every: 1h, run: {message: {text: "still here", thread_id: family}}}
  - {id: paused, every: 1h, first_run: after_interval, run: {command: ["true"]}}
"""


def fill(python: Path, url: str, folder: Path) -> None:
    """Run a node of the previous release until everything of the file has happened once."""
    (folder / "everwhen.yaml").write_text(CONFIG)
    environ = {**without_settings(), "EVERWHEN_DATABASE": url}

    def everwhen(*words: str) -> None:
        command = [str(python), "-c", "from everwhen.cli.main import main; main()", *words]
        subprocess.run(command, cwd=folder, env=environ, check=True, timeout=60)

    command = [str(python), "-c", "from everwhen.cli.main import main; main()", "up"]
    node = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)
    assert node.stderr is not None
    ended = 0
    while ended < 3:  # tick, once, and the first attempt of retried
        line = node.stderr.readline()
        assert line
        ended += any(word in line for word in ("succeeded", "failed"))
    everwhen("schedules", "pause", "paused", "--note", "holidays")
    everwhen("token", "create", "kept", "--role", "viewer")
    node.terminate()
    node.communicate(timeout=60)


def write_sqlite(python: Path, folder: Path) -> None:
    fill(python, f"sqlite:///{folder}/e.db", folder)
    with closing(sqlite3.connect(folder / "e.db")) as connection:
        (FOLDER / f"sqlite-{RELEASE}.sql").write_text("\n".join(connection.iterdump()) + "\n")


def write_postgres(python: Path, folder: Path) -> None:
    with PostgresServer(16) as server:
        url = server.fresh_database()
        fill(python, url, folder)
        program = str(server.bin_folder / "pg_dump")
        command = [program, "--inserts", "--no-owner", "--no-privileges", url]
        dump = subprocess.run(
            command, capture_output=True, text=True, check=True, env=dict(os.environ)
        ).stdout
    kept = [line for line in dump.splitlines() if line and not line.startswith(("--", "\\"))]
    (FOLDER / f"postgres-{RELEASE}.sql").write_text("\n".join(kept) + "\n")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for write in (write_sqlite, write_postgres):
        with tempfile.TemporaryDirectory() as folder:
            write(install_previous_release(Path(folder) / "release"), Path(folder))


if __name__ == "__main__":
    main()
