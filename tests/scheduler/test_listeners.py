"""Listeners: every kind of event is heard, by the process or by name, and a listener that raises harms nobody."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from everwhen import AsyncScheduler, ConfigError, Scheduler, SchedulerEvent
from everwhen.clock import SystemClock
from everwhen.model.events import DERIVED_MEANINGS, MEANINGS
from everwhen.model.instants import to_datetime
from everwhen.operations.event_feed import TYPES
from tests.scheduler import signatures
from tests.scheduler.waiting import until

LONG = 30.0
NEVER = "0 0 1 1 *"
DATABASES = ("sqlite", "postgres")


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


class Heard:
    """A listener that keeps what it hears, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.events: list[SchedulerEvent] = []
        self.failures = 0

    def __call__(self, event: SchedulerEvent) -> None:
        if self.failures:
            self.failures -= 1
            raise LookupError(f"no room for {event.type}")
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def about(self, schedule_id: str) -> list[str]:
        return [event.type for event in self.events if event.schedule_id == schedule_id]

    def count(self, kind: str) -> int:
        return self.types.count(kind)


def shop(url: str = "sqlite://", **options: Any) -> Scheduler:
    scheduler = Scheduler(url, name="shop", **options)
    scheduler.cron(NEVER, id="good")(signatures.defaults)
    scheduler.cron(NEVER, id="bad")(fail)
    return scheduler


def fail() -> None:
    raise ValueError("out of stock")


def now() -> datetime:
    return to_datetime(SystemClock().now())


@contextmanager
def running(scheduler: Scheduler) -> Iterator[Scheduler]:
    with scheduler:
        yield scheduler
    scheduler.close()


# -- of the process --


def test_a_process_hears_what_its_jobs_and_schedules_do(url: str) -> None:
    scheduler, heard = shop(url), Heard()
    scheduler.on()(heard)
    with running(scheduler):
        assert scheduler.trigger("good").wait(LONG).is_success
        assert scheduler.trigger("bad").wait(LONG).status == "failed"
        until(lambda: heard.count("job.succeeded") == heard.count("job.failed") == 1)
        scheduler.pause("good", note="stocktaking")
        scheduler.resume("good")
        scheduler.pause_all()
        scheduler.resume_all()
        until(lambda: heard.count("system.resumed") == 1)
    assert heard.types[0] == "scheduler.started"
    assert heard.types[-1] == "scheduler.stopped"
    assert {"system.paused", "system.resumed"} <= set(heard.types)
    assert heard.about("good") == [
        "schedule.created",
        "schedule.fired",
        "job.started",
        "job.succeeded",
        "schedule.paused",
        "schedule.resumed",
    ]
    assert heard.about("bad") == ["schedule.created", "schedule.fired", "job.started", "job.failed"]


def test_an_event_says_what_happened_and_cannot_be_changed() -> None:
    scheduler, heard = shop(), Heard()
    scheduler.on("job.failed", "schedule.paused")(heard)
    with scheduler:
        handle = scheduler.trigger("bad")
        handle.wait(LONG)
        until(lambda: heard.events)
        scheduler.pause("good")
    failed, paused = heard.events
    assert (failed.type, failed.schedule_id, failed.job_id) == ("job.failed", "bad", handle.job_id)
    assert failed.detail["error"] == "ValueError: out of stock"
    assert failed.at.tzinfo is UTC
    assert failed.slot_at is not None
    assert failed.at - failed.slot_at < timedelta(minutes=1)
    assert (paused.slot_at, paused.slot_count, paused.job_id) == (None, 1, None)
    with pytest.raises(FrozenInstanceError):
        failed.type = "job.succeeded"  # type: ignore[misc]


def test_a_decorated_function_stays_as_it_was() -> None:
    scheduler = shop()

    @scheduler.on("job.failed")
    def tell(event: SchedulerEvent) -> str:
        return event.type

    assert tell.__name__ == "tell"


def test_a_skipped_slot_is_heard() -> None:
    scheduler, heard = Scheduler("sqlite://", name="shop"), Heard()
    scheduler.on("schedule.skipped")(heard)
    release = threading.Event()
    scheduler.every("1s", id="slow")(lambda: release.wait(LONG) and None)
    with scheduler:
        until(lambda: heard.events)
        scheduler.pause("slow")
        release.set()
    assert heard.events[0].reason == "already_running"
    assert heard.events[0].slot_at is not None


