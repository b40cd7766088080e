"""The scheduler that a program embeds: declaring, starting, stopping, and what it leaves in the database."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from everwhen import Run, Scheduler, SchedulerState, clock
from everwhen.errors import (
    ConfigError,
    DuplicateScheduleError,
    SchedulerError,
    SchedulerShutdownError,
    StatusError,
    SubmissionError,
    TimetableError,
    UnknownScheduleError,
)
from everwhen.model.fields import schedule_to_json
from everwhen.model.queries import EventFilter
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.operations import schedules as operations
from everwhen.operations.schedules import list_schedules
from everwhen.scheduler.declaring import rules_of
from everwhen.scheduler.options import NewSchedule, TriggerOptions
from everwhen.store.catalogue import Catalogue
from everwhen.store.opened import store_of
from tests.scheduler.waiting import PATIENCE, until

HOURLY: TriggerOptions = {"every": "1h", "first_run": "after_interval"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/app.db"


class Recorder:
    """A function that remembers its runs."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.ran = threading.Event()

    def __call__(self, run: Run) -> None:
        self.runs.append(run)
        self.ran.set()


def ids_in(scheduler: Scheduler) -> dict[str, str]:
    """The schedules of the database, with their statuses."""
    return {state.schedule_id: state.status for state in list_schedules(scheduler._runtime, limit=500)}


def test_a_plain_function_runs_with_its_run() -> None:
    scheduler, record = Scheduler("sqlite://"), Recorder()
    scheduler.every("1h", id="poll", payload={"a": 1})(record)
    with scheduler:
        assert record.ran.wait(30)
        until(lambda: scheduler.get_schedule("poll").run_count == 1)
    (run,) = record.runs
    assert (run.schedule_id, run.attempt, run.payload, run.origin) == ("poll", 1, {"a": 1}, "schedule")
    assert run.slot_at.tzinfo is not None
    assert scheduler.why("poll").fate == "fired"


def test_an_async_function_of_an_async_program_runs_on_the_loop_of_the_program() -> None:
    scheduler = Scheduler("sqlite://")
    seen: list[asyncio.AbstractEventLoop] = []

    async def program() -> bool:
        done = asyncio.Event()

        @scheduler.every("1h", id="poll")
        async def poll(run: Run) -> str:
            seen.append(asyncio.get_running_loop())
            done.set()  # an event of that loop: from another one this would not wake
            return "polled"

        async with scheduler:
            await asyncio.wait_for(done.wait(), 30)
            return seen == [asyncio.get_running_loop()]

    assert asyncio.run(program())
    assert scheduler.get_schedule("poll").run_count == 1  # what ran was awaited


def test_an_async_function_of_a_program_with_threads_runs_on_a_loop_of_its_own() -> None:
    scheduler, ran = Scheduler("sqlite://"), threading.Event()

    @scheduler.every("1h", id="poll")
    async def poll() -> None:
        ran.set()

    with scheduler:
        assert ran.wait(30)


def test_a_function_that_raises_fails_its_job_and_nothing_else() -> None:
    scheduler, record = Scheduler("sqlite://"), Recorder()

    @scheduler.every("1h", id="bad")
    def bad(run: Run) -> None:
        raise RuntimeError("no luck today")

    scheduler.every("1h", id="good")(record)
    with scheduler:
        until(lambda: scheduler.get_schedule("bad").error_count == 1)
        assert record.ran.wait(30)
    assert "no luck today" in (scheduler.get_schedule("bad").last_error or "")
    assert scheduler.get_schedule("bad").status == "active"


def test_an_id_is_made_of_module_and_function() -> None:
    scheduler = Scheduler("sqlite://")
    scheduler.every("1h")(_module_level)
    scheduler.start()
    scheduler.stop()
    assert list(ids_in(scheduler)) == ["tests-scheduler-test_scheduler-_module_level"]


def _module_level(run: Run) -> None:
    return None


def test_durations_and_instants_may_be_pythons_own() -> None:
    scheduler = Scheduler("sqlite://", timezone="Europe/Paris")
    tomorrow = (clock.now() + timedelta(days=1)).replace(microsecond=0)
    scheduler.every(timedelta(minutes=90), id="often", jitter=timedelta(seconds=5))(_module_level)
    scheduler.at(tomorrow, id="once")(_module_level)
    scheduler.after(timedelta(hours=1), id="soon")(_module_level)
    with scheduler:
        first, second = scheduler.upcoming("often", 2)
        assert second.slot_at - first.slot_at == timedelta(minutes=90)
        assert scheduler.get_schedule("once").next_run_at == tomorrow
        assert scheduler.get_schedule("soon").next_run_at is not None


