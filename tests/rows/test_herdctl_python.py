"""Rows H: herdctl's module as Python programs use it: options, life, state functions, runner, types and errors."""

from __future__ import annotations

import inspect
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

import everwhen
from everwhen import (
    ConfigError,
    CronParseError,
    IntervalParseError,
    RunScheduleOptions,
    Scheduler,
    SchedulerError,
    SchedulerShutdownError,
    ScheduleSkipReason,
    ScheduleTriggerError,
    TriggerInfo,
    get_agent_schedule_states,
    get_schedule_state,
    run_schedule,
    update_schedule_state,
)
from everwhen.errors import UnknownScheduleError
from everwhen.model.queries import JobFilter
from everwhen.operations.schedules import get_schedule
from everwhen.store.opened import store_of
from tests.crash.nodes import opened
from tests.scheduler.waiting import until

CHECK = {"type": "interval", "interval": "5m", "prompt": "Check for ready issues."}
REPORT = {"type": "cron", "expression": "0 9 * * 1-5", "prompt": "Daily report."}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/fleet.db"


class Gate:
    """A host that runs until it is let through."""

    def __init__(self, *, fails: bool = False) -> None:
        self.begun = threading.Event()
        self.pass_through = threading.Event()
        self.reported: list[TriggerInfo] = []
        self.fails = fails

    def __call__(self, info: TriggerInfo) -> str:
        self.reported.append(info)
        self.begun.set()
        self.pass_through.wait(30)
        if self.fails:
            raise RuntimeError("no luck")
        return "done"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.pass_through.set()


def agent(**schedules: Any) -> dict[str, Any]:
    return {"reviewer": {"schedules": schedules, "max_concurrent": 2}}


class Log:
    """A logger as herdctl describes one: four methods, and nothing else."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def debug(self, text: str) -> None:
        self.lines.append(("debug", text))

    def info(self, text: str) -> None:
        self.lines.append(("info", text))

    def warning(self, text: str) -> None:
        self.lines.append(("warning", text))

    def error(self, text: str) -> None:
        self.lines.append(("error", text))

    def has(self, level: str, fields: str) -> bool:
        return any(fields in text for at, text in self.lines if at == level)


def break_for_a_while(path: Path, is_noticed: Callable[[], bool]) -> None:
    """Another process takes the table away, and puts it back when that was noticed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("ALTER TABLE schedules RENAME TO taken_away")
        until(is_noticed)
        other.execute("ALTER TABLE taken_away RENAME TO schedules")


def test_h4_the_options_are_an_interval_a_place_for_state_a_logger_and_a_callback(
    url: str, gate: Gate
) -> None:
    with pytest.raises(TypeError, match="database"):
        Scheduler()  # type: ignore[call-arg]  # stateDir is required
    assert inspect.signature(Scheduler).parameters["check_interval"].default == 1.0  # seconds
    gate.pass_through.set()
    log = Log()
    scheduler = Scheduler(url, check_interval=0.05, logger=log, on_trigger=gate)
    scheduler.start(agent(check=CHECK))
    until(lambda: get_schedule_state(url, "reviewer", "check").next_run_at is not None)  # its state is there
    until(lambda: [info.prompt for info in gate.reported] == [CHECK["prompt"]])
    break_for_a_while(Path(url[10:]), lambda: log.has("error", "Error during schedule check: "))
    scheduler.stop()
    scheduler.close()
    scheduler.start()
    until(lambda: log.has("info", "was down for "))
    scheduler.stop()
    scheduler.close()


