"""The service: start order, loops that never disarm, wake-ups, clock steps."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everwhen.decide.status import end_pause
from everwhen.engine.loop import Wake
from everwhen.engine.service import Service, ServiceOptions
from everwhen.engine.ticker import Ticker, end_pauses
from everwhen.engine.watches import ClockWatch, SkewWatch
from everwhen.errors import StoreError
from everwhen.model.instants import to_datetime
from everwhen.model.message import message_target
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import Target
from everwhen.operations.jobs import trigger_schedule
from everwhen.operations.schedules import pause_schedule
from everwhen.store.opened import store_of
from everwhen.store.tick import TickReport
from everwhen.target import Run
from everwhen.targets.command import CommandTarget
from everwhen.targets.subscribers import CallbackSubscriber
from everwhen.testing import ManualClock, manual_scheduler
from everwhen.wiring import Stack, build_service, open_stack
from tests.submissions import Submission, create_schedule
from tests.targets.running import until

ROOT = Path(__file__).parents[2]


class Recording:
    """A target that counts its runs and can be waited for."""

    def __init__(self) -> None:
        self.ran = threading.Event()
        self.runs: list[Run] = []

    def run(self, spec: str, run: Run) -> Outcome:
        self.runs.append(run)
        self.ran.set()
        return SUCCEEDED


def serve(stack: Stack, target: Any, **keys: Any) -> Service:
    return Service(stack.runtime, {"recording": target}, ServiceOptions(**{"check_interval": 30.0, **keys}))


def add(stack: Stack, schedule_id: str, **fields: Any) -> None:
    create_schedule(stack.runtime, Submission(schedule_id, fields, Target("recording")))


def event_types(stack: Stack) -> list[str]:
    return [
        recorded.event.type
        for recorded in reversed(store_of(stack.runtime).ledger.events(EventFilter(), limit=1_000))
    ]


def test_a_new_schedule_wakes_a_sleeping_loop_at_once() -> None:
    stack, target = open_stack("sqlite://"), Recording()
    service = serve(stack, target, check_interval=3_600.0)
    service.start()
    add(stack, "a", every="1h")
    assert target.ran.wait(60)
    service.stop()
    assert target.runs[0].schedule_id == "a"


def test_starting_and_stopping_are_on_record() -> None:
    stack = open_stack("sqlite://")
    service = serve(stack, Recording())
    service.start()
    service.stop()
    service.stop()  # twice is once
    assert event_types(stack) == ["scheduler.started", "scheduler.stopped"]


class Blocking(Recording):
    """A target whose runs end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = threading.Event()

    def run(self, spec: str, run: Run) -> Outcome:
        super().run(spec, run)
        assert self.may_end.wait(60)
        return SUCCEEDED


def test_what_another_scheduler_fires_while_a_node_declares_it_reaches_the_subscriber_of_the_node() -> None:
    stack, events = open_stack("sqlite://"), list[dict[str, Any]]()
    arrived = threading.Event()

    def receive(event: dict[str, Any]) -> None:
        events.append(event)
        arrived.set()

    def declare() -> None:
        """Declare a message; a scheduler that runs already fires it before this one is ready."""
        said = Submission("says", {"every": "1h"}, message_target({"text": "hello"}))
        create_schedule(stack.runtime, said)
        store_of(stack.runtime).slots.tick(stack.runtime.clock.now(), limit=10)

    service = build_service(stack, subscribers=[CallbackSubscriber("inbox", receive)])
    service.start(declare)
    assert arrived.wait(60)
    service.stop()
    stack.close()
    assert [event["content"]["text"] for event in events] == ["hello"]


def test_from_the_moment_it_is_asked_to_stop_nothing_fires_and_nothing_is_claimed() -> None:
    stack, target = open_stack("sqlite://"), Blocking()
    service = serve(stack, target, max_workers=2)
    add(stack, "running", every="1h")
    service.start()
    assert target.ran.wait(60)
    service.prepare_to_stop()
    assert service.status == "stopping"
    add(stack, "due", every="1h")  # at once, and whoever makes it wakes the loops
    add(stack, "asked-for", every="1h", first_run="after_interval")
    trigger_schedule(stack.runtime, "asked-for")
    target.may_end.set()
    service.stop()
    jobs = [
        (job.schedule_id, job.status) for job in store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10)
    ]
    assert jobs == [("asked-for", "queued"), ("running", "succeeded")]


