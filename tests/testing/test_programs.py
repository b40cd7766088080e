"""Testing the schedules of a program: its own functions, under a clock of the test's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from everwhen import AsyncScheduler, Run, Scheduler, SchedulerEvent, TriggerInfo
from everwhen.testing import ManualScheduler
from everwhen.testing.manual import manual_scheduler as make
from tests.scheduler import signatures

pytest_plugins = ["pytester"]
MakeScheduler = Callable[..., ManualScheduler]


def a_program(tmp_path: Path, **keys: Any) -> tuple[Scheduler, list[datetime]]:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/never.db", name="shop", **keys)
    slots: list[datetime] = []

    @scheduler.cron("0 9 * * 1-5", id="report")
    def report(run: Run) -> None:
        slots.append(run.slot_at)

    return scheduler, slots


def test_functions_are_called_at_their_slots_and_the_programs_database_is_not_touched(
    tmp_path: Path, manual_scheduler: MakeScheduler
) -> None:
    program, slots = a_program(tmp_path)
    test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
    test.advance("7d")
    assert [f"{slot:%a %H}" for slot in slots] == ["Mon 09", "Tue 09", "Wed 09", "Thu 09", "Fri 09"]
    assert test.check().is_clean
    assert list(tmp_path.iterdir()) == []
    assert program.get_status() == "stopped"


def test_async_functions_are_called_also_from_a_test_on_a_loop(manual_scheduler: MakeScheduler) -> None:
    program, ran = Scheduler("sqlite://"), []

    @program.every("1h", id="poll")
    async def poll(run: Run) -> str:
        await asyncio.sleep(0)
        ran.append(run.job_id)
        return "polled"

    async def test() -> None:
        test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
        test.advance("90m")
        assert [job.result for job in test.jobs("poll")] == ["polled", "polled"]

    asyncio.run(test())
    assert len(ran) == 2


def test_what_a_function_raises_fails_its_job(manual_scheduler: MakeScheduler) -> None:
    program = Scheduler("sqlite://")

    @program.every("1h", id="poll", max_retries=1, retry_delay="1m")
    def poll() -> None:
        raise ValueError("out of paper")

    test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
    test.advance("5m")
    assert [job.status for job in test.jobs("poll")] == ["failed", "failed"]
    assert "out of paper" in test.jobs("poll")[0].error
    assert test.state("poll").status == "active"


def test_the_host_is_called_for_agents_and_commands_are_not_run(
    tmp_path: Path, manual_scheduler: MakeScheduler
) -> None:
    reported: list[TriggerInfo] = []
    program = Scheduler("sqlite://", on_trigger=reported.append)
    program.set_agents({"reviewer": {"schedules": {"check": {"type": "interval", "interval": "5m"}}}})
    test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
    test.add("touch", every="1h", run={"command": ["touch", str(tmp_path / "touched")]})
    test.advance("1m")
    assert [info.schedule_id for info in reported] == ["reviewer.check"]
    assert [job.status for job in test.jobs("touch")] == ["succeeded"]
    assert not (tmp_path / "touched").exists()


def test_a_program_whose_declarations_changed_is_taken_on_anew(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # of other tests
    program, slots = a_program(tmp_path)
    test = make("2026-01-05T08:00:00Z", of=program)
    test.advance("2h")
    changed = Scheduler("sqlite://", name="shop")
    changed.every("1h", id="other")(lambda run: None)
    test.take_on(changed)
    assert [event.schedule_id for event in test.events(None, "schedule.deleted")] == ["report"]
    test.restart()
    test.advance("1h")
    assert len(slots) == 1
    assert test.state("other").run_count >= 1
    test.close()
    assert set(threading.enumerate()) <= before


def test_the_fixture_is_there_wherever_everwhen_is_installed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_a_year_of_schedules(manual_scheduler):
            test = manual_scheduler("2026-01-01T00:00:00Z")
            test.add("yearly", cron="0 0 24 12 *")
            test.advance("365d")
            assert [f"{job.slot:%m-%d}" for job in test.jobs("yearly")] == ["12-24"]
        """
    )
    done = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-p", "no:valkey")
    done.assert_outcomes(passed=1)


# -- listeners --


def a_failing_program() -> tuple[Scheduler, list[str]]:
    program, heard = Scheduler("sqlite://", name="shop"), []

    @program.every("1h", id="poll")
    def poll() -> None:
        raise ValueError("out of paper")

    @program.on("schedule.created", "schedule.fired", "job.failed")
    def tell(event: SchedulerEvent) -> None:
        heard.append(f"{event.at:%H:%M} {event.type} {event.schedule_id}")

    return program, heard


