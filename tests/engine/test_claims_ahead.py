"""Jobs that a node claims before it has a worker for each, and jobs that begin in the commit that fires them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from everwhen.engine.claims_ahead import MOST_AHEAD, Pace
from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.job import Job, JobStatus
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import Target
from everwhen.operations.jobs import cancel_job
from everwhen.operations.maintenance import prove
from everwhen.operations.schedules import get_schedule
from everwhen.store.opened import store_of
from everwhen.target import Run
from everwhen.wiring import Stack, open_stack
from tests.submissions import Submission, create_schedules
from tests.targets.running import until


class Gate:
    """A plain target: `quick` returns at once, everything else when the test lets it."""

    def __init__(self) -> None:
        self.returns = threading.Event()
        self.begun: list[str] = []
        self.most = self._now = 0
        self._lock = threading.Lock()

    def run(self, spec: str, run: Run) -> Outcome:
        with self._lock:
            self.begun.append(run.schedule_id)
            self._now += 1
            self.most = max(self.most, self._now)
        if json.loads(spec) != "quick":
            self.returns.wait(60)
        with self._lock:
            self._now -= 1
        return SUCCEEDED


@pytest.fixture(params=["sqlite", "postgres"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    is_file = request.param == "sqlite"
    opened = open_stack(f"sqlite:///{tmp_path}/a.db" if is_file else request.getfixturevalue("postgres_url"))
    yield opened
    opened.close()


def add(stack: Stack, kind: str, count: int, **fields: Any) -> None:
    target = Target("gate", json.dumps(kind))
    fields = {"every": "1h", "timeout": "10m", **fields}
    create_schedules(
        stack.runtime, [Submission(f"{kind}-{n}", fields, target, source="config") for n in range(count)]
    )


def a_node(stack: Stack, gate: Gate, **keys: Any) -> Service:
    return Service(stack.runtime, {"gate": gate}, ServiceOptions(**{"check_interval": 30.0, **keys}))


def jobs(stack: Stack, kind: str, status: str) -> list[Job]:
    found = store_of(stack.runtime).ledger.jobs(JobFilter(statuses=(cast("JobStatus", status),)), limit=500)
    return [job for job in found if job.schedule_id.startswith(kind)]


def test_a_pace_follows_what_has_ended_and_forgets_what_nothing_confirms() -> None:
    pace = Pace()
    assert pace.count_ahead(1.0) == 0
    pace.begin(1.0)
    for step in range(1, 8):
        pace.note_ended(100, 1.0 + step * 0.1)
    assert 45 <= pace.count_ahead(1.7) <= 50
    assert pace.count_ahead(1.7 + 1.0) == 0
    pace.note_ended(1_000_000, 1.8)
    assert pace.count_ahead(1.8) == MOST_AHEAD


def test_what_was_claimed_ahead_of_long_jobs_is_given_back_untouched_and_no_more_than_the_workers_run(
    stack: Stack,
) -> None:
    gate = Gate()
    add(stack, "quick", 200)
    node = a_node(stack, gate, max_workers=2)
    node.start()
    try:
        until(lambda: len(jobs(stack, "quick", "succeeded")) == 200)
        add(stack, "long", 40)
        until(lambda: len(jobs(stack, "long", "running")) == 2 and len(jobs(stack, "long", "queued")) == 38)
        assert {(job.attempt, job.rescues, job.node) for job in jobs(stack, "long", "queued")} == {
            (0, 0, None)
        }
        assert node.worker.running_count == 2
        gate.returns.set()
        until(lambda: len(jobs(stack, "long", "succeeded")) == 40)
    finally:
        gate.returns.set()
        node.stop()
    assert gate.most <= 2
    assert len(gate.begun) == len(set(gate.begun)) == 240
    assert {job.attempt for job in jobs(stack, "long", "succeeded")} == {1}
    events = store_of(stack.runtime).ledger.events(EventFilter(types=("job.rescued", "job.lost")), limit=10)
    assert events == []
    assert prove(stack.runtime).faults == ()


def test_a_node_that_stops_begins_nothing_that_it_claimed_ahead(stack: Stack) -> None:
    gate = Gate()
    add(stack, "quick", 200)
    node = a_node(stack, gate, max_workers=1)
    node.start()
    until(lambda: len(jobs(stack, "quick", "succeeded")) > 0)
    node.stop()
    begun, queued = len(gate.begun), jobs(stack, "quick", "queued")
    assert jobs(stack, "quick", "running") == []
    assert begun + len(queued) == 200
    assert {(job.attempt, job.node) for job in queued} <= {(0, None)}


def test_a_job_that_is_cancelled_before_it_begins_never_does(stack: Stack) -> None:
    gate = Gate()
    add(stack, "quick", 200)
    node = a_node(stack, gate, max_workers=1)
    node.start()
    try:
        until(lambda: len(jobs(stack, "quick", "succeeded")) == 200)
        add(stack, "long", 10)
        until(lambda: len(gate.begun) == 201)
        for job in jobs(stack, "long", "queued") + jobs(stack, "long", "running"):
            if job.schedule_id not in gate.begun:
                cancel_job(stack.runtime, job.job_id)
        until(lambda: sum(job.released_at is not None for job in jobs(stack, "long", "cancelled")) == 9)
        gate.returns.set()
        until(lambda: not jobs(stack, "long", "running") and not jobs(stack, "long", "queued"))
    finally:
        gate.returns.set()
        node.stop()
    assert len(gate.begun) == 201
    cancelled = jobs(stack, "long", "cancelled")
    assert len(cancelled) == 9
    assert all(job.released_at is not None for job in cancelled)
    assert prove(stack.runtime).faults == ()


def test_a_job_starts_on_record_when_its_function_does(stack: Stack) -> None:
    gate = Gate()
    add(stack, "quick", 100)
    node = a_node(stack, gate, max_workers=1)
    node.start()
    until(lambda: len(jobs(stack, "quick", "succeeded")) == 100)
    node.stop()
    for job in jobs(stack, "quick", "succeeded"):
        assert job.started_at is not None and job.ended_at is not None
        assert job.created_at <= job.started_at <= job.ended_at
        assert get_schedule(stack.runtime, job.schedule_id).state.last_run_at == job.started_at
    assert prove(stack.runtime).faults == ()


def test_what_an_idle_node_fires_begins_in_the_same_transaction(stack: Stack) -> None:
    gate = Gate()
    node = a_node(stack, gate, max_workers=4)
    node.prepare()
    try:
        add(stack, "long", 3)
        assert node.ticker.step() is False
        assert len(jobs(stack, "long", "running")) == 3
        assert node.worker.running_count == 3
        assert not node.ticker.left_to_workers
        assert node.worker.put_orphans_back() == 0
    finally:
        gate.returns.set()
        node.stop()


def test_more_than_the_free_workers_is_left_to_the_order_of_the_queue(stack: Stack) -> None:
    gate = Gate()
    node = a_node(stack, gate, max_workers=2)
    node.prepare()
    try:
        add(stack, "long", 3)
        node.ticker.step()
        assert jobs(stack, "long", "running") == []
        add(stack, "late", 1)
        node.ticker.step()  # three jobs wait: the fourth does not overtake them
        assert jobs(stack, "late", "running") == []
        assert node.ticker.left_to_workers
    finally:
        gate.returns.set()
        node.stop()
