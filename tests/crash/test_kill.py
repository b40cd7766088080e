"""SIGKILL at random moments: nothing is lost, nothing is doubled, and the next process goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.message import message_target
from everwhen.model.queries import JobFilter
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import Stack, open_stack
from tests.crash.nodes import fate
from tests.scheduler.waiting import until
from tests.submissions import Submission, create_schedules

ROOT = Path(__file__).parents[2]
KINDS = ("message-", "remembering-")  # of schedules whose jobs leave something behind


def test_a_firing_process_killed_ten_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    kill_and_check(f"sqlite:///{tmp_path}/crash.db", kills=10)


def test_a_firing_process_on_postgresql_killed_three_times_loses_and_doubles_nothing(
    postgres_url: str,
) -> None:
    kill_and_check(postgres_url, kills=3)


@pytest.mark.long
def test_a_firing_process_killed_fifty_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    kill_and_check(f"sqlite:///{tmp_path}/crash.db", kills=50)


@pytest.mark.long
def test_a_firing_process_on_postgresql_killed_fifty_times_loses_and_doubles_nothing(
    postgres_url: str,
) -> None:
    kill_and_check(postgres_url, kills=50)


def kill_and_check(url: str, *, kills: int) -> None:
    draw = fate(f"{kills} kills")
    prepare(url)
    for _ in range(kills):
        fire_and_kill(url, after=draw.uniform(0.05, 0.8))
    stack = open_stack(url)
    fire_and_stop(url, lambda: all(len(succeeded(stack, kind)) >= 4 for kind in KINDS))
    with store_of(stack.runtime).ledger.history() as history:
        report = check_ledger(history, stack.runtime.clock.now())
    assert report.is_clean, report
    assert report.jobs > 40
    assert everything_settles(stack)
    spoken, kept = (succeeded(stack, kind) for kind in KINDS)
    assert said(stack) == spoken
    assert remembered(stack) == kept
    stack.close()


def prepare(url: str) -> None:
    stack = open_stack(url)
    fields: list[dict[str, Any]] = [
        *({"every": "1s", "if_running": "allow"} for _ in range(20)),
        *({"every": "1s", "catch_up": "run_all"} for _ in range(5)),
        *({"every": "2s", "if_running": "queue", "max_concurrent": 2} for _ in range(5)),
        *({"every": "1s", "interval_from": "completion"} for _ in range(5)),
        *({"every": "3s", "max_outstanding": 1, "jitter": "1s"} for _ in range(5)),
    ]
    submissions = [
        Submission(f"s{number}", keys, Target("command"), group=None) for number, keys in enumerate(fields)
    ]
    leaving = {"message": message_target({"text": "…"}), "remembering": Target("remembering")}
    submissions += [
        Submission(f"{kind}-{number}", {"every": "1s", "catch_up": "run_all"}, target)
        for kind, target in leaving.items()
        for number in range(4)
    ]
    create_schedules(stack.runtime, submissions)
    stack.close()


def start(url: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.firing", url],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "firing\n"
    return process


def fire_and_kill(url: str, *, after: float) -> None:
    process = start(url)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    close(process)


def fire_and_stop(url: str, has_enough: Callable[[], bool]) -> None:
    """A last process that has the time to rescue what the dead ones left, and to run something of each kind."""
    process = start(url)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=3.0)
    until(has_enough)
    process.communicate("stop\n", timeout=60)
    assert process.returncode == 0
    close(process)


def close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def succeeded(stack: Stack, kind: str) -> list[str]:
    jobs = store_of(stack.runtime).ledger.jobs(JobFilter(statuses=["succeeded"]), limit=1_000_000)
    return sorted(job.job_id for job in jobs if job.schedule_id.startswith(kind))


def said(stack: Stack) -> list[str]:
    """The jobs whose messages there are, each as often as there is one."""
    return sorted(message.job_id for message in store_of(stack.runtime).messages.after(0, limit=1_000_000))


def remembered(stack: Stack) -> list[str]:
    """The jobs that are remembered, as they asked for."""
    return sorted(store_of(stack.runtime).catalogue.plugin_state("counter"))


def everything_settles(stack: Stack) -> bool:
    """No job is left running on a node that is gone."""
    counts = store_of(stack.runtime).ledger.counts()
    return counts.jobs.get("running", 0) == 0
