"""Changing things at run time: add again, update, list, cancel, run again, pause and remove everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen import ConfigError, Scheduler, SchedulerError
from everwhen.errors import DuplicateScheduleError, SourceError, UnknownScheduleError
from tests.scheduler import signatures
from tests.scheduler.waiting import until

LONG = 30.0
NEVER = "0 0 1 1 *"


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    with Scheduler("sqlite://", name="shop") as running:
        yield running


def test_an_id_that_exists_is_refused_unless_it_may_be_replaced(scheduler: Scheduler) -> None:
    scheduler.add("a", signatures.defaults, every="1h")
    with pytest.raises(DuplicateScheduleError) as taken:
        scheduler.add("a", signatures.defaults, every="2h")
    assert "replace_existing=True" in taken.value.__notes__[0]
    assert scheduler.add("a", signatures.defaults, every="2h", replace_existing=True).revision == 2


def test_the_same_definition_changes_nothing_and_another_keeps_the_counters(scheduler: Scheduler) -> None:
    first = scheduler.add("a", signatures.defaults, cron=NEVER, replace_existing=True)
    assert scheduler.trigger("a").wait(LONG).result == "3"
    assert scheduler.add("a", signatures.defaults, cron=NEVER, replace_existing=True).revision == 1
    changed = scheduler.add("a", signatures.defaults, cron=NEVER, args=[5], replace_existing=True)
    assert (changed.revision, changed.uid, changed.fire_count) == (2, first.uid, 1)
    assert scheduler.trigger("a").wait(LONG).result == "7"


def test_a_countdown_goes_on_when_the_same_words_are_added_again(scheduler: Scheduler) -> None:
    first = scheduler.add("a", signatures.defaults, after="1h", replace_existing=True)
    again = scheduler.add("a", signatures.defaults, after="1h", replace_existing=True)
    assert (again.next_run_at, again.revision) == (first.next_run_at, 1)


def test_a_one_shot_that_is_done_does_not_block_its_id(scheduler: Scheduler) -> None:
    scheduler.add("once", signatures.defaults, after="1s")
    until(lambda: scheduler.get_schedule("once").status == "done")
    again = scheduler.add("once", signatures.defaults, after="1s", replace_existing=True)
    assert again.status == "active"
    until(lambda: scheduler.get_schedule("once").run_count == 2)


def test_what_a_decorator_declares_is_not_replaced_by_add(scheduler: Scheduler) -> None:
    scheduler.every("1h", id="declared")(signatures.defaults)
    with pytest.raises(SourceError):
        scheduler.add("declared", signatures.defaults, every="2h", replace_existing=True)
    with pytest.raises(SourceError):
        scheduler.update("declared", every="2h")


def test_an_update_changes_the_named_keys_and_no_other(scheduler: Scheduler) -> None:
    scheduler.add("a", signatures.defaults, cron=NEVER, args=[5], max_retries=2)
    assert scheduler.update("a", every="1h", name="Sum").revision == 2
    (shown,) = scheduler.schedules()
    assert (shown.trigger, shown.source) == ("every hour", "python")
    assert scheduler.trigger("a").wait(LONG).result == "7"
    with pytest.raises(SchedulerError, match="jitter"):
        scheduler.update("a", jitter="2h")
    with pytest.raises(UnknownScheduleError):
        scheduler.update("b", every="1h")
    assert scheduler.get_schedule("a").revision == 2


def test_an_update_changes_the_arguments_of_a_function(scheduler: Scheduler) -> None:
    scheduler.add("a", signatures.greet, args=["Ada"], kwargs={"greeting": "hi"}, cron=NEVER)
    scheduler.update("a", args=["Bo"])
    assert scheduler.trigger("a").wait(LONG).result == "hi Bo"
    with pytest.raises(ConfigError, match="unexpected keyword argument 'tone'"):
        scheduler.update("a", kwargs={"tone": "low"})
    scheduler.add("b", cron=NEVER, run={"command": ["true"]})
    with pytest.raises(ConfigError, match="runs no function"):
        scheduler.update("b", args=[1])
    assert scheduler.get_schedule("a").revision == 2


def test_an_update_keeps_a_function_of_this_process_and_the_queue_of_its_program(
    scheduler: Scheduler,
) -> None:
    scheduler.add("local", lambda: "here", cron=NEVER)
    assert scheduler.update("local", every="1h", first_run="after_interval").revision == 2
    assert scheduler.trigger("local").wait(LONG).result == "here"


def test_schedules_and_jobs_are_listed(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler.add("a", signatures.defaults, cron=NEVER)
    scheduler.add("b", signatures.greet, kwargs={"name": "Ada"}, every="1h", first_run="after_interval")
    scheduler.pause("b")
    assert [one.id for one in scheduler.schedules()] == ["a", "b"]
    assert [one.id for one in scheduler.schedules(status="paused")] == ["b"]
    handle = scheduler.trigger("a")
    handle.wait(LONG)
    assert handle.job_id is not None
    (job,) = scheduler.jobs("a", status="succeeded")
    assert (job.id, job.result, job.origin) == (handle.job_id, "3", "manual")
    assert scheduler.get_job(handle.job_id) == job
    assert scheduler.jobs("b") == []
    scheduler.print_schedules()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[:2] == ["a", "active"]
    assert "next run" in shown[0]
    assert shown[1].split()[:2] == ["b", "paused"]


def test_a_running_job_is_cancelled_and_an_ended_one_runs_again(scheduler: Scheduler) -> None:
    scheduler.add("a", cron=NEVER, run={"command": ["sleep", "60"]})
    handle = scheduler.trigger("a")
    assert handle.job_id is not None
    until(lambda: handle.status == "running")
    with pytest.raises(TimeoutError, match="has not ended within 0s"):
        handle.wait(0)
    scheduler.cancel(handle.job_id)
    assert handle.wait(LONG).status == "cancelled"
    scheduler.update("a", run={"command": ["echo", "again"]})
    again = scheduler.rerun(handle.job_id)
    assert again.wait(LONG).is_success
    assert again.job_id != handle.job_id


def test_a_request_that_makes_no_job_says_so(scheduler: Scheduler) -> None:
    scheduler.add("a", cron=NEVER, run={"command": ["sleep", "60"]})
    first = scheduler.trigger("a")
    second = scheduler.trigger("a", if_running="skip")
    assert (second.is_skipped, second.status, second.wait().skip_reason) == (
        True,
        "skipped",
        "already_running",
    )
    assert first.job_id is not None
    scheduler.cancel(first.job_id)


def test_everything_is_paused_resumed_and_removed(scheduler: Scheduler) -> None:
    scheduler.every("1h", id="declared")(signatures.defaults)
    scheduler.add("a", signatures.defaults, every="1h")
    scheduler.add("b", signatures.defaults, every="1h")
    scheduler.pause_all()
    assert "system" in str(scheduler.why("a")).lower()
    scheduler.resume_all()
    assert scheduler.remove_all() == 2
    assert [one.id for one in scheduler.schedules()] == ["declared"]


PROGRAM = """
import sys, threading
from everwhen import Scheduler
scheduler = Scheduler(sys.argv[1], name="shop", lease=3)
scheduler.start()
scheduler.add("local", lambda: "there", cron="0 0 1 1 *")
print("added", flush=True)
threading.Event().wait()
"""


def test_a_lambda_of_a_killed_process_is_invalid_once_its_lease_is_over(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, url], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"added\n"
        with Scheduler(url, name="shop", lease=3) as here:
            assert here.get_schedule("local").status == "active"
            handle = here.trigger("local")
            assert handle.wait(LONG).result == "there"  # in the process that has it
            os.kill(other.pid, signal.SIGKILL)
            other.wait()
            until(lambda: here.get_schedule("local").status == "invalid")
            assert here.get_schedule("local").status_reason == "declare it again"


def test_many_at_once_take_no_function_of_this_process_alone() -> None:
    with pytest.raises(ConfigError, match="cannot be imported"):
        Scheduler("sqlite://").add_many([{"id": "a", "function": lambda: None, "every": "1h"}])