def test_slots_that_were_missed_while_nothing_ran_are_heard_as_one_event(url: str) -> None:
    first = Scheduler(url, name="shop")
    with running(first):
        due_at = first.add("often", signatures.defaults, every="1s").next_run_at
    assert due_at is not None
    until(lambda: now() > due_at + timedelta(seconds=3))
    again, heard = Scheduler(url, name="shop", check_interval=0.1), Heard()
    again.on("schedule.missed")(heard)
    with running(again):
        until(lambda: heard.events)
    assert heard.events[0].schedule_id == "often"
    assert heard.events[0].reason in ("down", "late")  # late: it was due at the very moment of the stop
    assert heard.events[0].slot_count >= 1


def test_a_cancelled_job_is_heard_once_and_has_no_other_end() -> None:
    scheduler, heard = Scheduler("sqlite://", name="shop"), Heard()
    scheduler.on()(heard)
    with scheduler:
        scheduler.add("long", cron=NEVER, run={"command": ["sleep", "60"]})
        handle = scheduler.trigger("long")
        until(lambda: heard.count("job.started") == 1)
        assert handle.job_id is not None
        scheduler.cancel(handle.job_id)
        handle.wait(LONG)
        until(lambda: heard.count("job.cancelled") == 1)
    ends = {"job.succeeded", "job.failed", "job.timed_out"}
    assert not ends & set(heard.types)
    assert heard.count("job.cancelled") == 1


def test_jobs_of_another_process_and_schedules_of_another_program_are_not_heard(url: str) -> None:
    here, heard = shop(url), Heard()
    here.on()(heard)
    other = Scheduler(url, name="bakery")
    with running(here), running(other):
        other.add("bread", signatures.defaults, cron=NEVER)
        assert other.trigger("bread").wait(LONG).is_success
        assert here.trigger("good").wait(LONG).is_success
        until(lambda: heard.count("job.succeeded") == 1)
        other.remove("bread")
        here.add("cake", signatures.defaults, cron=NEVER)
        here.add("local", lambda: None, cron=NEVER)
        here.remove("cake")
        until(lambda: heard.about("cake") == ["schedule.created", "schedule.deleted"])
    assert heard.about("bread") == []
    assert heard.about("local") == ["schedule.created"]
    assert heard.count("scheduler.started") == 1


def test_a_listener_that_raises_harms_nobody_and_the_next_event_arrives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler, broken, leaving, heard = shop(), Heard(), Heard(), Heard()
    broken.failures = 1

    @scheduler.on("job.succeeded")
    def leave(event: SchedulerEvent) -> None:
        leaving(event)
        sys.exit(3)

    scheduler.on("job.succeeded")(broken)
    scheduler.on("job.succeeded")(heard)
    with caplog.at_level(logging.ERROR, "everwhen"), scheduler:
        first = scheduler.trigger("good")
        assert first.wait(LONG).is_success
        until(lambda: len(heard.events) == 1)
        assert scheduler.trigger("good").wait(LONG).is_success
        until(lambda: len(heard.events) == 2)
    assert [len(one.events) for one in (broken, leaving)] == [1, 2]
    records = [record for record in caplog.records if "no room" in record.getMessage()]
    assert len(records) == 1
    assert records[0].exc_info is not None
    assert getattr(records[0], "job_id") == first.job_id  # noqa: B009  # of `extra`


def test_a_listener_that_is_added_later_hears_what_happens_then() -> None:
    scheduler, early, late = shop(), Heard(), Heard()
    with scheduler:
        assert scheduler.trigger("good").wait(LONG).is_success
        scheduler.on("scheduler.stopped")(early)  # the first one: nobody has listened until now
        assert scheduler.trigger("good").wait(LONG).is_success
        scheduler.on("job.succeeded")(late)  # the first one that wants ends
        third = scheduler.trigger("good")
        assert third.wait(LONG).is_success
        until(lambda: third.job_id in [event.job_id for event in late.events])
    assert early.types == ["scheduler.stopped"]


def test_a_held_slot_is_heard_by_the_process() -> None:
    scheduler, heard = Scheduler("sqlite://", name="shop"), Heard()
    scheduler.on("schedule.held")(heard)
    closed = [f"{now() + timedelta(days=days):%a}".lower() for days in range(6)]
    with scheduler:
        scheduler.add("closed", signatures.defaults, every="1s", not_on=closed, outside_window="defer")
        until(lambda: heard.events)
    assert (heard.events[0].schedule_id, heard.events[0].reason) == ("closed", "excluded_day")


def test_a_listener_may_stop_its_scheduler() -> None:
    scheduler = shop()
    scheduler.on("job.failed")(lambda event: scheduler.stop())
    with scheduler:
        scheduler.trigger("bad")
        until(lambda: scheduler.get_status() == "stopped")
    assert threads() == []