def test_what_is_no_longer_declared_is_removed_and_what_was_added_stays(url: str) -> None:
    first = Scheduler(url, name="shop")
    first.every("1h", id="kept")(_module_level)
    first.every("1h", id="dropped")(_module_level)
    other = Scheduler(url, name="office")
    other.every("1h", id="elsewhere")(_module_level)
    with first, other:
        first.add("added", process_id, **HOURLY)
        uid = first.get_schedule("kept").uid
    second = Scheduler(url, name="shop")
    second.every("1h", id="kept")(_module_level)
    second.every("1h", id="new")(_module_level)
    with second:
        assert set(ids_in(second)) == {"added", "elsewhere", "kept", "new"}
        assert second.get_schedule("kept").uid == uid


def test_a_restart_with_the_same_declarations_changes_nothing(url: str) -> None:
    revisions = []
    for _ in range(2):
        scheduler = Scheduler(url, name="shop")
        scheduler.every("1h", id="poll", timezone="Europe/Paris")(_module_level)
        scheduler.after("1h", id="soon")(_module_level)
        with scheduler:
            found = [scheduler.get_schedule(name) for name in ("poll", "soon")]
            revisions.append([(one.uid, one.revision, one.next_run_at) for one in found[1:]])
            events = store_of(scheduler._runtime).ledger.events(EventFilter(), limit=100)
            reloads = [e for e in events if e.event.type == "config.reloaded"]
    assert revisions[0] == revisions[1]
    assert len(reloads) == 1


def test_changed_words_are_a_new_revision_of_the_same_schedule(url: str) -> None:
    for timeout in ("1m", "2m"):
        scheduler = Scheduler(url)
        scheduler.every("1h", id="poll", timeout=timeout)(_module_level)
        with scheduler:
            found = scheduler.get_schedule("poll")
    assert found.revision == 2


def test_a_pause_of_a_declared_schedule_survives_restarts(url: str) -> None:
    for _ in range(2):
        scheduler = Scheduler(url)
        scheduler.every("1h", id="poll")(_module_level)
        with scheduler:
            if scheduler.get_schedule("poll").status == "active":
                scheduler.pause("poll", note="for now")
            assert scheduler.get_schedule("poll").status == "paused"


def test_an_id_that_another_name_has_is_refused_and_nothing_is_started(url: str) -> None:
    first, second = Scheduler(url, name="shop"), Scheduler(url, name="office")
    for scheduler in (first, second):
        scheduler.every("1h", id="poll")(_module_level)
    with first:
        with pytest.raises(ConfigError, match='a schedule "poll" was created by a file, over REST or by a'):
            second.start()
        assert second.get_status() == "stopped"
    second.close()


def test_two_schedules_of_one_id_are_refused_at_once() -> None:
    scheduler = Scheduler("sqlite://")
    scheduler.every("1h")(_module_level)
    with pytest.raises(DuplicateScheduleError, match="_module_level"):
        scheduler.cron("@daily")(_module_level)


@pytest.mark.parametrize(
    ("declare", "error", "says"),
    [
        (lambda s: s.every("5x", id="a"), ConfigError, "every: Invalid time unit"),
        (lambda s: s.cron("0 25 * * *", id="a"), ConfigError, "cron: .* - hour must be 0-23"),
        (lambda s: s.every("5m", id="a", jiter="1s"), ConfigError, 'did you mean "jitter"'),
        (lambda s: s.every("5m", id="a.b"), ConfigError, "is not a valid name"),
        (lambda s: s.every(timedelta(microseconds=5), id="a"), TimetableError, "whole seconds"),
        (lambda s: s.at("2020-01-01T00:00:00Z", id="a"), TimetableError, "already past"),
        (lambda s: s.every("5m", id="a", quiet_hours="nights"), ConfigError, 'no quiet hours "nights"'),
        (lambda s: s.every("5m", id="a", isolate=True), ConfigError, "cannot be imported"),
    ],
)
def test_what_cannot_be_is_a_typed_error_and_changes_nothing(
    declare: Callable[[Any], Any], error: type[Exception], says: str
) -> None:
    scheduler = Scheduler("sqlite://")
    with pytest.raises(error, match=says):
        declare(scheduler)(lambda run: None)
        scheduler.start()
    assert scheduler.get_status() == "stopped"
    assert ids_in(scheduler) == {}