def test_h4_without_a_logger_it_is_the_standard_one(
    url: str, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(url, check_interval=0.05, on_trigger=gate)
    scheduler.start(agent(report=REPORT))
    fields = "Error during schedule check: "
    break_for_a_while(Path(url[10:]), lambda: any(fields in text for text in caplog.messages))
    scheduler.stop()
    scheduler.close()


def test_h5_start_status_state_set_agents_and_stop(gate: Gate) -> None:
    gate.pass_through.set()
    scheduler = Scheduler("sqlite://", on_trigger=gate)
    assert (scheduler.get_status(), scheduler.is_running()) == ("stopped", False)
    scheduler.start(agent(check=CHECK))
    assert (scheduler.get_status(), scheduler.is_running()) == ("running", True)
    until(lambda: scheduler.get_state().trigger_count == 1)
    state = scheduler.get_state()
    assert state._fields == ("status", "started_at", "check_count", "trigger_count", "last_check_at")
    assert state.started_at is not None and state.last_check_at is not None
    scheduler.set_agents(agent(report=REPORT))
    assert scheduler.get_schedule("reviewer.report").status == "active"
    with pytest.raises(UnknownScheduleError):
        scheduler.get_schedule("reviewer.check")
    scheduler.stop(wait_for_jobs=True, timeout=30.0)
    assert scheduler.get_status() == "stopped"


def test_h13_an_agents_schedule_is_passed_over_for_exactly_five_reasons(url: str, gate: Gate) -> None:
    scheduler = Scheduler(url, on_trigger=gate)
    schedules = {"check": CHECK, "report": REPORT, "push": {"type": "webhook"}, "ask": {"type": "chat"}}
    observer = Scheduler(url, name="asking")  # it is never started: it sees what is on disk
    answers: dict[str, set[str | None]] = {name: set() for name in schedules}

    def ask() -> None:
        for name, found in answers.items():
            found.add(observer.check_schedule(f"reviewer.{name}").skip_reason)

    scheduler.start({"reviewer": {"schedules": schedules, "max_concurrent": 1}})
    assert gate.begun.wait(30)
    ask()
    update_schedule_state(url, "reviewer", "report", status="disabled")
    ask()
    gate.pass_through.set()
    until(lambda: get_schedule_state(url, "reviewer", "check").status == "idle")
    ask()
    scheduler.stop()
    assert answers == {
        "check": {"already_running", "not_due"},
        "report": {"at_capacity", "disabled"},
        "push": {"unsupported_type"},
        "ask": {"unsupported_type"},
    }
    scheduler.close()
    observer.close()


def test_h21_idle_running_idle_after_success_and_error_and_disabled_survives_a_restart(url: str) -> None:
    gates = [Gate(), Gate(fails=True)]
    runs = iter(gates)
    schedule = {**CHECK, "interval": "1s"}

    def run_next(info: TriggerInfo) -> str:
        return next(runs)(info)

    scheduler = Scheduler(url, on_trigger=run_next)
    scheduler.start(agent(check=schedule))
    seen: list[tuple[str, str | None]] = []
    for gate in gates:
        assert gate.begun.wait(30)
        seen.append(status_and_error(url))
        gate.pass_through.set()
        until(lambda: get_schedule_state(url, "reviewer", "check").status != "running")
        seen.append(status_and_error(url))
    assert seen[:3] == [("running", None), ("idle", None), ("running", None)]
    assert seen[3][0] == "idle" and "no luck" in (seen[3][1] or "")
    update_schedule_state(url, "reviewer", "check", status="disabled")
    scheduler.stop()
    scheduler.close()
    # Another process, which declares the same: it leaves disabled what is disabled, and fires nothing of it.
    assert run_fleet(url, schedule) == "disabled"
    assert len(fired(url)) == 2
    assert update_schedule_state(url, "reviewer", "check", status="idle").status == "idle"


@pytest.mark.parametrize("fails", [False, True], ids=["success", "error"])
def test_h21_what_is_disabled_during_a_run_is_disabled_when_it_ends_and_after_a_restart(
    url: str, fails: bool
) -> None:
    gate, schedule = Gate(fails=fails), {**CHECK, "interval": "1s"}
    scheduler = Scheduler(url, check_interval=0.05, on_trigger=gate)
    scheduler.start(agent(check=schedule))
    assert gate.begun.wait(30)
    update_schedule_state(url, "reviewer", "check", status="disabled")
    gate.pass_through.set()
    until(lambda: not scheduler.get_schedule("reviewer.check").running_jobs)
    counted = scheduler.get_state().check_count
    until(lambda: scheduler.get_state().check_count > counted + 30)  # more than the interval
    assert get_schedule_state(url, "reviewer", "check").status == "disabled"
    scheduler.stop()
    scheduler.close()
    assert run_fleet(url, schedule) == "disabled"
    assert len(fired(url)) == 1


def status_and_error(url: str) -> tuple[str, str | None]:
    state = get_schedule_state(url, "reviewer", "check")
    return state.status, state.last_error


FLEET = """
import json, sys, threading
from everwhen import Scheduler, get_schedule_state
url, schedule = sys.argv[1], json.loads(sys.argv[2])
scheduler = Scheduler(url, check_interval=0.05, on_trigger=print)
scheduler.start({"reviewer": {"schedules": {"check": schedule}, "max_concurrent": 2}})
while scheduler.get_state().check_count < 5:
    threading.Event().wait(0.01)
print(get_schedule_state(url, "reviewer", "check").status)
scheduler.stop()
scheduler.close()
"""


def run_fleet(url: str, schedule: dict[str, str]) -> str:
    """What a process of its own says when it has looked five times."""
    command = [sys.executable, "-c", FLEET, url, json.dumps(schedule)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_h20_the_state_functions_read_and_write_the_database(url: str, gate: Gate) -> None:
    scheduler = Scheduler(url, on_trigger=gate)
    scheduler.start(agent(check=CHECK, report=REPORT))
    assert gate.begun.wait(30)
    running = get_schedule_state(url, "reviewer", "check")
    assert running.status == "running" and running.last_run_at is not None
    gate.pass_through.set()
    until(lambda: get_schedule_state(url, "reviewer", "check").status == "idle")
    states = get_agent_schedule_states(url, "reviewer")
    assert {name: state.status for name, state in states.items()} == {"check": "idle", "report": "idle"}
    assert states["report"].next_run_at is not None
    assert update_schedule_state(url, "reviewer", "report", status="disabled").status == "disabled"
    assert scheduler.check_schedule("reviewer.report").skip_reason == "disabled"
    assert update_schedule_state(url, "reviewer", "report", status="disabled").next_run_at is None
    assert update_schedule_state(url, "reviewer", "report", status="idle").status == "idle"
    scheduler.stop()
    scheduler.close()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"status": "running"}, '"running" cannot be set'),
        ({"last_error": "x", "status": "idle"}, "only status can be set, not last_error"),
        ({}, "only status can be set"),
    ],
)
def test_h20_what_happened_cannot_be_set(url: str, gate: Gate, changes: dict[str, Any], says: str) -> None:
    program = Scheduler(url, on_trigger=gate)
    program.add("reviewer-check", every="1h")
    program.close()
    with pytest.raises(ConfigError, match=says):
        update_schedule_state(url, "reviewer", "check", **changes)


