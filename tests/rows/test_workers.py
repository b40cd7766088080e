"""Rows about the work itself, with real processes: W4, W8."""

from __future__ import annotations

from pathlib import Path

from everwhen.operations.jobs import cancel_job
from everwhen.targets.command import CommandTarget
from everwhen.wiring import Stack
from tests.engine.test_worker import (
    Blocking,
    a_service,
    add,
    has_status,
    job_of,
    jobs_of,
    running_jobs,
    stack,
)
from tests.targets.running import is_alive, pid_in, until

__all__ = ["stack"]  # the fixture


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
    mark = tmp_path / "pid"
    stubborn = f"trap 'exit 0' TERM; echo $$ > {mark}; while :; do sleep 0.05; done"  # it would even succeed
    service = a_service(stack, {"command": CommandTarget()})
    service.start()
    add(stack, "a", "command", {"argv": ["sh", "-c", stubborn]})
    pid = pid_in(mark)
    cancel_job(stack.house, job_of(stack, "a").job_id)
    until(lambda: not is_alive(pid))
    until(lambda: running_jobs(stack, "a") == 0)
    job = job_of(stack, "a")
    assert (job.status, job.reason) == ("cancelled", "person")
    service.stop()


def test_w8_queue_really_queues(stack: Stack) -> None:
    target = Blocking()
    service = a_service(stack, {"blocking": target}, check_interval=0.2)
    service.start()
    add(stack, "a", "blocking", every="1s", if_running="queue")
    until(lambda: sorted(job.status for job in jobs_of(stack, "a"))[:2] == ["queued", "queued"])
    assert [job.status for job in jobs_of(stack, "a")].count("running") == 1
    target.returns.set()
    until(lambda: [job.status for job in jobs_of(stack, "a")].count("succeeded") >= 3)
    service.stop()