def test_what_is_declared_while_it_runs_takes_effect_at_once() -> None:
    scheduler, record = Scheduler("sqlite://"), Recorder()
    with scheduler:
        scheduler.every("1h", id="late")(record)
        assert record.ran.wait(30)
        with pytest.raises(ConfigError):
            scheduler.cron("nonsense", id="bad")(record)
        scheduler.every("1h", id="bad")(_module_level)  # the id is not taken by what was refused


# -- life --


def test_what_is_declared_while_it_runs_removes_nothing_of_another_process_of_its_name(url: str) -> None:
    """As during a rolling deployment: only a start removes what it does not declare."""
    older, newer = Scheduler(url, name="app"), Scheduler(url, name="app")
    older.every("1h", id="one")(_module_level)
    newer.every("1h", id="two")(_module_level)
    with older, newer:  # the second start removes `one`
        older.every("1h", id="three")(_module_level)
        assert sorted(one.id for one in newer.schedules()) == ["three", "two"]


def test_its_state_is_shown_before_while_and_after_it_runs() -> None:
    scheduler = Scheduler("sqlite://")
    scheduler.every("1h", id="poll")(_module_level)
    assert scheduler.get_state() == SchedulerState("stopped", None, 0, 0, None)
    assert not scheduler.is_running()
    with scheduler:
        assert scheduler.is_running()
        until(lambda: scheduler.get_state().trigger_count == 1)
        state = scheduler.get_state()
        assert state.status == "running"
        assert state.started_at is not None and state.last_check_at is not None
        assert state.check_count >= 1
        with pytest.raises(SchedulerError, match="is running"):
            scheduler.start()
    assert scheduler.get_status() == "stopped"
    scheduler.stop()  # once more changes nothing


def test_a_stopped_scheduler_starts_again(url: str) -> None:
    scheduler, record = Scheduler(url), Recorder()
    scheduler.cron("0 0 1 1 *", id="poll")(record)
    for number in (1, 2, 3):
        scheduler.start()
        scheduler.trigger("poll")
        until(lambda number=number: len(record.runs) >= number)  # type: ignore[misc]
        scheduler.stop()
    scheduler.close()
    assert scheduler.get_schedule("poll").fire_count == 3  # opened again to look
    scheduler.close()


def test_a_stop_that_times_out_says_how_many_jobs_still_run() -> None:
    scheduler, begun, let_go = Scheduler("sqlite://"), threading.Event(), threading.Event()

    @scheduler.every("1h", id="long")
    def long(run: Run) -> None:
        begun.set()
        let_go.wait(30)

    scheduler.start()
    assert begun.wait(30)
    assert scheduler.get_total_running_job_count() == 1
    with pytest.raises(SchedulerShutdownError, match="timed out after 100ms with 1 job") as caught:
        scheduler.stop(timeout=0.1)
    let_go.set()
    assert (caught.value.timed_out, caught.value.running_job_count) == (True, 1)
    assert scheduler.get_status() == "stopped"


def test_its_log_goes_to_the_logger_that_it_was_given(caplog: pytest.LogCaptureFixture) -> None:
    class Kept:
        def __init__(self) -> None:
            self.lines: list[str] = []

        def debug(self, msg: str) -> None:
            self.lines.append(f"debug {msg}")

        def info(self, msg: str) -> None:
            self.lines.append(f"info {msg}")

        def warning(self, msg: str) -> None:
            self.lines.append(f"warning {msg}")

        def error(self, msg: str) -> None:
            self.lines.append(f"error {msg}")

    kept = Kept()
    scheduler = Scheduler("sqlite://", logger=kept)

    @scheduler.every("1h", id="poll")
    def poll(run: Run) -> None:
        run.log("counted %d", 3)

    engine = logging.getLogger("everwhen")
    before = (engine.propagate, engine.level, list(engine.handlers))
    with scheduler:
        until(lambda: scheduler.get_schedule("poll").run_count == 1)
        logging.getLogger("everwhen").error("oh dear")
    assert [line for line in kept.lines if not line.startswith("debug ")][1:-1] == [
        "info counted 3",
        "error oh dear",
    ]
    assert kept.lines[0].startswith("info scheduler app started as node app-")
    assert kept.lines[-1] == "info scheduler app stopped"
    assert "oh dear" not in caplog.text
    assert (engine.propagate, engine.level, list(engine.handlers)) == before