def test_h22_run_schedule_takes_an_item_builds_the_prompt_executes_and_reports(
    url: str, tmp_path: Path, gate: Gate
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "fix-login.md").write_text("It fails on Mondays.")
    gate.pass_through.set()
    source = {"type": "directory", "path": str(inbox)}
    program = Scheduler(url, name="fleet", on_trigger=gate)
    program.set_agents(agent(report={**REPORT, "work_source": source}))
    program.start()
    program.stop()
    program.close()
    done = run_schedule(
        RunScheduleOptions(database=url, agent="reviewer", schedule="report", execute=gate, payload={"a": 1})
    )
    assert (done.success, done.status, done.result, done.error) == (True, "succeeded", "done", None)
    assert done.metadata.origin == "manual" and done.job_id.startswith("sched-")
    assert done.next_run_at == get_schedule_state(url, "reviewer", "report").next_run_at
    (info,) = gate.reported
    assert info.prompt.startswith("Daily report.\n\n## Work Item: ")
    assert (info.agent, info.schedule_name, info.payload) == ("reviewer", "report", {"a": 1})
    assert [path.name for path in (inbox / "done").iterdir()] == ["fix-login.md"]


def test_h22_run_schedule_runs_the_agents_command_and_tells_of_its_failure(url: str) -> None:
    group = {"command": ["false"], "schedules": {"report": REPORT}}
    program = Scheduler(url)
    program.start({"reviewer": group})
    program.stop()
    program.close()
    done = run_schedule(RunScheduleOptions(database=url, agent="reviewer", schedule="report"))
    assert (done.success, done.status) == (False, "failed")
    assert done.error is not None
    assert get_schedule_state(url, "reviewer", "report").last_error is None  # beside the schedule's own runs


