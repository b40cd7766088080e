"""Testing the schedules of a program: its own functions, under a clock of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from everwhen import Run, Scheduler, TriggerInfo
from everwhen.testing import ManualScheduler
from everwhen.testing.manual import manual_scheduler as make

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