def test_a_stop_in_the_middle_of_a_backlog_leaves_the_rest_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack = open_stack("sqlite://")
    service = serve(stack, Recording(), role="scheduler")
    for number in range(5):
        add(stack, f"a{number}", every="1h")
    service.ticker._batch, tick = 2, store_of(stack.runtime).slots.tick

    def tick_and_report(*arguments: Any, **keys: Any) -> TickReport:
        report = tick(*arguments, **keys)
        service.prepare_to_stop()
        return report

    monkeypatch.setattr(store_of(stack.runtime).slots, "tick", tick_and_report)
    service.start()
    until(lambda: service.status == "stopping")
    service.stop()
    assert len(store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10)) == 2


def test_an_evaluation_that_is_over_leaves_the_rest_to_the_next() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    for number in range(5):
        s.add(f"a{number}", every="24h")
    ticker, asked = Ticker(store_of(s.runtime).slots, s.clock, batch=2), iter([False, True])
    assert ticker.step(lambda: next(asked))
    assert (ticker.counts.fired, ticker.counts.checks) == (4, 1)
    assert not ticker.step()
    assert ticker.counts.fired == 5


def test_another_process_on_the_same_file_wakes_the_loop(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    stack, target = open_stack(url), Recording()
    service = Service(
        stack.runtime,
        {"recording": target},
        ServiceOptions(check_interval=3_600.0),
        changes=stack.changes,
    )
    service.start()
    code = (
        "import sys\n"
        "from everwhen.wiring import open_stack\n"
        "from everwhen.model.schedule import Target\n"
        "from tests.submissions import Submission, create_schedule\n"
        "stack = open_stack(sys.argv[1])\n"
        "create_schedule(stack.runtime, Submission('from-elsewhere', {'every': '1h'}, Target('recording')))\n"
        "stack.close()\n"
    )
    subprocess.run([sys.executable, "-c", code, url], check=True, cwd=ROOT, timeout=60)
    assert target.ran.wait(60)
    service.stop()
    stack.close()


class Exploding:
    """A worker's target that raises what it likes."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.ran = threading.Event()

    def run(self, spec: str, run: Run) -> Outcome:
        self.ran.set()
        raise self.error


def test_a_target_that_raises_is_a_failed_job_and_the_worker_goes_on() -> None:
    stack, target = open_stack("sqlite://"), Exploding(RuntimeError("boom"))
    service = serve(stack, target)
    add(stack, "a", every="1h")
    service.start()
    assert target.ran.wait(60)
    service.stop()  # waits for the job to be settled
    schedule = store_of(stack.runtime).catalogue.get("a")
    assert schedule is not None and "boom" in (schedule.state.last_error or "")


class Blind:
    """An observer whose terminal is gone."""

    def started(self, run: Run) -> None:
        raise BrokenPipeError

    def ended(self, run: Run, outcome: Outcome) -> None:
        raise BrokenPipeError


def test_an_observer_that_fails_costs_no_worker_its_place() -> None:
    stack, target = open_stack("sqlite://"), Recording()
    service = serve(stack, target, max_workers=1, observer=Blind())
    add(stack, "a", every="1h")
    service.start()
    assert target.ran.wait(60)
    service.stop()
    schedule = store_of(stack.runtime).catalogue.get("a")
    assert schedule is not None and schedule.state.run_count == 1


def test_a_second_request_to_stop_ends_what_runs_at_once_and_gives_it_back() -> None:
    stack, target = open_stack("sqlite://"), CommandTarget()
    service = Service(stack.runtime, {"command": target}, ServiceOptions(check_interval=30.0))
    spec = '{"argv": ["sleep", "60"]}'
    create_schedule(stack.runtime, Submission("a", {"every": "1h"}, Target("command", spec)))
    service.start()
    while not target.processes.count:
        threading.Event().wait(0.01)
    service.kill()
    service.stop(timeout=30)
    schedule = store_of(stack.runtime).catalogue.get("a")
    assert schedule is not None and (schedule.state.last_error, schedule.state.running_jobs) == (None, 0)
    (job,) = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10)
    assert (job.status, job.attempt, job.rescues) == ("queued", 1, 0)


def test_a_job_that_somebody_kills_while_its_node_runs_has_failed() -> None:
    stack, target = open_stack("sqlite://"), CommandTarget()
    service = Service(stack.runtime, {"command": target}, ServiceOptions(check_interval=30.0))
    spec = '{"argv": ["sh", "-c", "kill -TERM $$"]}'
    create_schedule(stack.runtime, Submission("a", {"every": "1h"}, Target("command", spec)))
    service.start()
    while not (jobs := store_of(stack.runtime).ledger.jobs(JobFilter(statuses=["failed"]), limit=10)):
        threading.Event().wait(0.01)
    service.stop()
    assert [job.error for job in jobs] == ["killed by SIGTERM"]


def test_what_a_scheduler_misses_from_its_first_heartbeat_on_is_late() -> None:
    clock = ManualClock("2026-01-05T08:00:00Z")
    stack = open_stack("sqlite://", clock=clock)
    spec = Target("command", '{"argv": ["true"]}')
    create_schedule(stack.runtime, Submission("a", {"every": "10s", "first_run": "after_interval"}, spec))
    clock.advance("25s")
    service = Service(stack.runtime, {}, ServiceOptions(role="scheduler"))
    service.prepare()
    clock.advance("22s")  # before its first evaluation, and before its second heartbeat
    service.ticker.step()
    service.stop()
    found = store_of(stack.runtime).ledger.events(EventFilter(types=["schedule.missed"]), limit=10)
    stack.close()
    events = [recorded.event for recorded in found]
    missed = sorted((to_datetime(event.slot_at or 0).second, event.reason) for event in events)
    assert missed == [(10, "down"), (20, "down"), (30, "late"), (40, "late")]


class SlowTicks:
    """Each transaction takes 60 ms of the clock that stands still."""

    def __init__(self, slots: Any, clock: ManualClock) -> None:
        self.slots = slots
        self.clock = clock

    def tick(self, now: int, **keys: Any) -> Any:
        report = self.slots.tick(now, **keys)
        self.clock.advance(timedelta(seconds=0.06))
        return report


@pytest.mark.parametrize(
    ("beat", "declaring", "opening", "fired"),
    [
        (0.9, 0.02, 0.05, [0, 0, 0, 1, 1, 1]),
        (0.9, 0.02, 0.15, [0, 0, 0, 1, 1, 1]),
        (0.9, 0.02, 0.6, [0, 0, 0, 1, 1, 1]),
        # One begins before the schedules are there, the next one between two batches.
        (0.98, 0.05, 0.9, [1, 1, 1, 2, 2, 2]),
    ],
)
def test_a_second_that_begins_while_a_node_starts_costs_no_slot(
    beat: float, declaring: float, opening: float, fired: list[int]
) -> None:
    """Between its first heartbeat and its first evaluation it declares its schedules and opens its API."""
    clock = ManualClock("2026-01-05T08:00:00Z")
    stack = open_stack("sqlite://", clock=clock)
    spec = Target("command", '{"argv": ["true"]}')
    clock.advance(timedelta(seconds=beat))

    def declare() -> None:
        clock.advance(timedelta(seconds=declaring))
        for name in "abc":
            create_schedule(stack.runtime, Submission(name, {"every": "1s", "if_running": "allow"}, spec))

    service = Service(stack.runtime, {}, ServiceOptions(role="scheduler"))
    slots: Any = SlowTicks(store_of(stack.runtime).slots, clock)
    service.ticker = Ticker(slots, clock, batch=2)  # not all of them in one transaction
    service.prepare(declare)
    clock.advance(timedelta(seconds=opening))
    service.ticker.step()
    jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10)
    missed = store_of(stack.runtime).ledger.events(EventFilter(types=["schedule.missed"]), limit=10)
    service.stop()
    stack.close()
    assert missed == []
    assert sorted(to_datetime(job.slot_at).second for job in jobs) == fired


def test_a_pause_with_an_end_ends_by_itself() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1h")
    pause_schedule(s.runtime, "a", until=s.clock.now() + 60_000_000)
    assert end_pauses(s.runtime) == 0
    assert s.state("a").status == "paused"
    s.clock.advance("1m")
    assert end_pauses(s.runtime) == 1
    assert (s.state("a").status, s.state("a").resume_at) == ("active", None)
    assert s.check().is_clean


def test_a_pause_ends_on_time_and_not_at_the_next_check() -> None:
    stack, target = open_stack("sqlite://"), Recording()
    add(stack, "a", at="2030-01-01T00:00:00Z")
    service = serve(stack, target, check_interval=3_600.0, lease=3_600.0)
    service.start()
    pause_schedule(stack.runtime, "a", until=stack.runtime.clock.now() + 300_000)
    deadline = time.monotonic() + 60
    while "schedule.resumed" not in event_types(stack):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    (resumed,) = store_of(stack.runtime).ledger.events(EventFilter(types=["schedule.resumed"]), limit=2)
    (paused,) = store_of(stack.runtime).ledger.events(EventFilter(types=["schedule.paused"]), limit=2)
    assert resumed.event.actor == "until"
    assert resumed.event.at - paused.event.at > 250_000
    service.stop()


def test_a_pause_that_was_prolonged_or_ended_meanwhile_is_left_alone() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1h")
    s.pause("a", until=s.clock.now() + 60_000_000)
    s.clock.advance("2m")
    s.resume("a")
    resumed = s.state("a")
    assert store_of(s.runtime).catalogue.change(s.clock.now(), "a", end_pause).after == resumed
    s.pause("a", until=s.clock.now() + 60_000_000)
    paused = s.state("a")
    assert store_of(s.runtime).catalogue.change(s.clock.now(), "a", end_pause).after == paused


def test_a_step_of_the_clock_is_distinguished_from_time_that_passed() -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    clock.advance("1h")
    assert watch.look() is None
    clock.step("1h")
    forwards = watch.look()
    assert forwards is not None and forwards.seconds == 3_600
    clock.step("-2h")
    backwards = watch.look()
    assert backwards is not None and backwards.seconds == -7_200
    clock.step("1s")
    assert watch.look() is None


def test_after_a_step_of_its_clock_a_node_rescues_nobody_for_a_whole_lease() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="24h")
    s.tick()
    (running,) = s.claim()
    other = Service(s.runtime, {}, ServiceOptions(lease=30.0))
    s.clock.step("1h")
    other.watch_clock()
    other.lease.rescue()
    assert s.jobs("a")[0].status == "running"
    s.clock.advance("31s")
    other.lease.rescue()
    assert s.jobs("a")[0].status == "queued"
    assert s.settle(running) == 0
    assert "scheduler.clock_stepped" in [event.type for event in s.events()]


class Refusing:
    """Slots of a database that takes no events for a while."""

    def __init__(self, slots: Any) -> None:
        self._slots = slots
        self.refuses = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slots, name)

    def record(self, events: Any) -> None:
        if self.refuses:
            raise StoreError("away")
        self._slots.record(events)


def test_a_step_of_the_clock_that_could_not_be_recorded_is_recorded_later_once() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    service = Service(s.runtime, {})
    store_of(s.runtime).slots = refusing = Refusing(store_of(s.runtime).slots)  # type: ignore[assignment]
    s.clock.step("1h")
    for _ in range(2):
        with pytest.raises(StoreError):
            service.watch_clock()
    refusing.refuses = False
    s.clock.advance("10s")
    service.watch_clock()
    service.watch_clock()
    (event,) = s.events(None, "scheduler.clock_stepped")
    assert event.detail["seconds"] == 3_600


def test_a_step_of_the_clock_during_the_start_is_noticed() -> None:
    """After the first look, before the loops: while the schedules of the file are applied."""
    s = manual_scheduler("2026-01-05T08:00:00Z")
    service = Service(s.runtime, {}, ServiceOptions(check_interval=3_600.0))
    service.start(lambda: s.clock.step("2h"))
    until(lambda: bool(s.events(None, "scheduler.clock_stepped")))
    service.stop()


def test_a_clock_far_from_the_databases_is_reported_once_and_so_is_its_return(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = SkewWatch()
    with caplog.at_level("INFO", logger="everwhen"):
        for skew in (0, 1_900_000, -3_500_000, -3_600_000, 10_000, 0):
            watch.look(skew)
    assert [record.getMessage() for record in caplog.records] == [
        "this host's clock is -3.5 s from the database's, by which slots are fired; see to its time service",
        "this host's clock agrees with the database's again",
    ]


def test_slots_that_the_clock_was_stepped_over_were_down_not_late() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="10m", first_run="after_interval")
    service = Service(s.runtime, {})
    s.clock.step("65m")
    service.watch_clock()
    s.beat()
    s.step()
    assert {event.reason for event in s.events("a", "schedule.missed")} == {"down"}
    assert s.check().is_clean


def test_going_back_in_time_fires_nothing_twice() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="10m")
    s.advance("1h")
    fired = len(s.jobs("a"))
    s.clock.step("-1h")
    s.advance("55m")
    assert len(s.jobs("a")) == fired
    s.advance("1h")
    assert len(s.jobs("a")) == fired + 5
    assert s.check().is_clean


def test_a_service_that_is_started_again_is_another_node() -> None:
    stack, target = open_stack("sqlite://"), Recording()
    service = serve(stack, target)
    service.start()
    first = service.node
    service.stop()
    add(stack, "a", every="1h")
    service.start()
    assert target.ran.wait(60)
    service.stop()
    assert service.node != first


def test_a_loop_that_stalls_is_not_ready() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    service = Service(s.runtime, {}, ServiceOptions(check_interval=1.0))
    assert service.unreadiness() == "the scheduler is stopped"
    service.status = "running"
    service.ticker.step()
    assert service.unreadiness() is None
    s.clock.advance("11s")
    assert service.unreadiness() == "the loop has completed no evaluation for 10s"
    service.ticker.step()
    assert service.unreadiness() is None


class CountedTicks:
    """Stands before the slots port and counts."""

    def __init__(self, slots: Any) -> None:
        self.slots = slots
        self.ticks = 0

    def tick(self, now: int, **keys: Any) -> Any:
        self.ticks += 1
        return self.slots.tick(now, **keys)


def test_an_idle_evaluation_asks_the_database_once() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1h")
    slots = CountedTicks(store_of(s.runtime).slots)
    ticker = Ticker(slots, s.clock)  # type: ignore[arg-type]
    ticker.step()
    assert (ticker.counts.fired, slots.ticks) == (1, 2)
    ticker.step()
    assert slots.ticks == 3


def test_what_is_far_behind_is_found_although_nothing_came_due_of_late() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1h", first_run="after_interval", catch_up="run_once")
    s.clock.advance("1h30m")
    ticker = Ticker(store_of(s.runtime).slots, s.clock)
    ticker.step()
    assert ticker.counts.fired == 1


def test_an_overdue_schedule_that_nobody_decides_is_not_ready() -> None:
    s = manual_scheduler("2026-01-05T08:00:00Z")
    s.add("a", every="1h")
    service = Service(s.runtime, {}, ServiceOptions(check_interval=1.0))
    service.status = "running"
    s.clock.advance("2m")
    service.ticker.counts.checked = s.clock.monotonic()  # it looks alive, and decides nothing
    assert service.unreadiness() == "a schedule is overdue by 120s and nothing is being decided"
    service.ticker.step()
    assert service.unreadiness() is None


def test_a_wake_up_before_the_wait_is_not_lost() -> None:
    wake = Wake()
    wake.set()
    assert wake.wait(0) is True
    assert wake.wait(0) is False


def test_a_store_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        open_stack(f"sqlite:///{tmp_path}/missing/folder/x.db")
