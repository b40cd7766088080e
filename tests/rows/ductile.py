"""An installation of Ductile's kind on disk: a configuration file, folders of plugins with real programs, a database.

The clock is stepped by hand; nothing but these files outlives a restart.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from everwhen.config.read import Host, read_configuration
from everwhen.engine.running import run_of
from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import to_datetime
from everwhen.model.outcome import Outcome
from everwhen.operations.apply import reload
from everwhen.operations.groups import restore_valid_schedules
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.store.sqlite.database import path_of
from everwhen.target_registry import open_target_registry
from everwhen.targets.plugin import PluginTarget
from everwhen.testing import manual_scheduler
from everwhen.wiring import is_postgres, plugins_in
from tests.targets.plugins import put_plugin

POLLS = '#!/bin/sh\ncat >>"$0.ran"\necho >>"$0.ran"\necho \'{"status": "ok"}\'\n'
FAILS = '#!/bin/sh\ncat >>"$0.ran"\necho >>"$0.ran"\necho \'{"status": "error", "error": "no luck"}\'\n'


def requests_to(plugins: Path, name: str) -> list[dict[str, Any]]:
    """What the program of a plugin was really told, one after another."""
    ran = plugins / name / "run.sh.ran"
    return [json.loads(line) for line in ran.read_text().splitlines() if line] if ran.exists() else []


def load_file(file: Path, runtime: Runtime) -> None:
    """Read it as it is now, and bring the database to what it says."""
    host = Host({}, lambda: "UTC", runtime.clock.now(), plugins_in)
    reload(runtime, lambda: read_configuration(file, host).declared)


class DuctileNode:
    """One node on those files: it reads them when it starts, and runs its jobs as processes."""

    def __init__(
        self, folder: Path, file: str, *, start: str = "2026-01-05T08:00:00Z", url: str | None = None
    ) -> None:
        self.folder = folder
        self.plugins = folder / "plugins"
        self.url = url or f"sqlite:///{folder}/ductile.db"
        for name in ("withings", "garmin"):
            put_plugin(self.plugins, name=name, program=POLLS)
        self.scheduler = manual_scheduler(start, database=self.url, outcome=self._run)
        self.clock = self.scheduler.clock
        (folder / "everwhen.yaml").write_text(file)
        self._take_file()

    def load(self, file: str) -> None:
        """Write the file anew, and reload it."""
        (self.folder / "everwhen.yaml").write_text(file)
        self._take_file()

    def restart(self) -> None:
        """The process is gone without a word, and another one starts on what is on disk."""
        self.scheduler.restart()
        self._take_file()

    def close(self) -> None:
        report = self.scheduler.check()
        self.scheduler.close()
        assert report.is_clean, report

    def _take_file(self) -> None:
        runtime = store_of(self.scheduler.runtime)
        load_file(self.folder / "everwhen.yaml", runtime)
        restore_valid_schedules(runtime, open_target_registry(runtime, plugin_dirs=(self.plugins,)).fault_of)

    def _run(self, claimed: ClaimedJob) -> Outcome:
        """As a worker does; without the guardian that a target registry has, for nobody dies here while a job runs."""
        target = PluginTarget(
            plugins_in([self.plugins]), store_of(self.scheduler.runtime).catalogue.plugin_state
        )
        return asyncio.run(target.run(claimed.definition.target.spec, run_of(claimed)))

    # -- what is to be seen from outside --

    def reported(self, name: str = "withings") -> list[str]:
        """The commands that the program of a plugin was run for."""
        return [request["command"] for request in requests_to(self.plugins, name)]

    def slots(self, schedule_id: str, origin: str | None = None) -> list[str]:
        jobs = self.scheduler.jobs(schedule_id)
        return [f"{job.slot:%H:%M}" for job in jobs if origin in (None, job.origin)]

    def entries(self, column: str) -> dict[tuple[str, str], Any]:
        """One column of Ductile's table, by its key, read from the database by a connection of its own."""
        rows = self._rows(f"SELECT plugin, schedule_id, {column} FROM schedule_entries")
        found = {(plugin, schedule_id): value for plugin, schedule_id, value in rows}
        assert len(found) == len(rows)  # it is a key
        return found

    def next_runs(self) -> dict[str, str]:
        """When each entry comes next."""
        rows = self.entries("next_run_at").items()
        return {key[1]: f"{_moment(at):%H:%M}" for key, at in rows if at is not None}

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        if is_postgres(self.url):
            with psycopg.connect(self.url) as connection:
                return connection.execute(statement.encode()).fetchall()
        with closing(sqlite3.connect(path_of(self.url) or "")) as connection:
            return connection.execute(statement).fetchall()


def _moment(stored: int | datetime) -> datetime:
    """An instant as SQLite or PostgreSQL has it."""
    return to_datetime(stored) if isinstance(stored, int) else stored.astimezone(UTC)
