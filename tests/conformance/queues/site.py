"""The site of the queue suite: a scheduler, a broker, and workers as real processes of one kind.

The scheduler is a service in this process, so that a test can stop it at a certain point; the workers are the
programs that people start: `everwhen worker`, `rq worker`, `celery worker`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.job import Job
from everwhen.model.queries import JobFilter
from everwhen.model.queue import Delivery, Queue
from everwhen.model.schedule import Target
from everwhen.operations.jobs import cancel_job, trigger_schedule
from everwhen.store.opened import store_of
from everwhen.wiring import build_service, open_queue, open_stack
from tests.servers.valkey import ValkeyServer
from tests.submissions import Submission, create_schedule
from tests.targets.running import until

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
LEASE = 4.0  # long enough for heartbeats on a busy machine
PATIENCE = 60.0
FINAL = ("succeeded", "failed", "timed_out", "cancelled", "lost")


@dataclass(frozen=True, slots=True)
class QueueKind:
    """One kind of queue: how its workers are started, given the queues that they listen to."""

    name: str
    command: Callable[[Sequence[str]], list[str]]
    stop_message: bytes  # written when the worker has received SIGTERM
    has_broker: bool = True


LOCAL = QueueKind(
    "local",
    lambda queues: [str(BIN / "everwhen"), "worker", "--queue", ",".join(queues)],
    b"stopping",
    has_broker=False,
)
RQ = QueueKind(
    "rq",
    lambda queues: [str(BIN / "rq"), "worker", "-c", "everwhen.queue_workers.rq", *queues],
    b"warm shut down requested",
)
CELERY = QueueKind(
    "celery",
    lambda queues: [
        *(str(BIN / "celery"), "-A", "everwhen.queue_workers.celery", "worker", "-Q", ",".join(queues)),
        *("--concurrency", "1", "--without-gossip", "--without-mingle", "--without-heartbeat"),
    ],
    b"Warm shutdown",
)


class WorkerProcess:
    """A worker and its child processes, in a separate session. What the jobs start has other sessions."""

    def __init__(
        self, command: Sequence[str], stop_message: bytes, folder: Path, environment: dict[str, str]
    ) -> None:
        self._stop_message = stop_message
        self._log = folder / "workers.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill the worker and its children at once, as when the machine loses power."""
        self._process.send_signal(signal.SIGSTOP)  # it cannot report a child that dies before it
        for pid in (pid for pid in self._session() if pid != self._process.pid):
            _signal(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait(30)

    def terminate(self) -> None:
        """Send SIGTERM, as every supervisor does first, and return when the worker says that it stops.

        A signal takes effect when the main thread of the process wakes, which may be a moment later.
        """
        offset = self._log.stat().st_size
        self._process.send_signal(signal.SIGTERM)
        until(lambda: self._stop_message in self._log.read_bytes()[offset:], PATIENCE)

    def close(self) -> None:
        if not self.has_ended:
            self.kill()

    def _session(self) -> list[int]:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if _session_of(pid) == self._process.pid]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


