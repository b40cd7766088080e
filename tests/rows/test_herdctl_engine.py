"""Rows H: herdctl's loop and state, as far as deciding, storing and looping go."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import pytest

from everwhen.clock import SystemClock
from everwhen.engine.loop import Wake
from everwhen.engine.service import Service, ServiceOptions
from everwhen.errors import StoreError
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Target
from everwhen.operations import schedules as operations
from everwhen.store.opened import store_of
from everwhen.store.tick import TickReport
from everwhen.target import Run
from everwhen.testing import ManualScheduler, manual_scheduler
from everwhen.wiring import Stack, open_stack
from tests.submissions import Submission, create_schedule
from tests.targets.running import until

AGENT = {"interval_from": "completion", "max_concurrent": 1}


def scheduler(start: str = "2026-01-05T08:00:00Z") -> ManualScheduler:
    return manual_scheduler(start)


def agent_schedule(s: ManualScheduler, name: str, **fields: Any) -> str:
    schedule_id = f"reviewer.{name}"
    s.add(schedule_id, group="reviewer", **{**AGENT, **fields})
    return schedule_id


class Gate:
    """A target that runs until it is let through, and says when it has begun."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.pass_through = threading.Event()
        self.count = 0

    def run(self, spec: str, run: Run) -> Outcome:
        self.count += 1
        self.begun.set()
        while not (self.pass_through.wait(0.01) or run.cancelled.is_set()):
            pass
        return Outcome("cancelled" if run.cancelled.is_set() else "succeeded")


def a_service(gate: Gate, **keys: Any) -> tuple[Stack, Service]:
    stack = open_stack("sqlite://", clock=SystemClock())
    return stack, Service(stack.runtime, {"gate": gate}, ServiceOptions(**{"check_interval": 5.0, **keys}))


def add(stack: Stack, schedule_id: str, **fields: Any) -> None:
    create_schedule(stack.runtime, Submission(schedule_id, fields, Target("gate")))


def test_h1_one_loop_over_the_schedules_of_every_agent() -> None:
    s = scheduler()
    agent_schedule(s, "check-issues", every="5m")
    s.add("writer.draft", group="writer", every="10m", **AGENT)
    s.advance("10m")
    assert {job.schedule_id for job in s.jobs()} == {"reviewer.check-issues", "writer.draft"}


class Breaking:
    """A store whose first ticks fail."""

    def __init__(self, slots: Any, failures: int) -> None:
        self._slots = slots
        self.failures = failures
        self.recovered = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slots, name)

    def tick(self, now: int, **keys: Any) -> TickReport:
        if self.failures:
            self.failures -= 1
            raise StoreError("the disk is full")
        self.recovered.set()
        report: TickReport = self._slots.tick(now, **keys)
        return report


def test_h2_an_error_in_a_check_is_logged_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    gate.pass_through.set()
    stack = open_stack("sqlite://")
    breaking = Breaking(store_of(stack.runtime).slots, failures=2)
    store_of(stack.runtime).slots = breaking  # type: ignore[assignment]
    service = Service(stack.runtime, {"gate": gate}, ServiceOptions(check_interval=5.0))
    add(stack, "a", every="1h")
    with caplog.at_level(logging.ERROR, logger="everwhen"):
        service.start()
        assert breaking.recovered.wait(60)
        assert gate.begun.wait(60)
        service.stop()
    assert "Error during schedule check: the disk is full" in caplog.messages


def test_h3_h26_stop_wakes_every_loop_and_does_not_wait_out_the_interval() -> None:
    before = set(threading.enumerate())
    # Nothing else wakes a loop: no heartbeat is written within an hour, and no slot is due.
    stack, service = a_service(Gate(), check_interval=3_600.0, lease=3 * 3_600.0)
    service.start()
    until(lambda: is_asleep("everwhen-scheduler") and is_asleep("everwhen-worker"))
    service.stop()
    assert service.status == "stopped"
    # One that is still asleep is left behind after ten seconds.
    assert {thread.name for thread in set(threading.enumerate()) - before} == set()
    stack.close()


def is_asleep(name: str) -> bool:
    """Whether a thread waits to be woken, by where it is."""
    thread = next(one for one in threading.enumerate() if one.name == name)
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code is not Wake.wait.__code__:
        frame = frame.f_back
    return frame is not None