def test_the_thread_runs_only_while_there_is_a_listener_and_the_scheduler_runs() -> None:
    scheduler = shop()
    with scheduler:
        assert threads() == []
    scheduler.on()(Heard())
    assert threads() == []
    with scheduler:
        assert threads() == ["everwhen-listeners"]
    assert threads() == []
    with scheduler:
        assert threads() == ["everwhen-listeners"]
    assert threads() == []


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "everwhen-listeners"]


# -- what is refused --


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        (lambda s: s.on("job.faild"), 'event type "job.faild": unknown type, did you mean "job.failed"\\?'),
        (lambda s: s.on("xyz"), 'event type "xyz": unknown type'),
        (lambda s: s.on(fail), "write the decorator with parentheses"),
        (lambda s: s.on(scope="all"), 'scope="all" needs a name'),
        (lambda s: s.on(scope="all", name="a b"), 'name "a b"'),
        (lambda s: s.on(name="audit"), 'needs scope="all"'),
        (lambda s: s.on(scope="host"), 'scope "host" is unknown'),
        (lambda s: s.on("schedule.held", scope="all", name="a"), "schedule.held is not on record"),
        (lambda s: s.on()("no function"), "cannot be called"),
    ],
)
def test_what_cannot_be_listened_to_is_refused(listen: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        listen(shop())


def test_every_type_is_in_the_reference() -> None:
    assert set(TYPES) == {*MEANINGS, *DERIVED_MEANINGS}


def test_a_name_is_that_of_one_listener() -> None:
    scheduler = shop()
    scheduler.on(scope="all", name="audit")(Heard())
    with pytest.raises(ConfigError, match='"audit" is declared already'):
        scheduler.on(scope="all", name="audit")(Heard())


# -- of everything --


def test_a_named_listener_hears_what_happened_while_it_was_away(url: str) -> None:
    first, heard = shop(url), Heard()
    first.on("schedule.fired", "job.started", "job.failed", "schedule.paused", scope="all", name="audit")(
        heard
    )
    with running(first):
        assert first.trigger("good").wait(LONG).is_success
        until(lambda: heard.count("job.started") == 1)
    assert heard.types == ["schedule.fired", "job.started"]

    other = Scheduler(url, name="bakery")
    other.cron(NEVER, id="bread")(fail)
    with running(other):
        assert other.trigger("bread").wait(LONG).status == "failed"
        other.pause("bread")

    again, later = shop(url), Heard()
    again.on("schedule.fired", "job.started", "job.failed", "schedule.paused", scope="all", name="audit")(
        later
    )
    with running(again):
        until(lambda: later.count("schedule.paused") == 1)
    assert later.types == ["schedule.fired", "job.started", "job.failed", "schedule.paused"]
    assert {event.schedule_id for event in later.events} == {"bread"}


def test_a_job_that_ends_while_nobody_listens_is_heard_to_end(url: str) -> None:
    """Also when it had been heard to start, and others have ended since."""
    first, heard = shop(url, max_workers=4), Heard()
    release = threading.Event()
    first.cron(NEVER, id="long")(lambda: release.wait(LONG) and None)
    listening = Scheduler(url, name="ear")
    listening.on(scope="all", name="audit")(heard)
    later = Heard()
    with running(first):
        with running(listening):
            long = first.trigger("long")
            until(lambda: heard.about("long").count("job.started") == 1)
            assert first.trigger("good").wait(LONG).is_success
            until(lambda: heard.about("good").count("job.succeeded") == 1)
        release.set()
        assert long.wait(LONG).is_success
        again = Scheduler(url, name="ear")
        again.on(scope="all", name="audit")(later)
        with running(again):
            until(lambda: later.about("long"))
    assert later.about("long") == ["job.succeeded"]
    assert later.about("good") == []


def test_an_event_that_is_refused_comes_again_and_the_rest_waits(url: str) -> None:
    scheduler, heard, others = shop(url), Heard(), Heard()
    heard.failures = 2
    scheduler.on("job.succeeded", "job.failed", scope="all", name="audit")(heard)
    scheduler.on("job.succeeded", "job.failed", scope="all", name="metrics")(others)
    with running(scheduler):
        assert scheduler.trigger("good").wait(LONG).is_success
        assert scheduler.trigger("bad").wait(LONG).status == "failed"
        until(lambda: len(others.events) == 2)
        until(lambda: len(heard.events) == 2)
    assert heard.types == ["job.succeeded", "job.failed"]


def test_one_event_that_is_always_refused_does_not_stop_the_rest(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Over two starts: the tries are counted in the database."""
    url, heard = f"sqlite:///{tmp_path}/shop.db", Heard()
    heard.failures = 5
    caplog.set_level(logging.ERROR, "everwhen")
    first = shop(url)
    first.on("job.succeeded", "job.failed", scope="all", name="audit")(heard)
    with running(first):
        assert first.trigger("good").wait(LONG).is_success
        until(lambda: heard.failures == 3)
    again = shop(url)
    again.on("job.succeeded", "job.failed", scope="all", name="audit")(heard)
    with running(again):
        assert again.trigger("bad").wait(LONG).status == "failed"
        until(lambda: heard.events, 60)
    assert heard.types == ["job.failed"]
    said = [record.getMessage() for record in caplog.records if "listener audit" in record.getMessage()]
    assert [f"try {n} of 5" in line for n, line in enumerate(said[:5], 1)] == [True] * 5
    assert "skips job.succeeded" in said[5]


def test_two_processes_hear_each_event_once_between_them(url: str) -> None:
    heard = Heard()
    first, second = shop(url), shop(url)
    for scheduler in (first, second):
        scheduler.on("job.succeeded", scope="all", name="audit")(heard)
    jobs = []
    with running(first):
        with running(second):
            for _ in range(10):
                handle = first.trigger("good")
                assert handle.wait(LONG).is_success
                jobs.append(handle.job_id)
            until(lambda: len(heard.events) >= 10)
        handle = first.trigger("good")
        assert handle.wait(LONG).is_success
        jobs.append(handle.job_id)
        until(lambda: len(heard.events) >= 11)
    assert [event.job_id for event in heard.events] == jobs


def test_another_process_goes_on_when_the_one_that_delivers_stops(url: str) -> None:
    heard, ears = Heard(), Heard()
    first, second = shop(url), shop(url)
    first.on("job.succeeded", scope="all", name="audit")(heard)
    second.on("job.succeeded", scope="all", name="audit")(ears)
    with running(second):
        with running(first):
            assert first.trigger("good").wait(LONG).is_success
            until(lambda: heard.events or ears.events)
        for count in range(2, 5):
            assert second.trigger("good").wait(LONG).is_success
            until(lambda: len(heard.events) + len(ears.events) == count)  # noqa: B023  # called at once
    jobs = [event.job_id for event in (*heard.events, *ears.events)]
    assert len(jobs) == len(set(jobs)) == 4


PROGRAM = """
import sys
from everwhen import Scheduler
from tests.scheduler.test_listeners import shop

scheduler = shop(sys.argv[1], lease=3)

@scheduler.on("job.succeeded", scope="all", name="audit")
def hear(event):
    print(event.job_id, flush=True)
    sys.stdin.readline()

with scheduler:
    print("started", flush=True)
    scheduler.trigger("good").wait(30)
    sys.stdin.readline()
"""


def test_what_a_killed_process_was_hearing_is_heard_again(url: str) -> None:
    child = [sys.executable, "-c", PROGRAM, url]
    with subprocess.Popen(child, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "started\n"
        job_id = other.stdout.readline().strip()
        assert job_id.startswith("sched-")
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    heard = Heard()
    here = shop(url, lease=3)
    here.on("job.succeeded", scope="all", name="audit")(heard)
    with running(here):
        until(lambda: heard.events)
    assert heard.events[0].job_id == job_id


# -- coroutines --


def test_a_coroutine_is_awaited_on_the_loop_of_the_program(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/shop.db", name="shop")
    scheduler.cron(NEVER, id="good")(signatures.defaults)
    heard: list[tuple[str, object]] = []

    async def main() -> None:
        arrived = asyncio.Event()

        @scheduler.on("job.succeeded", scope="all", name="audit")
        async def hear(event: SchedulerEvent) -> None:
            await asyncio.sleep(0)
            heard.append((event.type, asyncio.get_running_loop()))
            arrived.set()

        @scheduler.on("job.succeeded")
        async def fail_to_hear(event: SchedulerEvent) -> None:
            raise ValueError(event.type)

        async with scheduler:
            assert (await (await scheduler.trigger("good"))).is_success
            await asyncio.wait_for(arrived.wait(), LONG)
        assert heard == [("job.succeeded", asyncio.get_running_loop())]

    asyncio.run(main())
    assert threads() == []


def test_a_coroutine_of_a_plain_scheduler_is_awaited_too() -> None:
    scheduler, heard = shop(), Heard()

    @scheduler.on("job.succeeded", "scheduler.stopped")
    async def hear(event: SchedulerEvent) -> None:
        await asyncio.sleep(0)
        heard(event)

    with scheduler:
        assert scheduler.trigger("good").wait(LONG).is_success
    assert heard.types == ["job.succeeded", "scheduler.stopped"]
    assert [thread.name for thread in threading.enumerate() if thread.name == "everwhen-python"] == []
