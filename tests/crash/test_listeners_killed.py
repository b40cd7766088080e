"""SIGKILL of the process that listens: a named listener hears of every job that ended, at least once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everwhen import Scheduler
from everwhen.model.queries import JobFilter
from everwhen.store.opened import store_of
from tests.crash.hearing import program, schedules
from tests.crash.nodes import ROOT, fate, opened
from tests.scheduler.waiting import until

KINDS = ("succeeded", "failed", "timed_out", "lost", "cancelled")


def test_a_listener_that_is_killed_three_times_hears_of_every_end(url: str, tmp_path: Path) -> None:
    kill_and_check(url, tmp_path / "heard", kills=3, count=50)


@pytest.mark.long
def test_a_listener_that_is_killed_forty_times_hears_of_every_end(url: str, tmp_path: Path) -> None:
    ends = kill_and_check(url, tmp_path / "heard", kills=40, count=200)
    assert ends > 5_000


def kill_and_check(url: str, path: Path, *, kills: int, count: int) -> int:
    """Kill the one that listens again and again while others go on; return how many jobs ended."""
    draw = fate(f"listeners, {kills} kills")
    with listening(url, path):  # the name is used from here on
        pass
    worker = program(url)
    with worker:
        worker.add_many(schedules(count))  # type: ignore[arg-type]
        for _ in range(kills):
            with listening(url, path) as process:
                before = size(path)
                until(lambda: size(path) > before, 60)  # noqa: B023  # called at once: it holds the cursor
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(draw.uniform(0.0, 1.5))
        pause_and_drain(worker)
        with listening(url, path):
            until(lambda: not unheard(url, path), 90)
    worker.close()
    return sum(1 for _ in ended(url))


@contextmanager
def listening(url: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.crash.hearing", url, str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            os.kill(process.pid, signal.SIGKILL)


def pause_and_drain(worker: Scheduler) -> None:
    for schedule in worker.schedules(status="active"):
        worker.pause(schedule.id)
    until(lambda: not worker.jobs(status="queued") and not worker.jobs(status="running"), 60)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def unheard(url: str, path: Path) -> set[str]:
    return set(ended(url)) - set(path.read_text().splitlines())


def ended(url: str) -> Iterator[str]:
    with opened(url) as stack:
        for job in store_of(stack.runtime).ledger.jobs(JobFilter(), limit=1_000_000):
            assert job.status in KINDS, f"{job.job_id} is {job.status}"
            yield f"job.{job.status} {job.job_id}"