def test_h7_an_interval_runs_from_completion() -> None:
    s = scheduler()
    name = agent_schedule(s, "check-issues", every="5m")
    s.step(work=False)
    for _ in range(3):
        (running,) = s.claim()
        s.advance("10m", work=False)  # it takes ten minutes
        s.settle(running)
        s.advance("5m", work=False)
    starts = [f"{job.slot:%H:%M}" for job in s.jobs(name)]
    assert starts == ["08:00", "08:15", "08:30", "08:45"]
    assert s.check().is_clean


def test_h11_missed_cron_is_not_caught_up() -> None:
    s = scheduler("2026-01-05T08:30:00Z")
    name = agent_schedule(s, "report", cron="0 9 * * *", interval_from="slot")
    s.sleep("5h")
    s.restart()
    s.step()
    assert s.jobs(name) == []
    assert [event.reason for event in s.events(name, "schedule.missed")] == ["down"]
    next_nine = 19 * 3_600_000_000 + 1_800_000_000  # it is 13:30 now
    assert s.state(name).next_run_at == s.clock.now() + next_nine


def test_h12_the_first_condition_that_fails_is_the_answer() -> None:
    s = scheduler()
    hook = agent_schedule(s, "on-push", type="webhook")
    one = agent_schedule(s, "one", every="5m")
    two = agent_schedule(s, "two", every="5m", first_run="after_interval")
    assert s.check_schedule(hook).skip_reason == "unsupported_type"
    assert s.check_schedule(one) == (True, None)
    assert s.check_schedule(two).skip_reason == "not_due"
    s.tick()
    assert s.check_schedule(one).skip_reason == "already_running"
    assert s.check_schedule(two).skip_reason == "at_capacity"
    s.pause(two)
    assert s.check_schedule(two).skip_reason == "disabled"


def test_h18_the_first_run_is_immediate() -> None:
    s = scheduler()
    name = agent_schedule(s, "check-issues", every="5m")
    s.step()
    assert [job.slot_at for job in s.jobs(name)] == [s.clock.now()]


def test_h19_a_chain_that_is_behind_runs_once_at_once() -> None:
    s = scheduler()
    name = agent_schedule(s, "check-issues", every="5m", first_run="after_interval")
    s.sleep("2h")
    s.restart()
    s.step()
    assert [job.origin for job in s.jobs(name)] == ["catch_up"]
    assert s.state(name).next_run_at == s.clock.now() + 300_000_000
    assert s.check().is_clean


def test_h20_what_herdctl_keeps_in_its_state_file_is_on_the_row() -> None:
    s = scheduler()
    name = agent_schedule(s, "check-issues", every="5m")
    s.outcome = lambda claimed: Outcome("failed", error="model overloaded")
    s.step()
    state = s.state(name)
    assert (state.last_run_at, state.last_error) == (s.clock.now(), "model overloaded")
    assert state.next_run_at == s.clock.now() + 300_000_000


def test_h24_running_jobs_are_counted_per_agent_and_in_all() -> None:
    s = scheduler()
    agent_schedule(s, "one", every="5m", max_concurrent=2)
    agent_schedule(s, "two", every="5m", max_concurrent=2)
    s.add("writer.draft", group="writer", every="5m")
    s.tick()
    assert len(s.claim()) == 3
    shared = store_of(s.runtime).catalogue.shared_of(operations.get_schedule(s.runtime, "reviewer.one"))
    assert shared.limit("capacity:reviewer").running == 2


def test_h25_a_stale_running_mark_cannot_exist_because_leases_expire() -> None:
    s = scheduler()
    name = agent_schedule(s, "check-issues", every="5m")
    s.tick()
    (lost,) = s.claim()
    s.sleep("1m")
    s.restart()
    store_of(s.runtime).slots.rescue(s.clock.now(), node=s.node, lease=30_000_000)
    assert s.state(name).running_jobs == 0
    (again,) = s.claim()
    assert (again.job.job_id, again.job.attempt) == (lost.job.job_id, 2)
    assert s.settle(lost) == 0  # the old worker's word counts no more
    s.settle(again)
    assert [job.status for job in s.jobs(name)] == ["succeeded"]
    assert s.check().is_clean


def test_h31_a_check_only_reads_and_a_tick_of_many_slots_is_one_transaction() -> None:
    s = scheduler()
    for number in range(300):
        s.add(f"at-once-{number}", every="1h", first_run="after_interval")
    slots, commits = store_of(s.stack.runtime).slots, s.stack.database.change_counter
    before = commits()
    slots.tick(s.clock.now(), limit=500, behind=False)
    assert commits() == before  # nothing is due: nothing is written
    due_at = slots.next_wake_at()
    assert due_at is not None
    report = slots.tick(due_at, limit=500, behind=False)
    assert (report.fired, commits()) == (300, before + 1)