class QueueSite:
    """One database, one broker, one scheduler; workers are started and stopped."""

    def __init__(self, kind: QueueKind, folder: Path, url: str) -> None:
        self.kind = kind
        self.folder = folder
        self.broker = ValkeyServer(durable=True) if kind.has_broker else None
        if self.broker is not None:
            self.broker.start()
        self.stack = open_stack(url)
        self.runtime = store_of(self.stack.runtime)
        self._write_files(url)
        self.workers: dict[str, WorkerProcess] = {}
        self.scheduler: Service | None = None

    def _write_files(self, url: str) -> None:
        broker = "" if self.broker is None else self.broker.url
        service: dict[str, Any] = {
            "database": url,
            "dispatch": self.kind.name,
            "lease": f"{LEASE:.0f}s",
            "max_workers": 1,
        }
        if broker:
            service |= {"redis": broker, "celery_broker": broker}
        (self.folder / "everwhen.yaml").write_text(json.dumps({"service": service}))
        (self.folder / "poison.py").write_text(
            "import os, signal\n\ndef bite(run):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        )

    # -- processes --

    def open_queue(self) -> Queue | None:
        broker = None if self.broker is None else self.broker.url
        return open_queue(self.kind.name, redis=broker, celery_broker=broker)

    def start_scheduler(self) -> None:
        self.scheduler = build_service(
            self.stack,
            ServiceOptions(role="scheduler", check_interval=0.2, lease=LEASE),
            queue=self.open_queue(),
        )
        self.scheduler.start()

    def stop_scheduler(self) -> None:
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler = None

    def start_worker(self, *queues: str, again: bool = False) -> WorkerProcess:
        """Start a worker; `again`: under a supervisor, which starts another when it has died."""
        command = self.kind.command(queues)
        if again:
            command = ["sh", "-c", 'while :; do "$@"; done', "supervisor", *command]
        environment = {
            "PYTHONPATH": f"{self.folder}:{ROOT}",
            "EVERWHEN_CONFIG": str(self.folder / "everwhen.yaml"),
        }
        self.end_worker(queues[0])
        worker = self.workers[queues[0]] = WorkerProcess(
            command, self.kind.stop_message, self.folder, environment
        )
        return worker

    def end_worker(self, queue: str) -> None:
        if worker := self.workers.pop(queue, None):
            worker.close()

    def close(self) -> None:
        for queue in list(self.workers):
            self.end_worker(queue)
        self.stop_scheduler()
        self.stack.close()
        if self.broker is not None:
            self.broker.close()

    # -- schedules and jobs --

    def add(self, schedule_id: str, target: Target, **fields: Any) -> None:
        """Add a schedule that fires only by manual triggers."""
        fields = {"cron": "0 0 1 1 *", **fields}
        create_schedule(self.runtime, Submission(schedule_id, fields, target, source="config"))

    def fire(self, schedule_id: str) -> str:
        """Trigger the schedule and return the id of the new job."""
        job_id = trigger_schedule(self.runtime, schedule_id).job_id
        assert job_id is not None
        return job_id

    def note(self, name: str, *, gate: bool = False) -> Target:
        """Return a program that records its job and attempt, and, with a gate, waits until the gate is opened."""
        note = f'echo "$EVERWHEN_JOB_ID $EVERWHEN_ATTEMPT $$" >> {self.folder}/{name}.notes'
        wait = f"; while [ ! -e {self.folder}/{name}.gate ]; do sleep 0.05; done" if gate else ""
        return Target("command", json.dumps({"argv": ["sh", "-c", note + wait]}))

    def open_gate(self, name: str) -> None:
        (self.folder / f"{name}.gate").touch()

    @contextmanager
    def busy_worker(self, name: str) -> Iterator[None]:
        """Keep the only worker of the queue `default` busy while the block runs."""
        self.add(f"{name}-busy", self.note(f"{name}-busy", gate=True))
        self.fire(f"{name}-busy")
        self.begun(f"{name}-busy")
        yield
        self.open_gate(f"{name}-busy")

    def poison(self) -> str:
        """Fire the one job that kills every worker that runs it."""
        if not self.jobs("poison"):
            fields = {"function": "poison:bite"}
            self.add("poison", Target("python", json.dumps(fields)), queue="poison")
            self.fire("poison")
        (job,) = self.jobs("poison")
        return job.job_id

    def cancel(self, job_id: str) -> None:
        cancel_job(self.runtime, job_id)

    # -- results --

    def notes(self, name: str) -> list[tuple[str, int, int]]:
        """Return job, attempt and process of every run so far."""
        path = self.folder / f"{name}.notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(job_id, int(attempt), int(pid)) for job_id, attempt, pid in map(str.split, lines)]

    def job(self, job_id: str) -> Job:
        found = self.runtime.ledger.job(job_id)
        assert found is not None
        return found

    def jobs(self, schedule_id: str) -> list[Job]:
        return [
            job
            for job in reversed(self.runtime.ledger.jobs(JobFilter(), limit=10_000))
            if job.schedule_id == schedule_id
        ]

    def on_its_way(self, job_id: str) -> Delivery | None:
        return self.runtime.outbox.on_its_way(job_id)

    def ended(self, *job_ids: str, is_supervised: bool = False) -> list[Job]:
        """Return these jobs when all of them are over.

        `is_supervised`: a worker that ends meanwhile is replaced. RQ's worker ends itself when its Redis goes away at
        the wrong moment, and relies on being started again.
        """

        def is_over() -> bool:
            if is_supervised and self.workers["default"].has_ended:
                self.start_worker("default")
            return all(self.job(job_id).status in FINAL for job_id in job_ids)

        until(is_over, PATIENCE)
        return [self.job(job_id) for job_id in job_ids]

    def begun(self, name: str, times: int = 1) -> tuple[str, int, int]:
        """Return the last note when there are so many."""
        until(lambda: len(self.notes(name)) >= times, PATIENCE)
        return self.notes(name)[-1]