def test_an_isolated_function_runs_in_a_process_of_its_own(url: str) -> None:
    scheduler = Scheduler(url)
    scheduler.every("1h", id="apart", isolate=True)(process_id)
    with scheduler:
        until(lambda: scheduler.get_schedule("apart").run_count == 1)
        job_id = scheduler.get_schedule("apart").last_success_job_id
        job = store_of(scheduler._runtime).ledger.job(job_id or "")
    assert job is not None and job.result is not None
    assert int(job.result) != os.getpid()


decorating = Scheduler("sqlite://")


@decorating.every("1h", id="apart", isolate=True)  # the module does not have it yet
def process_id() -> int:
    return os.getpid()


# -- what a program does with schedules --


def test_schedules_are_added_paused_resumed_triggered_and_removed() -> None:
    scheduler, record = Scheduler("sqlite://"), Recorder()
    scheduler.cron("0 0 1 1 *", id="yearly")(record)
    with scheduler:
        added = scheduler.add("listed", process_id, **HOURLY)
        assert (added.id, added.status) == ("listed", "active")
        assert scheduler.pause("listed").status == "paused"
        with pytest.raises(StatusError):
            scheduler.pause("listed")
        assert scheduler.resume("listed").status == "active"
        assert scheduler.check_schedule("listed") == (False, "not_due")
        fired = scheduler.trigger("yearly", {"by": "hand"})
        assert record.ran.wait(30)
        assert (record.runs[0].job_id, record.runs[0].payload) == (fired.job_id, {"by": "hand"})
        scheduler.remove("listed")
        with pytest.raises(UnknownScheduleError):
            scheduler.get_schedule("listed")


def test_many_are_added_together_or_not_at_all() -> None:
    scheduler = Scheduler("sqlite://")
    added = scheduler.add_many([{"id": f"n{n}", "every": "1h", "function": process_id} for n in range(3)])
    assert [one.id for one in added] == ["n0", "n1", "n2"]
    with pytest.raises(DuplicateScheduleError):
        scheduler.add_many(
            [
                {"id": "n3", "every": "1h", "function": process_id},
                {"id": "n1", "every": "1h", "function": process_id},
            ]
        )
    assert len(ids_in(scheduler)) == 3


def test_many_are_judged_by_one_reading_of_the_quiet_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, readings, policies = Scheduler("sqlite://"), [], Catalogue.policies

    def counted(catalogue: Catalogue) -> list[QuietHoursPolicy]:
        readings.append(catalogue)
        return policies(catalogue)

    monkeypatch.setattr(Catalogue, "policies", counted)
    scheduler.add_many([{"id": f"n{n}", "every": "1h", "function": process_id} for n in range(50)])
    assert len(readings) == 1


def test_the_first_of_many_that_is_wrong_refuses_them_all_with_every_problem_it_has() -> None:
    scheduler = Scheduler("sqlite://")
    sound: NewSchedule = {"id": "a", "every": "1h", "run": {"command": ["true"]}}
    wrong: Any = {"id": "b", "every": "never", "if_runing": "queue", "run": {"command": []}}
    with pytest.raises(SubmissionError) as refused:
        scheduler.add_many([sound, wrong])
    assert [path for path, _ in refused.value.problems] == ["every", "if_runing", "run.command"]
    assert ids_in(scheduler) == {}


def test_schedules_that_are_worded_alike_share_a_definition_on_the_queue_of_their_program() -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    alike: TriggerOptions = {"cron": "0 9 * * *", "run": {"command": ["true"]}, "queue": "slow"}
    declared = [
        scheduler._declared(f"n{n}", None, alike, rules_of(scheduler._runtime, "shop")) for n in (1, 2)
    ]
    assert declared[0].definition is declared[1].definition
    assert declared[0].definition.queue == "slow@shop"


