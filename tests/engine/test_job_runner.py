"""The job runner: one job at a time in somebody else's process, as a node that leaves nothing behind."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from everwhen.engine.job_runner import Claim, JobRunner
from everwhen.engine.ticker import Ticker
from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob
from everwhen.model.host_fault import before_target
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import EventFilter
from everwhen.operations.jobs import cancel_job, get_output
from everwhen.store.opened import store_of
from everwhen.target import Run
from everwhen.targets.command import CommandTarget
from everwhen.wiring import Stack, open_stack
from tests.engine.test_worker import Away, Blocking, add, has_status, job_of, running_jobs
from tests.targets.running import is_alive, pid_in, until


@pytest.fixture
def stack() -> Iterator[Stack]:
    stack = open_stack("sqlite://")
    yield stack
    stack.close()


def fire(stack: Stack) -> None:
    ticker = Ticker(store_of(stack.runtime).slots, stack.runtime.clock)
    while ticker.step():
        pass


def claim_of(stack: Stack, schedule_id: str) -> Claim:
    job_id = job_of(stack, schedule_id).job_id

    def claim(node: str) -> ClaimedJob | None:
        runtime = store_of(stack.runtime)
        return runtime.slots.claim_job(runtime.clock.now(), node=node, job_id=job_id)

    return claim


def a_job_runner(stack: Stack, targets: dict[str, Any] | None = None, **keys: Any) -> JobRunner:
    return JobRunner(stack.runtime, targets or {"command": CommandTarget()}, **keys)


def nodes(stack: Stack) -> list[str]:
    return [node.node for node in store_of(stack.runtime).upkeep.nodes()]


def test_a_delivered_job_runs_and_is_settled_and_its_node_leaves_no_row(stack: Stack) -> None:
    add(stack, "a", "command", {"argv": ["echo", "here"]})
    fire(stack)
    with a_job_runner(stack) as job_runner:
        assert nodes(stack) == [job_runner.node]
        assert job_runner.run(claim_of(stack, "a"))
        assert job_of(stack, "a").status == "succeeded"
    job = job_of(stack, "a")
    assert (job.attempt, job.node, running_jobs(stack, "a")) == (1, job_runner.node, 0)
    assert b"here" in b"".join(piece.data for piece in get_output(stack.runtime, job.job_id))
    assert nodes(stack) == []


def test_a_job_that_the_host_does_not_let_begin_is_put_back_and_begins_with_the_next_message(
    stack: Stack,
) -> None:
    class Starved:
        """Its first run meets a host without descriptors."""

        runs = 0

        async def run(self, spec: str, run: Run) -> Outcome:
            self.runs += 1
            with before_target():
                if self.runs == 1:
                    raise OSError(errno.EMFILE, "Too many open files")
            return SUCCEEDED

    add(stack, "a", "command", {"argv": ["true"]})
    fire(stack)
    with a_job_runner(stack, {"command": Starved()}) as job_runner:
        assert job_runner.run(claim_of(stack, "a"))  # which returns when a trial has succeeded
        job = job_of(stack, "a")
        assert (job.status, job.attempt, job.rescues, running_jobs(stack, "a")) == ("queued", 0, 0, 0)
        assert job_runner.run(claim_of(stack, "a"))
    assert (job_of(stack, "a").status, job_of(stack, "a").attempt) == ("succeeded", 1)


def test_several_jobs_are_carried_by_the_same_node_and_a_new_block_is_another(stack: Stack) -> None:
    job_runner = a_job_runner(stack)
    for name in ("a", "b", "c"):
        add(stack, name, "command", {"argv": ["true"]})
    fire(stack)
    with job_runner:
        assert job_runner.run(claim_of(stack, "a"))
        assert job_runner.run(claim_of(stack, "b"))
    with job_runner:
        assert job_runner.run(claim_of(stack, "c"))
    by = [job_of(stack, name).node for name in ("a", "b", "c")]
    assert by[0] == by[1] != by[2]
    assert nodes(stack) == []


def test_a_job_that_cannot_be_had_is_not_carried(stack: Stack) -> None:
    add(stack, "a", "command", {"argv": ["true"]})
    fire(stack)
    with a_job_runner(stack) as job_runner:
        assert job_runner.run(claim_of(stack, "a"))
        assert not job_runner.run(claim_of(stack, "a"))
    assert job_of(stack, "a").attempt == 1


def test_a_cancel_reaches_what_is_carried(stack: Stack, tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; sleep 600"
    add(stack, "a", "command", {"argv": ["sh", "-c", script]})
    fire(stack)
    with a_job_runner(stack) as job_runner:
        done = threading.Thread(target=partial(job_runner.run, claim_of(stack, "a")))
        done.start()
        pid = pid_in(tmp_path / "pid")
        cancel_job(stack.runtime, job_of(stack, "a").job_id)
        done.join(30)
        assert not done.is_alive()
    assert not is_alive(pid)
    assert (job_of(stack, "a").status, running_jobs(stack, "a")) == ("cancelled", 0)


def test_its_lease_is_beaten_while_it_runs_and_nobody_takes_the_job(stack: Stack) -> None:
    target = Blocking()
    add(stack, "a", "blocking")
    fire(stack)
    with a_job_runner(stack, {"blocking": target}, lease=0.6) as job_runner:
        done = threading.Thread(target=partial(job_runner.run, claim_of(stack, "a")))
        done.start()
        assert target.begun.wait(30)
        (first,) = store_of(stack.runtime).upkeep.nodes()

        def has_beaten() -> bool:
            (now,) = store_of(stack.runtime).upkeep.nodes()
            return now.heartbeat_at > first.heartbeat_at + 600_000

        until(has_beaten)
        target.returns.set()
        done.join(30)
    assert (job_of(stack, "a").status, job_of(stack, "a").attempt) == ("succeeded", 1)


def test_r8_a_block_that_is_left_by_an_exception_ends_its_job_and_gives_the_lease_up(
    stack: Stack, tmp_path: Path
) -> None:
    script = f"echo $$ > {tmp_path}/pid; sleep 600"
    add(stack, "a", "command", {"argv": ["sh", "-c", script]})
    fire(stack)
    claim = claim_of(stack, "a")

    class TimeIsUpError(Exception):
        """What the queue's own limit raises in the middle of everything."""

    with pytest.raises(TimeIsUpError), a_job_runner(stack) as job_runner:
        thread = threading.Thread(target=partial(job_runner.run, claim), daemon=True)
        thread.start()
        pid = pid_in(tmp_path / "pid")
        raise TimeIsUpError
    until(lambda: not is_alive(pid))
    assert [node.stopped_at is not None for node in store_of(stack.runtime).upkeep.nodes()] == [True]
    assert (
        store_of(stack.runtime).slots.rescue(stack.runtime.clock.now(), node="another", lease=30_000_000) == 1
    )
    job = job_of(stack, "a")
    assert (job.status, job.rescues) == ("queued", 1)