def test_listeners_have_heard_after_each_step_what_was_committed(manual_scheduler: MakeScheduler) -> None:
    program, heard = a_failing_program()
    test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
    assert heard == []
    test.step()
    assert heard == ["08:00 schedule.created poll", "08:00 schedule.fired poll", "08:00 job.failed poll"]
    test.advance("2h")
    assert heard[3:] == [
        "09:00 schedule.fired poll",
        "09:00 job.failed poll",
        "10:00 schedule.fired poll",
        "10:00 job.failed poll",
    ]
    test.add("other", every="1h")  # not of this program
    test.restart()
    test.advance("1h")
    assert heard[7:] == ["11:00 schedule.fired poll", "11:00 job.failed poll"]


def test_a_listener_that_a_test_adds_hears_what_happens_from_then_on(manual_scheduler: MakeScheduler) -> None:
    program, _ = a_failing_program()
    test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
    test.step()
    heard: list[SchedulerEvent] = []
    program.on("job.failed")(heard.append)
    test.advance("1h")
    assert [event.detail["error"] for event in heard] == ["ValueError: out of paper"]


def test_what_functions_and_listeners_do_with_their_scheduler_reaches_the_database_of_the_test(
    tmp_path: Path, manual_scheduler: MakeScheduler
) -> None:
    program, slots = a_program(tmp_path)

    @program.cron("0 0 1 1 *", id="mend")
    def mend() -> str:
        return program.add("later", signatures.defaults, after="1h").id

    @program.on("job.succeeded")
    def go_on(event: SchedulerEvent) -> None:
        if event.schedule_id == "report" and len(slots) == 1:
            program.trigger("mend")

    test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
    test.advance("1h")
    assert [job.result for job in test.jobs("mend")] == ["later"]
    test.advance("1h")
    assert [job.status for job in test.jobs("later")] == ["succeeded"]
    assert {one.id for one in program.schedules()} == {"report", "mend", "later"}
    test.close()
    assert list(tmp_path.iterdir()) == []
    assert program.schedules() == []
    program.close()


def test_a_named_listener_goes_on_after_an_outage_and_gets_a_refused_event_again(
    manual_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    program, heard = Scheduler("sqlite://", name="shop"), list[str]()
    failures = [LookupError("no room")] * 2

    @program.every("1h", id="poll")
    def poll() -> None: ...

    @program.on("schedule.fired", "schedule.missed", scope="all", name="audit")
    async def tell(event: SchedulerEvent) -> None:
        await asyncio.sleep(0)
        if failures:
            raise failures.pop()
        heard.append(f"{event.type} {event.slot_at:%H:%M}")

    test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
    test.step()
    assert heard == []
    test.advance("3s")  # after 1 and 2 seconds
    assert heard == ["schedule.fired 08:00"]
    assert "no room" in caplog.text
    test.sleep("3h")
    test.restart()
    test.step()
    assert heard[1:] == ["schedule.missed 09:00", "schedule.missed 10:00", "schedule.fired 11:00"]
    assert "everwhen-listeners" not in [thread.name for thread in threading.enumerate()]


def test_a_held_slot_is_heard_at_the_step_that_holds_it(manual_scheduler: MakeScheduler) -> None:
    program, heard = Scheduler("sqlite://", name="shop"), list[str | None]()
    program.on("schedule.held")(lambda event: heard.append(event.reason))
    program.every("1h", id="poll", only_between="09:00-10:00", outside_window="defer")(signatures.defaults)
    test = manual_scheduler("2026-01-05T08:00:00Z", of=program)
    test.step()
    assert heard == ["outside_window"]


def test_the_scheduler_of_an_asyncio_program_is_tested_in_the_same_way(
    manual_scheduler: MakeScheduler,
) -> None:
    program = AsyncScheduler("sqlite://", name="site", timezone="Europe/Paris")
    heard: list[str] = []

    @program.cron("0 9 * * *", id="report")
    async def report(run: Run) -> str:
        return f"{run.slot_at:%H:%M}"

    @program.on("job.succeeded")
    async def tell(event: SchedulerEvent) -> None:
        heard.append(event.type)

    test = manual_scheduler("2026-01-05T00:00:00Z", of=program)
    test.advance("1d")
    assert [job.result for job in test.jobs("report")] == ["08:00"]
    assert heard == ["job.succeeded"]