def test_a_schedule_needs_something_to_run() -> None:
    scheduler = Scheduler("sqlite://")
    with pytest.raises(ConfigError, match="nothing to run"):
        scheduler.add("a", every="1h")
    with pytest.raises(ConfigError, match="not both"):
        scheduler.add("a", process_id, every="1h", run={"command": ["true"]})
    with pytest.raises(ConfigError, match="cannot be imported; give the schedule an id"):
        scheduler.add(lambda: None, every="1h")


def test_instants_without_an_offset_are_read_in_the_zone_of_the_schedule() -> None:
    scheduler = Scheduler("sqlite://")
    scheduler.add("nine", process_id, cron="0 9 * * *", timezone="Asia/Tokyo")
    found = scheduler.why("nine", "2030-01-01T09:00")
    assert found.slot_at == datetime(2030, 1, 1, 0, tzinfo=UTC)
    assert str(found) == found.sentence


def test_a_backfill_runs_the_slots_of_a_past_span() -> None:
    scheduler, record = Scheduler("sqlite://"), Recorder()
    scheduler.every("1s", id="often", if_running="allow")(record)
    with scheduler:
        until(lambda: len(record.runs) >= 2)
        scheduler.pause("often")
        first = record.runs[0].slot_at
        found = scheduler.backfill("often", first, first + timedelta(seconds=2), dry_run=True)
        assert found.slots == () and found.skip_reason is None


def test_messages_are_delivered_to_subscribers_before_and_after_the_start() -> None:
    scheduler = Scheduler("sqlite://")
    early: list[str] = []
    late: list[str] = []
    scheduler.subscribe(lambda event: early.append(event["content"]["text"]), id="early")
    scheduler.add("said", every="1h", run={"message": {"text": "one"}}, first_run="after_interval")
    with scheduler:
        scheduler.subscribe(lambda event: late.append(event["content"]["text"]), id="late")
        scheduler.trigger("said")
        until(lambda: early == ["one"] and late == ["one"])


# -- names --


def test_jobs_of_python_functions_run_only_where_the_same_name_is_declared(url: str) -> None:
    shop, context, record = Scheduler(url, name="shop"), Scheduler(url, name="office"), Recorder()
    shop.every("1h", id="poll")(record)
    shop.start()
    assert record.ran.wait(30)
    shop.stop()
    with context:
        fired = context.trigger("poll")
        until(lambda: context.get_state().check_count >= 3)
        job = store_of(context._runtime).ledger.job(fired.job_id or "")
        assert job is not None and job.status == "queued"
    with shop:
        until(lambda: len(record.runs) == 2)


def test_a_queue_is_worked_on_by_schedulers_that_name_it(url: str) -> None:
    web, worker, record = (
        Scheduler(url, name="shop"),
        Scheduler(url, name="shop", queues=["heavy"]),
        Recorder(),
    )
    for scheduler in (web, worker):
        scheduler.every("1h", id="big", queue="heavy")(record)
    with web:
        until(lambda: web.get_schedule("big").outstanding == 1)
        until(lambda: web.get_state().check_count >= 3)
        assert not record.runs
    with worker:
        assert record.ran.wait(30)


def test_what_programs_declare_is_shown_in_the_words_of_a_file() -> None:
    scheduler = Scheduler("sqlite://", on_trigger=lambda info: None)
    scheduler.every("1h", id="declared", queue="heavy")(_module_level)
    scheduler.add("hosted", every="1h")
    scheduler.add("added", process_id, every="1h")
    scheduler.set_agents({"reviewer": {"schedules": {"check": {"type": "interval", "interval": "5m"}}}})
    with scheduler:
        found = {
            name: schedule_to_json(operations.get_schedule(scheduler._runtime, name).definition)
            for name in ("declared", "hosted", "added", "reviewer.check")
        }
    assert [fields["queue"] for fields in found.values()] == ["heavy", "default", "default", "default"]
    assert found["declared"]["run"]["python"] == "tests.scheduler.test_scheduler:_module_level"
    assert found["added"]["run"]["python"] == "tests.scheduler.test_scheduler:process_id"


