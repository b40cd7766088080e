"""Real `rq worker --with-scheduler` processes on a real database, and the schedules that live by them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.events import Event, EventType
from everwhen.model.job import Job
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import State, Target
from everwhen.operations.schedules import get_schedule
from everwhen.store.opened import store_of
from everwhen.verify.ledger import LedgerReport, check_ledger
from everwhen.wiring import open_stack
from tests.queues.links_at_hand import LinksAtHand
from tests.queues.worker_at_hand import WorkerAtHand
from tests.submissions import Submission, create_schedule
from tests.targets.running import is_alive, until

ROOT = Path(__file__).parents[2]
PATIENCE = 90.0
ALL = 100_000


class RqWorker:
    """One worker in a session of its own, so that all its processes can be found, orphans among them."""

    def __init__(self, environ: dict[str, str], log: Path, *fields: str) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rq.cli", "worker", "-c", "everwhen.queue_workers.rq", *fields],
            cwd=log.parent,
            env=environ,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self, *others: int) -> None:
        """kill -9 of the worker and of these; its scheduler is another process, and goes on."""
        for pid in (self.pid, *others):
            os.kill(pid, signal.SIGKILL)
        self._process.wait(30)

    def processes(self) -> list[int]:
        """The worker, RQ's scheduler, and whoever runs a job."""
        return _session(self.pid)

    def strike(self, pid: int) -> None:
        """kill -9 of one of them, which may have ended meanwhile."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        for pid in self.processes():
            self.strike(pid)
        self._process.wait(30)
        self._log.close()


def _session(leader: int) -> list[int]:
    """The processes of a session that are alive."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_alive(int(entry.name)):
            try:
                if os.getsid(int(entry.name)) == leader:
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return found


class ChainRuntime:
    """A database whose schedules go on by RQ alone."""

    def __init__(
        self, url: str, redis: str, folder: Path, queue: str = "default", *, lease: str = "60s"
    ) -> None:
        """Take a lease of seconds only where a test kills workers: on a busy machine it expires while they work."""
        self.url, self.folder = url, folder
        self.stack = open_stack(url)
        self.runtime = store_of(self.stack.runtime)
        self.queue = LinksAtHand(redis, queue)
        self.environ = {
            **os.environ,
            "EVERWHEN_DATABASE": url,
            "EVERWHEN_DISPATCH": "rq-chain",
            "EVERWHEN_REDIS": redis,
            "EVERWHEN_LEASE": lease,
            "PYTHONPATH": str(ROOT),
        }
        self._workers: list[RqWorker] = []

    def worker(self) -> RqWorker:
        fields = ("--with-scheduler", self.queue.queue.name)
        self._workers.append(RqWorker(self.environ, self.folder / "rq.log", *fields))
        return self._workers[-1]

    def work_off(self) -> None:
        """What is in the queue now, by a worker of RQ's in this process."""
        WorkerAtHand([self.queue.queue], connection=self.queue.redis).work(burst=True)

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self.queue.close()
        self.stack.close()

    def add(self, schedule_id: str, function: str = "note", **fields: Any) -> State:
        """Every two seconds, and on time for a minute: machines that run tests are busy."""
        payload = {"file": str(self._notes(schedule_id)), "until": str(self.go_file(schedule_id))}
        fields = {
            "every": "2s",
            "misfire_grace": "60s",
            "payload": payload,
            "queue": self.queue.queue.name,
            **fields,
        }
        target = Target("python", json.dumps({"function": f"tests.queues.work:{function}"}))
        return create_schedule(self.runtime, Submission(schedule_id, fields, target))

    def go_file(self, schedule_id: str) -> Path:
        return self.folder / f"{schedule_id}.go"

    def _notes(self, schedule_id: str) -> Path:
        return self.folder / f"{schedule_id}.notes"

    def notes(self, schedule_id: str) -> list[list[str]]:
        """What was run: job, attempt, process, and the worker that had started it."""
        path = self._notes(schedule_id)
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def state(self, schedule_id: str) -> State:
        return get_schedule(self.runtime, schedule_id).state

    def jobs(self, schedule_id: str) -> list[Job]:
        """Oldest first."""
        found = self.runtime.ledger.jobs(JobFilter(uid=self.state(schedule_id).uid), limit=ALL)
        return list(reversed(found))

    def events(self, schedule_id: str, *types: EventType) -> list[Event]:
        """Oldest first."""
        wanted = EventFilter(uid=self.state(schedule_id).uid, types=types)
        return [record.event for record in reversed(self.runtime.ledger.events(wanted, limit=ALL))]

    def reasons(self, schedule_id: str) -> list[str | None]:
        """Why slots were skipped."""
        return [event.reason for event in self.events(schedule_id, "schedule.skipped")]

    def until(self, condition: Callable[[], bool]) -> None:
        try:
            until(condition, PATIENCE)
        except AssertionError:
            print((self.folder / "rq.log").read_text()[-20_000:])
            raise

    def links(self, schedule_id: str) -> list[str]:
        """Those of a schedule that wait in RQ."""
        uid = self.state(schedule_id).uid
        return [name for name in self.queue.ids if name.startswith(f"sched-{uid}-")]

    def succeeded(self, schedule_id: str) -> int:
        return self.state(schedule_id).run_count

    def check(self) -> LedgerReport:
        with self.runtime.ledger.history() as history:
            return check_ledger(history, self.runtime.clock.now())


@contextmanager
def chain_runtime(
    url: str, redis: str, folder: Path, queue: str = "default", *, lease: str = "60s"
) -> Iterator[ChainRuntime]:
    """The runtime, with this process configured for it as its workers are."""
    runtime = ChainRuntime(url, redis, folder, queue, lease=lease)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            for name in ("EVERWHEN_DATABASE", "EVERWHEN_DISPATCH", "EVERWHEN_REDIS", "EVERWHEN_LEASE"):
                patch.setenv(name, runtime.environ[name])
            yield runtime
    finally:
        runtime.close()
