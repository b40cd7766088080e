"""The function that workers of a queue call: `run_job`, in whatever process the queue has started for it.

The message contains the id of a job and the number of the message, and nothing else: no address, no secret, no
definition. The process itself finds out which database to use, and which targets (`everwhen.worker_runtime`).

A process that the queue forks for each job opens the database for that job; a long-lived process keeps it open.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from functools import partial

from everwhen.config.settings import Settings
from everwhen.engine.job_runner import JobRunner
from everwhen.engine.loop import patiently
from everwhen.errors import QueueError, UnknownJobError, shown_url
from everwhen.operations.jobs import get_job
from everwhen.operations.stepping import claim_delivered
from everwhen.worker_runtime import WorkerRuntime, found_configuration, open_worker_runtime


def run_job(job_id: str, number: int) -> bool:
    """Run a job to its end, if this message about it counts; return whether it did.

    While the database is unreachable this waits: the queue has no better use for the message.
    """

    def run() -> bool:
        state = _here()
        with state.job_runner() as job_runner:
            is_run = job_runner.run(partial(claim_delivered, state.worker_runtime.runtime, job_id, number))
        if not is_run:
            _refuse_unknown(state.worker_runtime, job_id)
        return is_run

    return patiently(run, f"job {job_id} cannot be taken yet")


def settings_here() -> Settings:
    """Return the settings of the environment in which this process was started."""
    return found_configuration().settings


def _refuse_unknown(worker_runtime: WorkerRuntime, job_id: str) -> None:
    """Raise QueueError for a job that never existed, which is a mistake; an old message is dropped silently."""
    try:
        get_job(worker_runtime.runtime, job_id)
    except UnknownJobError:
        raise QueueError(
            f"job {job_id} is not in {shown_url(worker_runtime.settings.database)}; "
            "start the worker with the configuration of the scheduler that sent it"
        ) from None


@dataclass(frozen=True, slots=True)
class _WorkerState:
    """The worker runtime of this process, and one job runner for each thread."""

    pid: int
    worker_runtime: WorkerRuntime
    job_runners: threading.local = field(default_factory=threading.local)

    def job_runner(self) -> JobRunner:
        found: JobRunner | None = getattr(self.job_runners, "own", None)
        if found is None:
            found = self.job_runners.own = self.worker_runtime.job_runner()
        return found


_guard = threading.Lock()
_state: _WorkerState | None = None


def _here() -> _WorkerState:
    """Return the open resources of this process. Those that a parent opened before a fork belong to the parent."""
    global _state  # noqa: PLW0603 - a queue calls a function, and passes it no context
    with _guard:
        if _state is None or _state.pid != os.getpid():
            _state = _WorkerState(os.getpid(), open_worker_runtime())
        return _state


def leave() -> None:
    """Close the open resources of this process; the next job opens them again."""
    global _state
    with _guard:
        left, _state = _state, None
    if left is not None and left.pid == os.getpid():
        left.worker_runtime.close()
