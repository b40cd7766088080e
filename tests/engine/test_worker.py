"""The worker: endings, work that cannot be stopped, and a stop that leaves nobody behind."""

from __future__ import annotations

import json
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everwhen.engine.service import Service, ServiceOptions
from everwhen.errors import SchedulerShutdownError, StoreError
from everwhen.model.claim import ClaimedJob
from everwhen.model.job import Job
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import Target
from everwhen.operations.jobs import cancel_job, get_output, report_outcome
from everwhen.operations.schedules import get_schedule
from everwhen.store.opened import store_of
from everwhen.store.slots import Exchange
from everwhen.store.tick import TickReport
from everwhen.target import Run
from everwhen.targets.command import CommandTarget
from everwhen.targets.http import HttpTarget
from everwhen.wiring import Stack, open_stack
from tests.submissions import Submission, create_schedule
from tests.targets.http_server import a_server, status
from tests.targets.running import is_alive, pid_in, until


class Blocking:
    """A plain target that does not listen: it returns when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.returns = threading.Event()

    def run(self, spec: str, run: Run) -> Outcome:
        self.begun.set()
        self.returns.wait(60)
        return SUCCEEDED


class Raising:
    """An async target that raises what even `except Exception` does not catch."""

    async def run(self, spec: str, run: Run) -> Outcome:
        raise KeyboardInterrupt


class Odd:
    """A target that returns something else."""

    async def run(self, spec: str, run: Run) -> Outcome:
        return "fine"  # type: ignore[return-value]


@pytest.fixture
def stack() -> Iterator[Stack]:
    stack = open_stack("sqlite://")
    yield stack
    stack.close()


def a_service(stack: Stack, targets: dict[str, Any], **keys: Any) -> Service:
    return Service(stack.runtime, targets, ServiceOptions(**{"check_interval": 30.0, **keys}))


def add(
    stack: Stack, schedule_id: str, target: str, spec: dict[str, Any] | None = None, **fields: Any
) -> None:
    fields = {"every": "1h", **fields}
    submission = Submission(schedule_id, fields, Target(target, json.dumps(spec or {})), source="config")
    create_schedule(stack.runtime, submission)


def job_of(stack: Stack, schedule_id: str) -> Job:
    (job,) = jobs_of(stack, schedule_id)
    return job


def jobs_of(stack: Stack, schedule_id: str) -> list[Job]:
    return [
        j for j in store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100) if j.schedule_id == schedule_id
    ]


def has_status(stack: Stack, schedule_id: str, status: str) -> Callable[[], bool]:
    return lambda: [job.status for job in jobs_of(stack, schedule_id)] == [status]


def running_jobs(stack: Stack, schedule_id: str) -> int:
    schedule = store_of(stack.runtime).catalogue.get(schedule_id)
    assert schedule is not None
    return schedule.state.running_jobs


def test_a_call_begins_also_where_the_host_has_no_descriptor_for_the_alarm_of_its_deadline(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # of a loop that asyncio has half made
    target = Blocking()
    service = a_service(stack, {"blocking": target}, max_workers=1)
    service.prepare()
    add(stack, "a", "blocking", timeout="1h")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        service.ticker.step()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert target.begun.wait(60)
    target.returns.set()
    service.begin()
    until(has_status(stack, "a", "succeeded"))
    add(stack, "b", "blocking")  # its worker is free again
    until(has_status(stack, "b", "succeeded"))
    service.stop()


def test_r9_work_that_goes_on_is_over_at_its_deadline_and_keeps_its_worker_until_it_returns(
    stack: Stack,
) -> None:
    target = Blocking()
    service = a_service(stack, {"blocking": target}, max_workers=1)
    service.start()
    add(stack, "a", "blocking", timeout="1s")
    until(lambda: service.worker.running_count == 1)
    until(has_status(stack, "a", "timed_out"))
    job = job_of(stack, "a")
    assert (job.error, job.released_at) == ("timed out after 1s", None)
    assert (running_jobs(stack, "a"), service.worker.running_count) == (1, 1)
    target.returns.set()
    until(lambda: job_of(stack, "a").released_at is not None)
    until(lambda: service.worker.running_count == 0)
    assert (running_jobs(stack, "a"), job_of(stack, "a").status) == (0, "timed_out")
    service.stop()


def test_g1_a_stop_neither_waits_for_nor_counts_a_job_that_has_timed_out(
    stack: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    target, other = Blocking(), Blocking()
    service = a_service(stack, {"blocking": target, "other": other})
    service.start()
    add(stack, "a", "blocking", timeout="1s")
    until(has_status(stack, "a", "timed_out"))
    add(stack, "b", "other")
    assert other.begun.wait(30)
    with pytest.raises(SchedulerShutdownError, match=r"with 1 job\(s\) still running"):
        service.stop(timeout=0.1)
    assert (job_of(stack, "a").status, job_of(stack, "b").status) == ("timed_out", "queued")
    assert job_of(stack, "a").released_at is not None
    assert [text.partition(":")[0] for text in caplog.messages if "given back" in text] == [
        "1 job(s) were interrupted"
    ]
    target.returns.set()
    other.returns.set()


def test_g1_a_stop_with_nothing_but_such_a_job_is_clean_and_does_not_wait(
    stack: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    target = Blocking()
    service = a_service(stack, {"blocking": target})
    service.start()
    add(stack, "a", "blocking", timeout="1s")
    until(has_status(stack, "a", "timed_out"))
    service.stop(timeout=3_600.0)
    assert [text for text in caplog.messages if "given back" in text] == []
    target.returns.set()


def test_r9_a_cancelled_job_counts_as_running_until_its_work_has_returned(stack: Stack) -> None:
    target = Blocking()
    service = a_service(stack, {"blocking": target})
    service.start()
    add(stack, "a", "blocking")
    assert target.begun.wait(30)
    cancel_job(stack.runtime, job_of(stack, "a").job_id)
    until(has_status(stack, "a", "cancelled"))
    assert running_jobs(stack, "a") == 1
    target.returns.set()
    until(lambda: running_jobs(stack, "a") == 0)
    assert job_of(stack, "a").status == "cancelled"
    service.stop()


def test_a_cancel_reaches_a_running_process_at_once(stack: Stack, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    service = a_service(stack, {"command": CommandTarget()}, check_interval=3_600.0)
    service.start()
    add(stack, "a", "command", {"argv": ["sh", "-c", f"echo $$ > {mark}; exec sleep 60"]})
    pid = pid_in(mark)
    cancel_job(stack.runtime, job_of(stack, "a").job_id)
    until(lambda: not is_alive(pid))
    until(lambda: running_jobs(stack, "a") == 0)
    service.stop()


def test_g1_past_the_timeout_processes_are_ended_and_their_jobs_given_back(
    stack: Stack, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    service = a_service(stack, {"command": CommandTarget()})
    service.start()
    add(stack, "a", "command", {"argv": ["sh", "-c", f"echo $$ > {mark}; exec sleep 60"]})
    pid = pid_in(mark)
    with pytest.raises(SchedulerShutdownError, match=r"timed out after 100ms with 1 job\(s\) still running"):
        service.stop(timeout=0.1)
    assert not is_alive(pid)
    job = job_of(stack, "a")
    assert (job.status, job.attempt, job.rescues) == ("queued", 1, 0)
    assert "everwhen-targets" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("target", "fault"),
    [(Raising(), "KeyboardInterrupt"), (Odd(), "the target returned str, not an outcome")],
)
def test_whatever_a_target_does_is_an_outcome_and_the_worker_goes_on(
    stack: Stack, target: Any, fault: str
) -> None:
    service = a_service(stack, {"odd": target, "command": CommandTarget()})
    service.start()
    add(stack, "a", "odd")
    until(has_status(stack, "a", "failed"))
    assert fault in (job_of(stack, "a").error or "")
    add(stack, "b", "command", {"argv": ["true"]})
    until(has_status(stack, "b", "succeeded"))
    service.stop()


class Refusing:
    """Slots whose first settlement fails."""

    def __init__(self, slots: Any) -> None:
        self._slots = slots
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slots, name)

    def settle(self, now: int, ends: Any) -> int:
        if ends and not self.refused:
            self.refused += 1
            raise StoreError("disk full")
        settled: int = self._slots.settle(now, ends)
        return settled

    def exchange(self, now: int, ends: Any, **keys: Any) -> Exchange:
        self.settle(now, ())
        if not self.refused:
            self.refused += 1
            raise StoreError("disk full")
        exchanged: Exchange = self._slots.exchange(now, ends, **keys)
        return exchanged


def test_an_end_that_the_store_refused_is_reported_again(stack: Stack) -> None:
    store_of(stack.runtime).slots = slots = Refusing(store_of(stack.runtime).slots)  # type: ignore[assignment]
    service = a_service(stack, {"command": CommandTarget()})
    service.start()
    add(stack, "a", "command", {"argv": ["true"]})
    until(has_status(stack, "a", "succeeded"))
    assert slots.refused == 1
    service.stop()


class Forgetful:
    """Slots whose first claims are committed, and their answers lost; `is_silent`: it seems that nothing was ready."""

    def __init__(self, slots: Any, *, losses: int = 1, is_silent: bool = False) -> None:
        self._slots = slots
        self._is_silent = is_silent
        self.left = losses
        self.lost = 0  # jobs that were claimed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slots, name)

    def tick(self, now: int, **keys: Any) -> TickReport:
        report: TickReport = self._slots.tick(now, **keys)
        if not report.claimed or not self.left:
            return report
        self.left -= 1
        if self._is_silent:
            return replace(report, claimed=())
        raise StoreError("the connection is lost")

    def claim_jobs(self, now: int, **keys: Any) -> list[ClaimedJob]:
        claimed: list[ClaimedJob] = self._slots.claim_jobs(now, **keys)
        if not claimed or not self.left:
            return claimed
        self.left -= 1
        if self._is_silent:
            return []
        raise StoreError("the connection is lost")

    def exchange(self, now: int, ends: Any, **keys: Any) -> Exchange:
        exchanged: Exchange = self._slots.exchange(now, ends, **keys)
        if not exchanged.claimed or not self.left:
            return exchanged
        self.left -= 1
        self.lost += len(exchanged.claimed)
        raise StoreError("the connection is lost")


@pytest.mark.parametrize("losses", [1, 3])
def test_r8_an_exchange_whose_answer_was_lost_ends_nothing_twice_and_leaves_nothing_behind(
    stack: Stack, losses: int
) -> None:
    service = a_service(stack, {"command": CommandTarget()}, max_workers=1)
    for number in range(4):
        add(stack, f"s{number}", "command", {"argv": ["true"]})
    while service.ticker.step():
        pass
    slots = Forgetful(store_of(stack.runtime).slots, losses=losses)
    slots.claim_jobs = slots._slots.claim_jobs  # type: ignore[method-assign]
    store_of(stack.runtime).slots = slots  # type: ignore[assignment]
    service = a_service(stack, {"command": CommandTarget()}, max_workers=1)
    service.start()
    for number in range(4):
        until(has_status(stack, f"s{number}", "succeeded"))
    service.stop()
    states = [get_schedule(stack.runtime, f"s{number}").state for number in range(4)]
    assert [(s.run_count, s.error_count, s.running_jobs, s.outstanding) for s in states] == [(1, 0, 0, 0)] * 4
    assert slots.left == 0
    assert sum(job_of(stack, f"s{number}").attempt for number in range(4)) == 4 + slots.lost


@pytest.mark.parametrize("on_lost", ["rerun", "fail"])
def test_r8_a_job_whose_claim_was_never_answered_runs_and_none_of_its_rescues_is_spent(
    stack: Stack, on_lost: str
) -> None:
    store_of(stack.runtime).slots = slots = Forgetful(store_of(stack.runtime).slots, losses=5)  # type: ignore[assignment]
    service = a_service(stack, {"command": CommandTarget()})
    service.start()
    add(stack, "a", "command", {"argv": ["true"]}, on_lost=on_lost)
    until(has_status(stack, "a", "succeeded"))
    job = job_of(stack, "a")
    assert (slots.left, job.attempt, job.rescues, running_jobs(stack, "a")) == (0, 6, 0, 0)
    found = store_of(stack.runtime).ledger.events(EventFilter(types=["job.lost", "job.rescued"]), limit=10)
    assert {(e.event.type, e.event.detail["began"]) for e in found} == {("job.rescued", False)}
    assert len(found) == 5
    service.stop()


def test_r8_a_claim_that_the_store_repeated_without_a_word_is_found_at_the_next_heartbeat(
    stack: Stack,
) -> None:
    store_of(stack.runtime).slots = Forgetful(store_of(stack.runtime).slots, is_silent=True)  # type: ignore[assignment]
    service = a_service(stack, {"command": CommandTarget()}, lease=3.0)
    service.start()
    add(stack, "a", "command", {"argv": ["true"]})
    until(has_status(stack, "a", "succeeded"))
    service.stop()


class Away:
    """Slots of a database that goes away: it refuses all that is written, or never answers."""

    def __init__(self, slots: Any, *, hangs: bool) -> None:
        self._slots = slots
        self._hangs = hangs
        self.is_away = False
        self.refusals = 0
        self.is_back = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slots, name)

    def settle(self, now: int, ends: Any) -> int:
        self._refuse()
        settled: int = self._slots.settle(now, ends)
        return settled

    def exchange(self, now: int, ends: Any, **keys: Any) -> Exchange:
        self._refuse()
        exchanged: Exchange = self._slots.exchange(now, ends, **keys)
        return exchanged

    def record(self, events: Any) -> None:
        self._refuse(hangs=False)
        self._slots.record(events)

    def sign_off_node(self, now: int, *, node: str, is_passing: bool = False) -> None:
        self._refuse(hangs=False)
        self._slots.sign_off_node(now, node=node, is_passing=is_passing)

    def _refuse(self, *, hangs: bool = True) -> None:
        if self.is_away and hangs and self._hangs:
            self.is_back.wait(600)  # longer than a test may take: who waits for it, fails
        if self.is_away:
            self.refusals += 1
            raise StoreError("the database is away")


@pytest.mark.parametrize("hangs", [False, True])
def test_g1_a_stop_while_the_database_is_away_leaves_no_process_and_holds_its_timeout(
    stack: Stack, tmp_path: Path, hangs: bool
) -> None:
    store_of(stack.runtime).slots = slots = Away(store_of(stack.runtime).slots, hangs=hangs)  # type: ignore[assignment]
    mark, target = tmp_path / "pid", Blocking()
    service = a_service(stack, {"command": CommandTarget(), "blocking": target})
    service.start()
    add(stack, "a", "command", {"argv": ["sh", "-c", f"echo $$ > {mark}; exec sleep 60"]})
    add(stack, "b", "blocking")
    pid = pid_in(mark)
    assert target.begun.wait(30)
    slots.is_away = True
    target.returns.set()
    with pytest.raises(SchedulerShutdownError, match=r"with 2 job\(s\) still running"):
        service.stop(timeout=0.5)
    assert (is_alive(pid), service.status) == (False, "stopped")
    assert "everwhen-targets" not in {thread.name for thread in threading.enumerate()}
    slots.is_away = False
    slots.is_back.set()


def test_g1_jobs_are_settled_when_the_database_is_back_before_the_timeout(stack: Stack) -> None:
    store_of(stack.runtime).slots = slots = Away(store_of(stack.runtime).slots, hangs=True)  # type: ignore[assignment]
    target = Blocking()
    service = a_service(stack, {"blocking": target})
    service.start()
    add(stack, "a", "blocking")
    assert target.begun.wait(30)
    slots.is_away = True
    target.returns.set()
    stopping = threading.Thread(target=service.stop)
    stopping.start()
    until(lambda: service.status == "stopping")
    slots.is_away = False
    slots.is_back.set()
    stopping.join(30)
    assert (service.status, job_of(stack, "a").status) == ("stopped", "succeeded")


def test_a_job_that_was_rescued_from_its_node_and_claimed_by_it_again_runs_once_and_is_not_forgotten(
    stack: Stack, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    pids.touch()
    service = a_service(stack, {"command": CommandTarget()}, max_workers=2)
    service.start()
    add(stack, "a", "command", {"argv": ["sh", "-c", f"echo $$ >> {pids}; exec sleep 60"]})
    until(lambda: len(pids.read_text().split()) == 1)
    assert store_of(stack.runtime).slots.rescue(stack.runtime.clock.now(), node="another", lease=0) == 1
    stack.runtime.wake_workers()
    until(lambda: len(pids.read_text().split()) == 2)
    first, second = map(int, pids.read_text().split())
    assert not is_alive(first)
    until(lambda: service.worker.running_count == 1)
    job = job_of(stack, "a")
    assert (is_alive(second), job.status, job.attempt, job.rescues) == (True, "running", 2, 1)
    cancel_job(stack.runtime, job.job_id)
    until(lambda: not is_alive(second))
    until(lambda: service.worker.running_count == 0)
    service.stop()


def test_r9_a_copy_that_cannot_be_stopped_takes_its_worker_beside_the_new_one(stack: Stack) -> None:
    target = Blocking()
    service = a_service(stack, {"blocking": target}, max_workers=2)
    service.start()
    add(stack, "a", "blocking")
    assert target.begun.wait(30)
    target.begun.clear()
    assert store_of(stack.runtime).slots.rescue(stack.runtime.clock.now(), node="another", lease=0) == 1
    stack.runtime.wake_workers()
    assert target.begun.wait(30)
    assert service.worker.running_count == 2
    target.returns.set()
    until(lambda: service.worker.running_count == 0)
    assert (job_of(stack, "a").status, running_jobs(stack, "a")) == ("succeeded", 0)
    service.stop()


def test_a_202_frees_its_worker_and_the_report_settles_the_job(stack: Stack) -> None:
    with a_server(status(202)) as server:
        service = a_service(stack, {"http": HttpTarget(stack.runtime.clock.now)}, max_workers=1)
        service.start()
        add(stack, "a", "http", {"url": server.url})
        until(lambda: bool(server.seen))
        until(lambda: service.worker.running_count == 0)
        job = job_of(stack, "a")
        assert (job.status, running_jobs(stack, "a")) == ("running", 1)
        token = server.seen[0].headers["everwhen-outcome-token"]
        report_outcome(stack.runtime, job.job_id, token, status="succeeded", result="done")
        assert (job_of(stack, "a").status, running_jobs(stack, "a")) == ("succeeded", 0)
        service.stop()


def test_who_sees_that_a_job_has_ended_sees_all_that_it_printed(stack: Stack) -> None:
    service = a_service(stack, {"command": CommandTarget()})
    service.start()
    for name in "abc":
        add(stack, name, "command", {"argv": ["sh", "-c", "echo out; echo err >&2"]})
        until(lambda: any(job.status == "succeeded" for job in jobs_of(stack, name)))  # noqa: B023
        assert len(get_output(stack.runtime, job_of(stack, name).job_id)) == 2
    service.stop()


def test_what_a_job_prints_can_be_read_while_it_runs(stack: Stack) -> None:
    service = a_service(stack, {"command": CommandTarget()})
    service.start()
    add(stack, "a", "command", {"argv": ["sh", "-c", "echo out; echo err >&2; exec sleep 60"]})
    until(lambda: bool(jobs_of(stack, "a")))
    job_id = job_of(stack, "a").job_id
    until(lambda: len(get_output(stack.runtime, job_id)) == 2)
    pieces = [(piece.stream.stream, piece.data) for piece in get_output(stack.runtime, job_id)]
    assert pieces == [("stderr", b"err\n"), ("stdout", b"out\n")]
    assert job_of(stack, "a").status == "running"
    cancel_job(stack.runtime, job_id)
    service.stop()
