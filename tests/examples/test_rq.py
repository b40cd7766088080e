"""The example of jobs on RQ, as a reader would start it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from everwhen.model.queries import JobFilter
from everwhen.store.opened import store_of
from everwhen.wiring import open_stack
from tests.cli.test_nodes import stop
from tests.cli.test_up import lines_until
from tests.targets.running import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "rq" / "everwhen.yaml"
BIN = Path(sys.executable).parent


def test_the_example_of_jobs_on_rq_runs_as_it_says(tmp_path: Path, valkey_url: str) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    environment = {**os.environ, "REDIS_URL": valkey_url}
    up = subprocess.Popen(
        [BIN / "everwhen", "up"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    lines_until(up.stderr, "jobs are handed over to RQ", 1)
    worker = subprocess.Popen(
        [BIN / "rq", "worker", "-q", "-c", "everwhen.queue_workers.rq", "heavy", "default"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    stack = open_stack(f"sqlite:///{tmp_path}/everwhen.db")
    try:

        def both_ran() -> bool:
            jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100)
            ran = {job.schedule_id for job in jobs if job.status == "succeeded"}
            return ran == {"heartbeat", "report"}

        until(both_ran, 60)
    finally:
        worker.terminate()
        worker.wait(60)
        stack.close()
        stop(up)