def test_a_fork_makes_connections_of_its_own(url: str) -> None:
    program = f"""
import os, sys
from everwhen import Scheduler
scheduler = Scheduler({url!r}, name="forked")
scheduler.add("there", every="1h", run={{"command": ["true"]}}, first_run="after_interval")
child = os.fork()
if child == 0:
    try:
        scheduler.start()
        assert scheduler.is_running() and scheduler.get_schedule("there").status == "active"
        scheduler.stop()
        os._exit(0)
    finally:
        os._exit(1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
scheduler.start()
scheduler.pause("there")
scheduler.stop()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)
    scheduler = Scheduler(url)
    assert scheduler.get_schedule("there").status == "paused"
    events = store_of(scheduler._runtime).ledger.events(EventFilter(), limit=100)
    kinds = [found.event.type for found in events]
    assert (kinds.count("scheduler.started"), kinds.count("scheduler.stopped")) == (2, 2)
    scheduler.close()


def test_a_fork_of_a_running_scheduler_is_asked_to_start_after_the_fork(url: str) -> None:
    program = f"""
import os, sys
from everwhen import Scheduler, SchedulerError
scheduler = Scheduler({url!r}, name="forked")
with scheduler:
    child = os.fork()
    if child == 0:
        try:
            assert scheduler.get_status() == "stopped", scheduler.get_status()
            scheduler.start()
        except SchedulerError as error:
            os._exit(7 if "start it after the fork" in str(error) else 1)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert scheduler.is_running()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


def test_a_program_that_ends_without_a_stop_may_still_stop_at_exit_in_memory() -> None:
    # Its own handler is registered first, so it runs after those of the libraries. Threads that nobody stopped use the
    # connection until the end, too: SQLite crashes when it is closed under them.
    program = (
        "import atexit\n"
        "atexit.register(lambda: (scheduler.stop(), print(scheduler.get_status())))\n"
        "from everwhen import Scheduler\n"
        "scheduler = Scheduler('sqlite://', name='t')\n"
        "scheduler.start()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "stopped\n", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_interval": -1}, "check_interval must be a number of seconds above 0, not -1"),
        ({"check_interval": 0}, "check_interval must be a number of seconds above 0, not 0"),
        ({"check_interval": "1s"}, "check_interval must be a number of seconds above 0, not '1s'"),
        ({"lease": float("nan")}, "lease must be a number of seconds above 0, not nan"),
        ({"max_workers": 0}, "max_workers must be at least 1, not 0"),
        ({"max_workers": True}, "max_workers must be at least 1, not True"),
        ({"lease": True}, "lease must be a number of seconds above 0, not True"),
        ({"check_interval": 1e10}, "check_interval must be a number of seconds above 0, not 10000000000.0"),
        ({"queues": None}, 'queues must be a list, as in queues=["None"]'),
        ({"on_trigger": "os.system"}, "on_trigger must be a function, not 'os.system'"),
        ({"max_workers_per_owner": 0}, "max_workers_per_owner must be at least 1, not 0"),
        ({"max_workers_per_owner": "2"}, "max_workers_per_owner must be at least 1, not '2'"),
        ({"queues": "default"}, 'queues must be a list, as in queues=["default"]'),
        (
            {"logger": "app"},
            (
                "logger is a str; it must have the methods debug, info, warning and error, as "
                'logging.getLogger("app") has'
            ),
        ),
    ],
)
def test_an_option_that_no_scheduler_could_work_with_is_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        Scheduler("sqlite://", **options)
    assert str(refused.value) == message


@pytest.mark.parametrize("database", [None, 5, b"sqlite://", Path("shop.db")])
def test_a_database_that_is_no_text_is_refused(database: Any) -> None:
    with pytest.raises(ConfigError, match="database must be a URL"):
        Scheduler(database)


def test_the_jobs_of_one_owner_have_so_many_workers_and_no_more(url: str) -> None:
    scheduler = Scheduler(url, name="shop", max_workers=4, max_workers_per_owner=1)
    began: list[str] = []
    released = threading.Event()

    def note(run: Run) -> None:
        began.append(run.schedule_id)
        if run.schedule_id != "of-bob":
            released.wait(PATIENCE)

    for schedule_id, owner in (("first", "ann"), ("second", "ann"), ("of-bob", "bob")):
        scheduler.add(schedule_id, note, owner=owner, every="1h", first_run="after_interval")
    with scheduler:
        first, second = scheduler.trigger("first"), scheduler.trigger("second")
        until(lambda: began)
        assert scheduler.trigger("of-bob").wait(timeout=PATIENCE).status == "succeeded"
        assert sorted(began)[1:] == ["of-bob"]
        released.set()
        assert [job.wait(timeout=PATIENCE).status for job in (first, second)] == ["succeeded"] * 2
