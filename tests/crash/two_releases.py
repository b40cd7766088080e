"""Processes of the previous release and of this one on one database, with one file and one record of the work done.

Until a test migrates the database, it is read here with plain SQL: opening it would bring it to this release.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psycopg

from everwhen.clock import SystemClock
from everwhen.model.instants import HOUR, to_datetime
from everwhen.model.queries import JobFilter
from everwhen.operations.schedules import list_schedules
from everwhen.store.opened import store_of
from everwhen.wiring import Stack, is_postgres
from tests.proof.account import account_of
from tests.proof.overlaps import Nodes
from tests.proof.processes import ROOT, Supervised
from tests.proof.schedules import OVER_INTERFACE, hushed, hushed_file
from tests.proof.verdict import broken_work
from tests.proof.work import SHELL, read_lines
from tests.submissions import Submission, update_schedule

Release = Literal["previous", "this"]

PATIENCE = 120.0
LEASE = 3
OUTSTANDING = JobFilter(statuses=["queued", "running"])

# A program of release 0.2 that creates schedules, with the module by which the tests of that release do.
_CREATE = """
import json, runpy, sys
from everwhen.model.schedule import Target
from everwhen.wiring import open_stack

submissions = runpy.run_path(sys.argv[2], run_name="submissions_of_previous_release")
stack = open_stack(sys.argv[1])
submissions["create_schedules"](stack.runtime, [
    submissions["Submission"](one["id"], one["fields"], Target(*one["target"]), group=one["group"])
    for one in json.load(sys.stdin)
])
stack.close()
"""


class TwoReleases:
    """One database and one configuration file; processes of either release, started, killed and stopped."""

    def __init__(self, url: str, folder: Path, previous: Path, **settings: str) -> None:
        self.url, self.folder = url, folder
        self.fields: dict[str, Any] = {}  # of the configuration file
        self._pythons = {"previous": previous, "this": Path(sys.executable)}
        self._settings = settings
        self._processes: dict[str, Supervised] = {}
        self.runs.mkdir()
        (folder / "work.sh").write_text(SHELL)
        beats = 'while [ "$BEATS" -gt 0 ]; do sleep 0.2; note still; BEATS=$((BEATS - 1)); done'
        waiting = SHELL.replace(beats, 'while [ ! -e "$2" ]; do sleep 0.1; done').replace("${2:-0}", "0")
        assert waiting != SHELL
        (folder / "wait.sh").write_text(waiting)

    @property
    def runs(self) -> Path:
        """The folder of the lines that the work writes."""
        return self.folder / "runs"

    def write_file(self, fields: dict[str, Any]) -> None:
        """Write the configuration file; by rename, as an editor does."""
        self.fields = fields
        beside = self.folder / "everwhen.yaml.new"
        beside.write_text(json.dumps(fields))
        beside.rename(self.folder / "everwhen.yaml")

    # -- processes --

    def node(self, release: Release, role: Literal["scheduler", "worker"]) -> Supervised:
        """Start `everwhen scheduler` or `everwhen worker`; return it when it is at work."""
        return self._started(f"{release} {role}", release, ["everwhen", role], "Ctrl-C stops")

    def rq_worker(self, release: Release, settings: str) -> Supervised:
        name = f"{release} {settings}"
        return self._started(name, release, ["rq.cli", "worker", "-c", settings, "default"], "Listening on")

    def celery_worker(self, release: Release, application: str) -> Supervised:
        name = f"{release} {application}"
        fields = ["celery", "-A", application, "worker", "-Q", "default", "--concurrency", "1"]
        alone = ["-n", f"{name.replace(' ', '-')}@here", "--without-gossip", "--without-mingle", "-l", "INFO"]
        return self._started(name, release, [*fields, *alone], " ready.")

    def _started(self, name: str, release: Release, fields: Sequence[str], ready: str) -> Supervised:
        process = Supervised(
            name=name,
            command=[str(self._pythons[release]), "-m", *fields],
            environment=self._environment(release, name),
            log=self.folder / f"{name.replace(' ', '-')}.log",
            ready=ready,
        )
        self._processes[name] = process
        process.revive()
        self.until(lambda: process.is_at_work, f"{name} to be at work")
        return process

    def revive(self, process: Supervised) -> None:
        """Start a process again that was killed; return when it is at work."""
        process.revive()
        self.until(lambda: process.is_at_work, f"{process.name} to be at work")

    def stop(self, *processes: Supervised) -> None:
        """Stop these, or all, as an operator does."""
        chosen = [process for process in processes or self._processes.values() if process.is_alive]
        for process in chosen:
            process.ask_to_leave()
        problems = [problem for process in chosen if (problem := process.left(60)) is not None]
        assert not problems, "\n".join(problems)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill(with_children=True)

    def command(self, release: Release, *fields: str, status: int = 0) -> str:
        """Run one command of `everwhen`; return what it said."""
        done = self._run(release, ["-m", "everwhen", *fields])
        assert done.returncode == status, f"everwhen {fields} of {release} ended with {done}"
        return done.stdout + done.stderr

    def create_by_previous(self, submissions: Sequence[Submission]) -> None:
        """Create schedules, and the database where there is none, with a program of the previous release."""
        fields = [
            {
                "id": one.schedule_id,
                "fields": one.fields,
                "target": [one.target.kind, one.target.spec],
                "group": one.group,
            }
            for one in submissions
        ]
        module = self._pythons["previous"].parents[2] / "tests" / "submissions.py"
        done = self._run("previous", ["-c", _CREATE, self.url, str(module)], said=json.dumps(fields))
        assert done.returncode == 0, done.stderr

    def _run(
        self, release: Release, fields: Sequence[str], said: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._pythons[release], *fields],
            input=said,
            cwd=ROOT,
            env=self._environment(release, "command"),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def _environment(self, release: Release, name: str) -> dict[str, str]:
        names = ["PATH", "HOME", "LANG", "TMPDIR", *(["PYTHONWARNINGS"] if release == "this" else [])]
        return {
            **{name: os.environ[name] for name in names if name in os.environ},
            **self._settings,
            "PYTHONPATH": str(ROOT),  # for the work; each interpreter has its own release
            "EVERWHEN_CONFIG": str(self.folder / "everwhen.yaml"),
            "EVERWHEN_DATABASE": self.url,
            "EVERWHEN_PROOF_RUNS": str(self.runs),
            "EVERWHEN_PROOF_NODE": name,
        }

    # -- what happens --

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait; every process that is wanted stays alive meanwhile. The deadline is for a broken build only."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            for process in self._processes.values():
                assert process.is_alive or not process.is_wanted, (
                    f"{process.name} ended:\n{process.said[-9000:]}"
                )
            assert time.monotonic() < deadline, f"waited for {what} in vain; {self._last_words()}"
            threading.Event().wait(0.05)

    def _last_words(self) -> str:
        return "\n".join(f"--- {one.name}\n{one.said[-3000:]}" for one in self._processes.values())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Read with plain SQL, whatever the schema."""
        if is_postgres(self.url):
            with psycopg.connect(self.url) as connection:
                return connection.execute(query.encode()).fetchall()
        path = self.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
            return file.execute(query).fetchall()

    def count(self, condition: str) -> int:
        """Return how many rows there are: `schedules WHERE …`."""
        return int(self.rows(f"SELECT count(*) FROM {condition}")[0][0])

    def await_rows(self, condition: str) -> None:
        """Wait until there is such a row."""
        self.until(lambda: self.count(condition), condition)

    def begun(self) -> Counter[str]:
        """Return how many attempts each process has begun."""
        return Counter(line.node for line in read_lines(self.runs) if line.what == "begin")

    def await_begun(self, count: int, *processes: Supervised) -> None:
        """Wait until each of these processes has begun so many further attempts."""
        before = self.begun()
        for name in [process.name for process in processes]:
            wanted = before[name] + count
            self.until(partial(self._has_begun, name, wanted), f"{wanted} attempts by {name}")

    def _has_begun(self, name: str, count: int) -> bool:
        return self.begun()[name] >= count

    def await_fired(self, count: int) -> None:
        """Wait until so many further slots have fired."""
        before = self.fired()
        self.until(lambda: self.fired() >= before + count, f"{count} firings")

    def fired(self) -> int:
        return int(self.rows("SELECT coalesce(sum(fire_count), 0) FROM schedules")[0][0])

    # -- the end --

    def bring_to_rest(self, stack: Stack) -> None:
        """Let nothing fire any more, wait until every job is over, and stop every process."""
        runtime = store_of(stack.runtime)
        self.write_file(hushed_file(self.fields))
        asked = [one for name, one in self._processes.items() if "scheduler" in name and one.is_alive]

        def is_soon(due_at: int | None) -> bool:
            return due_at is not None and due_at < runtime.clock.now() + HOUR

        def is_hushed() -> bool:
            for state in list_schedules(runtime, status="active", limit=500):
                if state.schedule_id.startswith(OVER_INTERFACE) and is_soon(state.next_run_at):
                    update_schedule(runtime, hushed(state.schedule_id))
            if not is_soon(runtime.slots.next_wake_at()):
                return True
            for scheduler in asked:
                scheduler.signal(signal.SIGHUP)
            threading.Event().wait(0.5)
            return False

        self.until(is_hushed, "nothing to be due")
        self.until(lambda: not runtime.ledger.jobs(OUTSTANDING, limit=1), "every job to be over")
        self.stop()

    def check(self, stack: Stack) -> None:
        """Check the record against itself, by the command that people have, and against the work done."""
        assert "exactly one entry" in self.command("this", "db", "check")
        account = account_of(stack.runtime, self.runs)
        assert account.ledger.is_clean, account.ledger
        assert not (broken := broken_work(account, Nodes(account.lost_nodes))), "\n".join(broken)


@contextmanager
def two_releases(url: str, folder: Path, previous: Path, **settings: str) -> Iterator[TwoReleases]:
    """Provide the database; whatever happens to a test, no process of it is left."""
    releases = TwoReleases(url, folder, previous, **settings)
    try:
        yield releases
    finally:
        releases.close()


def now() -> datetime:
    return to_datetime(SystemClock().now())
