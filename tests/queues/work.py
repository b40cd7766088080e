"""What schedules run in processes of a queue: each run says in a file that it was there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from redis import Redis
from rq.job import Job

from everwhen import Run, recover_scheduled_jobs, start_scheduled_job


def note(run: Run) -> None:
    """One line for each attempt: the job, the attempt, the process and the one that started it."""
    line = f"{run.job_id} {run.attempt} {os.getpid()} {os.getppid()}\n"
    file = os.open(run.payload["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def fail(run: Run) -> None:
    note(run)
    raise RuntimeError("no luck")


def reschedule(run: Run) -> None:
    """What a careless program does: it enqueues itself again while RQ still has it as started."""
    start_scheduled_job(None, run.schedule_id)
    recover_scheduled_jobs()
    with Redis.from_url(os.environ["EVERWHEN_REDIS"]) as redis:
        link = Job.fetch(os.environ["RQ_JOB_ID"], connection=redis)
        assert link.get_status() == "started" and link.id.startswith(run.job_id), link
    note(run)


def wait(run: Run) -> None:
    """Until it is told to go on."""
    note(run)
    while not Path(run.payload["until"]).exists():
        time.sleep(0.02)
