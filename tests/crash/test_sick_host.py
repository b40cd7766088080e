"""A node whose host has no descriptor left burns no slots (R3): it gives back what it claimed, and claims no more."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everwhen.model.events import Event, EventType
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import Target
from everwhen.operations.system import list_problems, system_status
from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import Stack
from tests.crash.nodes import ROOT, opened, wait_until
from tests.submissions import Submission, create_schedules
from tests.targets.http_server import a_server, status


class RealNode:
    """A worker process with the real targets."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.real_node", url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.node = self._line()
        self._limits = resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the node ended by itself"
        return line.strip()

    def unreadiness(self) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        return self._line()

    def starve(self) -> None:
        """Leave it no free descriptor: the lowest that is not open is beyond its limit."""
        taken = {int(entry.name) for entry in Path(f"/proc/{self._process.pid}/fd").iterdir()}
        lowest = next(number for number in range(1 << 16) if number not in taken)
        resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, (lowest, self._limits[1]))

    def heal(self) -> None:
        resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, self._limits)

    def stop(self) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate(timeout=60)


@contextmanager
def a_node(url: str) -> Iterator[RealNode]:
    node = RealNode(url)
    try:
        yield node
    finally:
        node.kill()


def fire(stack: Stack, name: str, count: int, *targets: Target) -> None:
    """Have so many jobs ready, of each target in turn."""
    new = [
        Submission(f"{name}-{number}", {"every": "24h", "max_retries": 0}, targets[number % len(targets)])
        for number in range(count)
    ]
    create_schedules(stack.runtime, new)
    slots = store_of(stack.runtime).slots
    while slots.tick(stack.runtime.clock.now(), limit=500).fired:
        pass


def statuses(stack: Stack) -> Counter[str]:
    return Counter(job.status for job in store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10_000))


def events(stack: Stack, kind: EventType) -> list[Event]:
    found = store_of(stack.runtime).ledger.events(EventFilter(types=(kind,)), limit=10_000)
    return [one.event for one in found]


def unfit_nodes(stack: Stack) -> dict[str, str | None]:
    return {node.node: node.unfit for node in store_of(stack.runtime).upkeep.nodes()}


COMMAND = Target("command", json.dumps({"argv": ["/bin/true"]}))
ISOLATED = Target("python", json.dumps({"function": "os:getpid", "isolate": True}))


def test_a_sick_node_gives_its_jobs_back_and_leaves_the_queue_to_a_healthy_one(url: str) -> None:
    with opened(url) as stack, a_server(status(200, "well")) as server, a_node(url) as sick:
        fire(stack, "before", 4, COMMAND)
        wait_until(lambda: statuses(stack) == {"succeeded": 4})
        sick.starve()
        request = Target("http", json.dumps({"url": server.url}))
        fire(stack, "s", 300, COMMAND, request, COMMAND, ISOLATED)
        wait_until(lambda: unfit_nodes(stack)[sick.node] == "descriptors")
        assert "no file descriptor is free" in sick.unreadiness()
        problems = list_problems(system_status(stack.runtime), unready=None, dispatch="local", broker=None)
        assert any(f"node {sick.node} can begin no jobs" in problem for problem in problems)
        with a_node(url) as healthy:
            wait_until(lambda: statuses(stack) == {"succeeded": 304}, 240)
            healthy.stop()
        assert unfit_nodes(stack)[sick.node] == "descriptors"
        jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10_000)
        assert {(job.attempt, job.rescues, job.retry) for job in jobs} == {(1, 0, 0)}
        given_back = events(stack, "job.rescued")
        assert 1 <= len(given_back) <= 4 * 3
        assert {(one.detail["began"], one.detail["fault"]) for one in given_back} == {(False, "descriptors")}
        assert events(stack, "job.lost") == []

        sick.heal()
        fire(stack, "after", 8, COMMAND)
        wait_until(lambda: statuses(stack) == {"succeeded": 312}, 120)
        assert unfit_nodes(stack)[sick.node] is None
        assert [one.detail["node"] for one in events(stack, "node.unfit")] == [sick.node]
        assert [one.detail["node"] for one in events(stack, "node.fit")] == [sick.node]
        assert sick.unreadiness() == "None"
        sick.stop()
        with store_of(stack.runtime).ledger.history() as record:
            assert check_ledger(record, stack.runtime.clock.now()).is_clean
