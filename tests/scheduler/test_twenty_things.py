"""Twenty everyday things of APScheduler 3, as its users would write them here; docs/guide lists them side by side.

The test of listeners is missing: `scheduler.on` does not exist yet.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from flask import Flask

from everwhen import (
    AsyncScheduler,
    DuplicateScheduleError,
    Run,
    Scheduler,
    UnknownJobError,
    UnknownScheduleError,
)
from everwhen.testing import manual_scheduler
from tests.scheduler import signatures
from tests.scheduler.waiting import until

LONG = 30.0
NEVER = "0 0 1 1 *"  # once a year: what a test does not want to happen meanwhile


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    with Scheduler("sqlite://", name="shop") as running:
        yield running


def ticks_of(scheduler: Scheduler, schedule_id: str) -> int:
    return scheduler.get_schedule(schedule_id).fire_count


def test_1_a_function_runs_at_an_interval(scheduler: Scheduler) -> None:
    slots: list[datetime] = []

    def tick(run: Run) -> None:
        slots.append(run.slot_at)

    scheduler.add("tick", tick, every="1s")
    until(lambda: len(slots) >= 3)
    gaps = [later - earlier for earlier, later in pairwise(slots)]
    assert all(gap >= timedelta(seconds=1) and gap.microseconds == 0 for gap in gaps)


def test_2_the_fields_of_cron_say_when(scheduler: Scheduler) -> None:
    scheduler.add("report", signatures.defaults, cron="30 7 * * mon-fri", timezone="Europe/Paris")
    coming = [slot.slot_at for slot in scheduler.upcoming("report", 5)]
    assert {slot.weekday() for slot in coming} == {0, 1, 2, 3, 4}
    assert {(slot.hour, slot.minute) for slot in coming} <= {(5, 30), (6, 30)}  # 07:30 in Paris, in UTC
    assert scheduler.get_schedule("report").next_run_at == coming[0]


def test_3_a_date_fires_once(scheduler: Scheduler) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=2)  # noqa: TID251  # as a program would
    scheduler.add("once", signatures.defaults, at=moment.replace(microsecond=0) + timedelta(seconds=1))
    until(lambda: scheduler.get_schedule("once").run_count == 1)
    found = scheduler.get_schedule("once")
    assert (found.status, found.next_run_at, found.fire_count) == ("done", None, 1)


def test_4_a_decorator_schedules_a_function() -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    ran = threading.Event()

    @scheduler.every("1h", id="poll")
    def poll() -> str:
        ran.set()
        return "3 orders"

    with scheduler:
        assert ran.wait(LONG)
        until(lambda: scheduler.jobs("poll", status="succeeded"))
        (job,) = scheduler.jobs("poll")
    assert (job.result, job.origin) == ("3 orders", "schedule")
    assert poll() == "3 orders"  # and it is the function that it was


def test_5_a_coroutine_runs_on_the_loop_of_the_program() -> None:
    scheduler = AsyncScheduler("sqlite://", name="shop")
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        fetched = asyncio.Event()

        @scheduler.every("1h", id="fetch")
        async def fetch() -> None:
            loops.append(asyncio.get_running_loop())
            fetched.set()

        async with scheduler:
            await asyncio.wait_for(fetched.wait(), LONG)
            assert loops == [asyncio.get_running_loop()]
            assert (await (await scheduler.trigger("fetch"))).is_success
        await scheduler.close()

    asyncio.run(main())
    assert len(loops) == 2


def test_6_a_web_handler_adds_a_schedule(scheduler: Scheduler) -> None:
    app = Flask("shop")

    @app.post("/orders/<int:number>/reminder")
    def remind(number: int) -> dict[str, str]:
        added = scheduler.add(
            f"remind-{number}",
            signatures.greet,
            args=[f"customer {number}"],
            after="1s",
            replace_existing=True,
        )
        return {"schedule": added.id, "status": added.status}

    with app.test_client() as client:
        answer = client.post("/orders/7/reminder")
    assert answer.get_json() == {"schedule": "remind-7", "status": "active"}
    until(lambda: scheduler.jobs("remind-7", status="succeeded"))
    assert scheduler.jobs("remind-7")[0].result == "hello customer 7"


def test_7_a_function_gets_args_and_kwargs(scheduler: Scheduler) -> None:
    scheduler.add("greet", signatures.greet, args=["Ada"], kwargs={"greeting": "good morning"}, every="1h")
    until(lambda: scheduler.jobs("greet", status="succeeded"))
    assert scheduler.jobs("greet")[0].result == "good morning Ada"


def test_8_a_closure_and_a_lambda_are_scheduled(scheduler: Scheduler) -> None:
    basket: list[str] = []

    def fill(what: str) -> None:
        basket.append(what)

    scheduler.add("fill", fill, args=["bread"], every="1h")
    until(lambda: basket == ["bread"])
    scheduler.add("empty", lambda: basket.remove("bread"), every="1h")
    until(lambda: basket == [])


def test_9_an_existing_schedule_is_replaced_only_where_that_is_said(scheduler: Scheduler) -> None:
    scheduler.add("greet", signatures.greet, args=["Ada"], cron=NEVER)
    assert scheduler.trigger("greet").wait(LONG).result == "hello Ada"
    with pytest.raises(DuplicateScheduleError):
        scheduler.add("greet", signatures.greet, args=["Bo"], cron=NEVER)
    replaced = scheduler.add("greet", signatures.greet, args=["Bo"], cron=NEVER, replace_existing=True)
    assert (replaced.revision, replaced.fire_count) == (2, 1)
    assert scheduler.trigger("greet").wait(LONG).result == "hello Bo"


def test_10_one_is_got_by_its_id(scheduler: Scheduler) -> None:
    added = scheduler.add("greet", signatures.greet, args=["Ada"], cron=NEVER)
    found = scheduler.get_schedule("greet")
    assert (found.id, found.status, found.next_run_at) == ("greet", "active", added.next_run_at)
    handle = scheduler.trigger("greet")
    handle.wait(LONG)
    assert handle.job_id is not None
    assert scheduler.get_job(handle.job_id).result == "hello Ada"  # a job is one run here
    with pytest.raises(UnknownScheduleError):
        scheduler.get_schedule("nobody")
    with pytest.raises(UnknownJobError):
        scheduler.get_job("nobody")


def test_11_all_are_listed_and_printed(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler.add("first", signatures.defaults, every="1h", first_run="after_interval")
    scheduler.add("second", signatures.defaults, cron=NEVER)
    first, second = scheduler.schedules()
    assert (first.id, first.trigger, second.id) == ("first", "every hour", "second")
    scheduler.print_schedules()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["first", "active"], ["second", "active"]]
    assert all("next run" in line for line in lines)


def test_12_one_is_rescheduled_and_modified_while_it_runs(scheduler: Scheduler) -> None:
    scheduler.add("sum", signatures.defaults, cron=NEVER)
    before = scheduler.get_schedule("sum").next_run_at
    rescheduled = scheduler.update("sum", every="1s")
    assert rescheduled.next_run_at is not None
    assert before is not None
    assert rescheduled.next_run_at < before
    until(lambda: ticks_of(scheduler, "sum") >= 1)
    scheduler.update("sum", cron=NEVER, name="Sum", max_retries=3)
    scheduler.add("sum", signatures.defaults, args=[5], cron=NEVER, replace_existing=True)
    assert scheduler.trigger("sum").wait(LONG).result == "7"


def test_13_what_is_removed_fires_no_more(scheduler: Scheduler) -> None:
    scheduler.add("gone", signatures.defaults, every="1s")
    scheduler.add("stays", signatures.defaults, every="1s")
    until(lambda: ticks_of(scheduler, "gone") >= 1)
    scheduler.remove("gone")
    fired, later = len(scheduler.jobs("gone")), ticks_of(scheduler, "stays")
    until(lambda: ticks_of(scheduler, "stays") >= later + 2)
    assert len(scheduler.jobs("gone")) == fired  # its record stays
    with pytest.raises(UnknownScheduleError):
        scheduler.get_schedule("gone")


def test_14_everything_that_was_added_is_removed(scheduler: Scheduler) -> None:
    for name in ("a", "b", "c"):
        scheduler.add(name, signatures.defaults, every="1h")
    assert scheduler.remove_all() == 3
    assert scheduler.schedules() == []


def test_15_one_is_paused_and_resumed(scheduler: Scheduler) -> None:
    scheduler.add("tick", signatures.defaults, every="1s")
    scheduler.add("other", signatures.defaults, every="1s")
    until(lambda: ticks_of(scheduler, "tick") >= 1)
    paused = scheduler.pause("tick", note="holidays")
    assert (paused.status, paused.next_run_at) == ("paused", None)
    later = ticks_of(scheduler, "other")
    until(lambda: ticks_of(scheduler, "other") >= later + 2)
    assert ticks_of(scheduler, "tick") == paused.fire_count
    assert scheduler.resume("tick").status == "active"
    until(lambda: ticks_of(scheduler, "tick") > paused.fire_count)


def test_16_all_are_paused_and_resumed(scheduler: Scheduler) -> None:
    scheduler.add("a", signatures.defaults, every="1s")
    scheduler.add("b", signatures.defaults, every="1s")
    until(lambda: ticks_of(scheduler, "a") >= 1 and ticks_of(scheduler, "b") >= 1)
    scheduler.pause_all()
    stopped = (ticks_of(scheduler, "a"), ticks_of(scheduler, "b"))
    seen = scheduler.get_state().check_count
    until(lambda: scheduler.get_state().check_count >= seen + 2)
    assert (ticks_of(scheduler, "a"), ticks_of(scheduler, "b")) == stopped
    assert "system" in str(scheduler.why("a"))
    scheduler.resume_all()
    until(lambda: ticks_of(scheduler, "a") > stopped[0] and ticks_of(scheduler, "b") > stopped[1])


def test_18_the_number_of_instances_is_bounded(scheduler: Scheduler) -> None:
    may_end, running = threading.Event(), threading.Semaphore(0)

    def slow() -> None:
        running.release()
        may_end.wait(LONG)

    scheduler.add("one", slow, every="1s")  # the default, one instance: if_running="skip"
    assert running.acquire(timeout=LONG)
    until(lambda: scheduler.why("one").reason == "already_running")
    assert scheduler.get_schedule("one").running_jobs == 1
    scheduler.remove("one")
    scheduler.add("two", slow, every="1s", if_running="allow", max_concurrent=2)
    assert running.acquire(timeout=LONG)
    assert running.acquire(timeout=LONG)
    until(lambda: ticks_of(scheduler, "two") >= 2)
    later = scheduler.get_state().check_count
    until(lambda: scheduler.get_state().check_count >= later + 3)
    assert not running.acquire(blocking=False)
    assert scheduler.get_schedule("two").running_jobs == 2
    scheduler.remove("two")
    may_end.set()


def test_19_runs_that_were_missed_are_coalesced_and_misfires_have_a_grace() -> None:
    scheduler = Scheduler("sqlite://", name="shop")
    scheduler.every("1h", id="coalesced", catch_up="run_once")(signatures.defaults)
    scheduler.every("1h", id="each", catch_up="run_all")(signatures.defaults)
    scheduler.every("1h", id="none", misfire_grace="30s")(signatures.defaults)
    test = manual_scheduler("2026-01-05T08:00:00Z", of=scheduler)  # the same engine, with a clock of its own
    test.advance("1s")
    test.sleep("3h59m")  # slots at 9, 10 and 11 are missed; at 11:59 the last one is late by 59 minutes
    test.restart()
    test.advance("5s")
    runs = {name: [job.origin for job in test.jobs(name)] for name in ("coalesced", "each", "none")}
    assert runs == {
        "coalesced": ["schedule", "catch_up"],
        "each": ["schedule", "catch_up", "catch_up", "catch_up"],
        "none": ["schedule"],
    }
    assert test.why("none", "2026-01-05T10:00:00Z").reason == "down"
    test.sleep("70s")  # 12:00 is late by 14 seconds, within the grace
    test.step()
    assert len(test.jobs("none")) == 2
    assert test.check().is_clean


def test_20_jobs_have_executors_and_stores(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"  # the job store: a file, or postgresql://…
    with Scheduler(url, name="shop", max_workers=2) as first:  # the pool of threads
        first.add("greet", signatures.greet, args=["Ada"], cron=NEVER)
        first.add("crunch", cron=NEVER, run={"python": "os:getpid", "isolate": True})  # a process of its own
        first.add("heavy", signatures.defaults, cron=NEVER, queue="heavy")
        crunched = first.trigger("crunch").wait(LONG)
        assert crunched.result is not None
        assert int(crunched.result) != os.getpid()
        heavy = first.trigger("heavy")
        assert first.trigger("greet").wait(LONG).result == "hello Ada"
        assert heavy.status == "queued"  # nobody serves its queue
    with Scheduler(url, name="shop", queues=["default", "heavy"]) as second:
        assert [one.id for one in second.schedules()] == ["greet", "crunch", "heavy"]
        assert second.trigger("greet").wait(LONG).result == "hello Ada"
        until(lambda: second.jobs("heavy", status="succeeded"))