def test_an_outcome_is_kept_until_the_database_is_back(stack: Stack) -> None:
    target = Blocking()
    add(stack, "a", "blocking")
    fire(stack)
    store_of(stack.runtime).slots = away = Away(store_of(stack.runtime).slots, hangs=False)  # type: ignore[assignment]
    with a_job_runner(stack, {"blocking": target}) as job_runner:
        done = threading.Thread(target=partial(job_runner.run, claim_of(stack, "a")))
        done.start()
        assert target.begun.wait(30)
        away.is_away = True
        target.returns.set()
        until(lambda: away.refusals > 1)
        assert done.is_alive()
        away.is_away = False
        done.join(30)
        assert not done.is_alive()
    assert has_status(stack, "a", "succeeded")()


@pytest.mark.parametrize("on_lost", ["rerun", "fail"])
def test_r8_a_claim_whose_answer_was_lost_is_put_back_and_the_node_stays_on_record(
    stack: Stack, on_lost: str
) -> None:
    add(stack, "a", "command", {"argv": ["true"]}, on_lost=on_lost)
    fire(stack)
    take = claim_of(stack, "a")

    def claim(node: str) -> ClaimedJob | None:
        take(node)
        raise StoreError("the connection was lost")

    with pytest.raises(StoreError), a_job_runner(stack) as job_runner:
        job_runner.run(claim)
    job = job_of(stack, "a")
    assert (job.status, job.rescues, running_jobs(stack, "a")) == ("queued", 0, 0)
    assert nodes(stack) == [job_runner.node]  # a commit that comes later still is found by it
    found = store_of(stack.runtime).ledger.events(EventFilter(types=["job.lost"]), limit=10)
    assert not found
