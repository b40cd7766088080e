"""The example of many nodes with Celery, as a reader would start it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from everwhen.model.queries import JobFilter
from everwhen.store.opened import store_of
from everwhen.wiring import open_stack
from tests.cli.test_nodes import stop
from tests.cli.test_up import lines_until
from tests.environment import without_settings
from tests.examples.running import EXAMPLES
from tests.targets.running import until

BIN = Path(sys.executable).parent


def test_two_schedulers_fire_each_slot_once_and_a_worker_of_celery_runs_the_jobs(
    tmp_path: Path, valkey_url: str
) -> None:
    shutil.copy(EXAMPLES / "celery" / "everwhen.yaml", tmp_path)
    environ = {**without_settings(), "BROKER_URL": valkey_url}
    command = [str(BIN / "everwhen"), "scheduler"]
    schedulers = [
        subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) for _ in "ab"
    ]
    words = ["-A", "everwhen.queue_workers.celery", "worker", "-Q", "default,heavy", "--concurrency", "2"]
    worker = subprocess.Popen(
        [BIN / "celery", *words],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for scheduler in schedulers:
        lines_until(scheduler.stderr, "jobs are handed over to Celery", 1)
    stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
    try:

        def both_ran() -> bool:
            jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100)
            return {job.schedule_id for job in jobs if job.status == "succeeded"} == {"heartbeat", "report"}

        until(both_ran, 60)
        jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100)
        slots = [(job.schedule_id, job.slot_at) for job in jobs]
        assert len(slots) == len(set(slots))
    finally:
        worker.terminate()
        worker.wait(60)
        stack.close()
        for scheduler in schedulers:
            stop(scheduler)