def test_h22_a_run_that_cannot_take_place_names_agent_and_schedule(url: str, gate: Gate) -> None:
    scheduler = Scheduler(url, on_trigger=gate)
    scheduler.start(agent(check=CHECK))
    assert gate.begun.wait(30)
    for schedule, says in (("check", "already_running"), ("nothing", 'has no schedule "nothing"')):
        with pytest.raises(ScheduleTriggerError, match=says) as caught:
            run_schedule(RunScheduleOptions(database=url, agent="reviewer", schedule=schedule))
        assert (caught.value.agent, caught.value.schedule) == ("reviewer", schedule)
    gate.pass_through.set()
    scheduler.stop()
    scheduler.close()


def test_h24_the_running_jobs_of_this_process_are_counted_per_agent_and_in_all(gate: Gate) -> None:
    scheduler = Scheduler("sqlite://", on_trigger=gate)
    scheduler.start({**agent(check=CHECK, again=CHECK), "writer": {"schedules": {"draft": CHECK}}})
    until(lambda: scheduler.get_total_running_job_count() == 3)
    counts = [scheduler.get_running_job_count(name) for name in ("reviewer", "writer", "nobody")]
    assert counts == [2, 1, 0]
    gate.pass_through.set()
    until(lambda: scheduler.get_total_running_job_count() == 0)
    scheduler.stop()
    assert scheduler.get_running_job_count("reviewer") == 0


def fired(url: str) -> list[str]:
    """The schedules of all jobs, oldest first."""
    with opened(url) as stack:
        return [
            job.schedule_id for job in reversed(store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100))
        ]


def test_h26_a_stop_fires_nothing_more_wakes_the_loop_and_waits_for_what_runs(url: str, gate: Gate) -> None:
    scheduler = Scheduler(url, on_trigger=gate, check_interval=3_600.0)
    scheduler.start(agent(check=CHECK))
    assert gate.begun.wait(30)
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    until(lambda: scheduler.get_status() == "stopping")
    assert not scheduler.is_running()
    scheduler.add("due-now", every="1h", run={"command": ["true"]})  # it would fire at once
    with Scheduler(url, name="another") as another:
        until(lambda: another.get_state().trigger_count == 1)
        assert scheduler.get_status() == "stopping"  # as long as its job runs
        gate.pass_through.set()
        stopping.join(30)
        assert (scheduler.get_status(), scheduler.get_state().trigger_count) == ("stopped", 1)
    assert fired(url) == ["reviewer.check", "due-now"]
    state = get_schedule_state(url, "reviewer", "check")
    assert (state.status, state.last_error) == ("idle", None)
    scheduler.close()


def test_h26_a_stop_that_times_out_says_how_many_jobs_still_run_and_they_run_again(
    url: str, gate: Gate
) -> None:
    scheduler = Scheduler(url, on_trigger=gate, check_interval=3_600.0)
    scheduler.start(agent(check=CHECK, again=CHECK))
    until(lambda: len(gate.reported) == 2)
    assert scheduler.get_total_running_job_count() == 2
    with pytest.raises(SchedulerShutdownError) as caught:
        scheduler.stop(timeout=0.05)
    assert str(caught.value) == "Scheduler shutdown timed out after 50ms with 2 job(s) still running"
    assert (caught.value.timed_out, caught.value.running_job_count) == (True, 2)
    assert scheduler.get_status() == "stopped"
    gate.pass_through.set()
    scheduler.close()
    scheduler.start()  # whatever was given up is run at once
    until(lambda: {run_count(url, name) for name in ("check", "again")} == {1})
    scheduler.stop()
    scheduler.close()
    assert (len(fired(url)), len(gate.reported)) == (2, 4)  # by no further firing


