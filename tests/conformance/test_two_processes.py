"""Two runtimes on one database, as in two processes: they share what is committed, and nothing else (E8)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from everwhen.errors import DuplicateScheduleError
from everwhen.model.instants import to_datetime
from everwhen.model.queries import JobFilter
from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack
from tests.conformance.tenant import FAILED, MANY, Tenant, names, submission
from tests.submissions import create_schedules

ROOT = Path(__file__).parents[2]
SECONDS = 3.0


@pytest.fixture
def other(runtime: Tenant) -> Tenant:
    return runtime.neighbour()


def test_what_one_has_fired_the_other_finds_done(runtime: Tenant, other: Tenant) -> None:
    runtime.add("a", every="1m", if_running="allow")
    assert (runtime.step(), other.step()) == (1, 0)
    runtime.wait("1m")
    assert (other.step(), runtime.step()) == (1, 0)
    assert runtime.slots("a") == other.slots("a") == ["08:00:00", "08:01:00"]


def test_two_that_take_turns_share_the_work_and_double_nothing(runtime: Tenant, other: Tenant) -> None:
    runtime.add_many([f"s{number:02}" for number in range(20)], every="10s", if_running="allow")
    for _ in range(6):
        for _ in range(5):
            runtime.tick(limit=2)
            other.tick(limit=2)
        runtime.wait("10s")
    jobs = runtime.jobs()
    assert len(jobs) == len({(job.uid, job.slot_at) for job in jobs}) == 120


def test_what_one_has_claimed_the_other_does_not_get(runtime: Tenant, other: Tenant) -> None:
    runtime.add_many([f"s{number}" for number in range(6)], every="1h")
    runtime.step()
    mine, theirs = runtime.claim(4), other.claim(4)
    assert (len(mine), len(theirs)) == (4, 2)
    assert len({*names(mine), *names(theirs)}) == 6
    assert {one.job.node for one in theirs} == {"node-2"}


def test_a_job_may_be_settled_through_any_runtime_that_knows_the_fence(
    runtime: Tenant, other: Tenant
) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    assert other.settle(claimed) == 1
    assert runtime.settle(claimed) == 0


def test_case_9_two_schedules_of_one_command_in_two_runtimes_one_fires_one_is_held(
    runtime: Tenant, other: Tenant
) -> None:
    poll: dict[str, Any] = {"every": "24h", "group": "withings", "command": "poll", "max_outstanding": 1}
    runtime.add("withings.a", **poll)
    runtime.wait("1s")
    other.add("withings.b", **poll)
    assert runtime.tick(limit=1).fired == 1
    assert other.tick(limit=1).fired == 0
    assert runtime.state("withings.b").held_reason == "outstanding_limit"
    runtime.settle(*runtime.claim())
    assert other.step() == 1


def test_capacity_holds_over_both_runtimes(runtime: Tenant, other: Tenant) -> None:
    fields: dict[str, Any] = {"group": "g", "max_concurrent": 3, "if_running": "queue"}
    runtime.add_many([f"g.s{number}" for number in range(6)], every="24h", **fields)
    runtime.step()
    assert [len(runtime.claim(2)), len(other.claim(2)), len(runtime.claim(2))] == [2, 1, 0]


def test_a_breaker_opened_in_one_runtime_is_open_in_the_other(runtime: Tenant, other: Tenant) -> None:
    breaker = {"threshold": 1, "reset_after": "1h"}
    runtime.add("a", every="1m", circuit_breaker=breaker)
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("1m")
    assert other.step() == 0
    assert runtime.reasons("a") == ["circuit_open"]


def test_an_edit_is_in_force_in_the_other_runtime_at_once(runtime: Tenant, other: Tenant) -> None:
    runtime.add("a", every="1m", if_running="allow", payload={"v": 1})
    other.step()
    runtime.edit("a", every="1m", if_running="allow", payload={"v": 2})
    runtime.wait("1m")
    other.step()
    assert [one.definition.payload for one in other.claim()] == ['{"v": 1}', '{"v": 2}']


def test_a_pause_stops_the_other_runtime_too(runtime: Tenant, other: Tenant) -> None:
    runtime.add("a", every="1m")
    other.step()
    runtime.pause("a")
    runtime.wait("5m")
    assert other.step() == 0
    other.resume("a")
    runtime.wait("1m")
    assert runtime.step() == 1


def test_the_system_switch_is_one_for_all(runtime: Tenant, other: Tenant) -> None:
    runtime.add("a", every="1m")
    runtime.pause_system()
    assert (other.step(), other.claim()) == (0, [])
    other.resume_system()
    runtime.wait("1m")
    assert runtime.step() == 1


def test_an_id_is_given_once_in_both_runtimes(runtime: Tenant, other: Tenant) -> None:
    runtime.add("a", every="1h")
    with pytest.raises(DuplicateScheduleError):
        other.add("a", every="1h")
    runtime.delete("a")
    other.add("a", every="1h")
    assert runtime.state("a").uid == other.state("a").uid


def test_a_worker_learns_that_its_job_was_cancelled_by_another_process(
    runtime: Tenant, other: Tenant
) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    other.cancel(claimed.job.job_id)
    assert runtime.runtime.slots.cancel_requests(runtime.node) == [claimed.job.job_id]


def test_a_runtime_opened_later_finds_everything_where_the_store_serves_several(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.step()
    stack = open_stack(runtime.site.url, clock=runtime.clock)
    found = [job.schedule_id for job in store_of(stack.runtime).ledger.jobs(JobFilter(), limit=MANY)]
    stack.close()
    assert found == (["a"] if runtime.capabilities.several_processes else [])


def test_two_processes_fire_every_slot_once(runtime: Tenant) -> None:
    """By the clock of the machine: 200 schedules, every second, two nodes."""
    stack = open_stack(runtime.site.url)
    several = [submission(f"s{number:03}", every="1s", if_running="allow") for number in range(200)]
    create_schedules(stack.runtime, several)
    with a_node(runtime.site.url) as first, a_node(runtime.site.url) as second:
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(SECONDS)
        fired = [stop(first), stop(second)]
    jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=MANY)
    with store_of(stack.runtime).ledger.history() as history:
        report = check_ledger(history, stack.runtime.clock.now())
    stack.close()
    runtime.clock.set(to_datetime(stack.runtime.clock.now()))  # recorded instants must not be in the future
    assert report.is_clean, report
    assert len({(job.uid, job.slot_at) for job in jobs}) == len(jobs) == sum(fired)
    # A store that serves one process has shown the others nothing, so they have fired nothing.
    assert (len(jobs) >= 200) == runtime.capabilities.several_processes


@contextmanager
def a_node(url: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that fires, and end it afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.firing", url],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "firing\n"
            yield process
        finally:
            process.kill()


def stop(process: subprocess.Popen[str]) -> int:
    said, _ = process.communicate("stop\n", timeout=60)
    assert process.returncode == 0
    return int(said)
