"""Rows about the work itself, with real processes: W4, W8."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.operations.jobs import cancel_job
from everwhen.operations.schedules import get_schedule, pause_schedule
from everwhen.targets.command import CommandTarget
from everwhen.wiring import Stack
from tests.crash.nodes import check, opened
from tests.engine.test_worker import (
    Blocking,
    a_service,
    add,
    has_status,
    job_of,
    jobs_of,
    running_jobs,
)
from tests.targets.running import is_alive, until


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A database on disk, where every slot has its one entry at the end."""
    url = f"sqlite:///{tmp_path}/work.db"
    with opened(url) as found:
        yield found
    assert check(url).is_clean


def test_w4_one_that_blocks_delays_nobody_else(stack: Stack) -> None:
    target = Blocking()
    service = a_service(stack, {"blocking": target, "command": CommandTarget()}, max_workers=2)
    service.start()
    add(stack, "slow", "blocking")
    assert target.begun.wait(30)
    for number in range(3):
        add(stack, f"quick{number}", "command", {"argv": ["true"]})
        until(has_status(stack, f"quick{number}", "succeeded"))
    assert job_of(stack, "slow").status == "running"
    target.returns.set()
    service.stop()


def test_w8_cancel_really_kills_and_a_late_result_does_not_overwrite_it(stack: Stack, tmp_path: Path) -> None:
    """Each run would even succeed when it is told to end; the next one begins when its process is gone."""
    notes = tmp_path / "notes"
    notes.touch()
    stubborn = (
        f"trap 'echo told $$ >> {notes}; exit 0' TERM; echo began $$ >> {notes}; while :; do sleep 0.05; done"
    )
    service = a_service(stack, {"command": CommandTarget()})
    service.start()
    add(stack, "a", "command", {"argv": ["sh", "-c", stubborn]}, every="1s", if_running="cancel")
    until(lambda: notes.read_text().count("began") >= 3)
    pause_schedule(stack.runtime, "a")
    cancel_job(stack.runtime, jobs_of(stack, "a")[0].job_id)  # a person's cancel kills as well
    until(lambda: running_jobs(stack, "a") == 0)
    lines = [line.split() for line in notes.read_text().splitlines()]
    processes = [pid for word, pid in lines if word == "began"]
    assert lines == [[word, pid] for pid in processes for word in ("began", "told")]  # never two at once
    assert not any(is_alive(int(pid)) for pid in processes)
    last, *before = jobs_of(stack, "a")
    assert (last.status, last.reason) == ("cancelled", "person")
    assert {(job.status, job.reason) for job in before} == {("cancelled", "overlap")}
    assert get_schedule(stack.runtime, "a").state.run_count == 0
    service.stop()


def test_w8_queue_really_queues(stack: Stack, tmp_path: Path) -> None:
    """What came due while one ran waits, and is run: one process after another, in the order of the slots."""
    notes, go = tmp_path / "notes", tmp_path / "go"
    slow = f"echo $$ $EVERWHEN_JOB_ID >> {notes}; until [ -e {go} ]; do sleep 0.02; done; echo $$ ended >> {notes}"
    service = a_service(stack, {"command": CommandTarget()})
    service.start()
    add(stack, "a", "command", {"argv": ["sh", "-c", slow]}, every="1s", if_running="queue")
    until(lambda: len(jobs_of(stack, "a")) >= 3)
    *waiting, first = jobs_of(stack, "a")
    assert (first.status, {job.status for job in waiting}) == ("running", {"queued"})
    assert len(notes.read_text().splitlines()) == 1  # one process
    go.touch()
    until(lambda: [job.status for job in jobs_of(stack, "a")].count("succeeded") >= 3)
    pause_schedule(stack.runtime, "a")
    until(lambda: running_jobs(stack, "a") == 0)
    lines = [line.split() for line in notes.read_text().splitlines()]
    begins, ends = lines[::2], lines[1::2]
    assert [pid for pid, _ in begins] == [pid for pid, _ in ends]  # none beside another
    assert [job_id for _, job_id in begins] == [
        job.job_id for job in jobs_of(stack, "a")[::-1] if job.status == "succeeded"
    ]
    service.stop()
