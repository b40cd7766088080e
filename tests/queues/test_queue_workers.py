"""What the queues call, in this process: a message that counts, one that is old, one that came to the wrong place."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen import queue_workers
from everwhen.errors import QueueError
from everwhen.model.queue import Delivery
from everwhen.model.schedule import Target
from everwhen.operations.jobs import get_job
from everwhen.store.opened import store_of
from everwhen.wiring import Stack, open_stack
from tests.submissions import Submission, create_schedule


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """The scheduler's side; the other opens the same file by the same configuration, and keeps it open."""
    url = f"sqlite:///{tmp_path}/carried.db"
    (tmp_path / "everwhen.yaml").write_text(json.dumps({"service": {"database": url}}))
    monkeypatch.setenv("EVERWHEN_CONFIG", str(tmp_path / "everwhen.yaml"))
    monkeypatch.delenv("EVERWHEN_DATABASE", raising=False)
    stack = open_stack(url)
    yield stack
    queue_workers.leave()
    stack.close()


def sent(stack: Stack, name: str) -> Delivery:
    target = Target("command", json.dumps({"argv": ["true"]}))
    create_schedule(stack.runtime, Submission(name, {"every": "24h"}, target, source="config"))
    now = stack.runtime.clock.now()
    store_of(stack.runtime).slots.tick(now, limit=10, behind=False)
    (delivery,) = store_of(stack.runtime).outbox.hand_over(now, limit=10, until=now + 60_000_000)
    return delivery


def test_a_message_is_run_once_and_dropped_in_silence_when_it_comes_again(stack: Stack) -> None:
    delivery = sent(stack, "a")
    assert queue_workers.run_job(delivery.job_id, delivery.number)
    assert not queue_workers.run_job(delivery.job_id, delivery.number)
    job = get_job(stack.runtime, delivery.job_id)
    assert (job.status, job.attempt, store_of(stack.runtime).upkeep.nodes()) == ("succeeded", 1, [])


def test_threads_of_one_process_carry_side_by_side(stack: Stack) -> None:
    deliveries = [sent(stack, name) for name in "abc"]
    ran: list[bool] = []
    threads = [
        threading.Thread(target=lambda d=d: ran.append(queue_workers.run_job(d.job_id, d.number)))
        for d in deliveries
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ran == [True] * 3


FORKING = """
import os, sys
from everwhen.queue_workers import run_job

first, second, third = sys.argv[1:]
assert run_job(first, 1)
pid = os.fork()
if pid == 0:
    os._exit(0 if run_job(second, 1) else 1)
assert os.waitpid(pid, 0)[1] == 0
assert run_job(third, 1)
"""


def test_a_forked_process_leaves_what_its_parent_had_open_alone(stack: Stack) -> None:
    """As an RQ worker forks. In a process of its own: this one has threads that are nobody's business."""
    ids = [sent(stack, name).job_id for name in "abc"]
    done = subprocess.run([sys.executable, "-c", FORKING, *ids], capture_output=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert {get_job(stack.runtime, job_id).status for job_id in ids} == {"succeeded"}


def test_a_job_of_another_database_is_refused_with_the_reason(stack: Stack) -> None:
    sent(stack, "a")
    with pytest.raises(
        QueueError, match=r"job sched-x-n1-rc0 is not in sqlite:///.*carried\.db; start the worker"
    ):
        queue_workers.run_job("sched-x-n1-rc0", 1)