def run_count(url: str, schedule: str) -> int:
    with opened(url) as stack:
        return get_schedule(stack.runtime, f"reviewer.{schedule}").state.run_count


def test_h29_the_check_interval_is_a_second_and_a_large_fleet_may_choose_a_longer_one(tmp_path: Path) -> None:
    """What each costs is measured by `benchmarks.check_interval`; the operations guide has the table."""
    keys: list[dict[str, Any]] = [{"check_interval": 0.2}, {}, {"check_interval": 3_600.0}]
    fleets = [Scheduler(f"sqlite:///{tmp_path}/{n}.db", **given) for n, given in enumerate(keys)]
    for fleet in fleets:
        fleet.start({name: {"command": ["true"], "schedules": {"report": REPORT}} for name in ("a", "b")})
    # What a start writes makes it look again at once; from the third check on there is only the interval.
    until(lambda: all(fleet.get_state().check_count for fleet in fleets))
    until(lambda: is_at_rest(fleets[2], beside=fleets[0]))
    begin = time.monotonic()
    settled = [fleet.get_state().check_count for fleet in fleets]
    until(lambda: fleets[0].get_state().check_count >= settled[0] + 6)  # of 0.2 s, so at least a second
    until(lambda: fleets[1].get_state().check_count > settled[1])
    elapsed = time.monotonic() - begin
    made = [fleet.get_state().check_count - before for fleet, before in zip(fleets, settled, strict=True)]
    assert made[1] <= elapsed / 1.0 + 1  # and not more often
    assert made[2] == 0
    for fleet in fleets:
        fleet.stop()
        fleet.close()


def is_at_rest(fleet: Scheduler, *, beside: Scheduler) -> bool:
    """Whether one checks nothing while another one checks ten times."""
    before, others = fleet.get_state().check_count, beside.get_state().check_count
    until(lambda: beside.get_state().check_count >= others + 10)
    return fleet.get_state().check_count == before


def test_h27_every_error_is_a_scheduler_error_and_carries_what_it_is_about() -> None:
    assert all(
        issubclass(error, SchedulerError)
        for error in (IntervalParseError, CronParseError, ScheduleTriggerError, SchedulerShutdownError)
    )
    with pytest.raises(IntervalParseError) as interval:
        everwhen.parse_interval("5x")
    assert interval.value.interval == "5x"
    trigger = ScheduleTriggerError("no", agent="a", schedule="s")
    assert (trigger.agent, trigger.schedule) == ("a", "s")


EXPORTS = """
Scheduler parse_interval calculate_next_trigger is_schedule_due parse_cron_expression calculate_next_cron_trigger
is_valid_cron_expression get_schedule_state update_schedule_state get_agent_schedule_states run_schedule
build_schedule_prompt SchedulerError IntervalParseError ScheduleTriggerError SchedulerShutdownError CronParseError
ConfigError StoreError SchedulerOptions SchedulerStatus SchedulerState SchedulerLogger ScheduleCheckResult
ScheduleSkipReason TriggerInfo SchedulerTriggerCallback AgentScheduleInfo StopOptions RunScheduleOptions
ScheduleRunResult ScheduleRunnerLogger TriggerMetadata ScheduleState CronExpression WorkItem
"""


@pytest.mark.parametrize("name", EXPORTS.split())
def test_h28_every_name_is_exported(name: str) -> None:
    assert name in everwhen.__all__
    assert getattr(everwhen, name) is not None


def test_h28_herdctls_five_skip_reasons_come_first() -> None:
    five = ("unsupported_type", "disabled", "already_running", "at_capacity", "not_due")
    assert get_args(ScheduleSkipReason)[:5] == five
