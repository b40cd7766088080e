"""Hosts that run schedules themselves: `on_trigger`, and agents that a program brings."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from everwhen import Scheduler, TriggerInfo
from everwhen.errors import ConfigError, UnknownScheduleError
from tests.scheduler.waiting import until

CHECK = {"type": "interval", "interval": "5m", "prompt": "Check for ready issues."}


class Host:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.reported: list[TriggerInfo] = []
        self.error: Exception | None = None

    def __call__(self, info: TriggerInfo) -> str:
        self.reported.append(info)
        if self.error is not None:
            raise self.error
        return f"ran {info.schedule_name}"


def reviewer(**schedules: dict[str, Any]) -> dict[str, Any]:
    return {"reviewer": {"schedules": schedules}}


def test_its_return_settles_the_job() -> None:
    host = Host()
    scheduler = Scheduler("sqlite://", on_trigger=host)
    scheduler.add("poll", every="1h", payload={"a": 1})
    with scheduler:
        until(lambda: scheduler.get_schedule("poll").run_count == 1)
    (info,) = host.reported
    assert (info.agent, info.schedule_id, info.payload) == (None, "poll", {"a": 1})
    assert info.metadata.job_id == info.job_id == scheduler.get_schedule("poll").last_success_job_id


def test_an_exception_fails_the_job() -> None:
    host = Host()
    host.error = ValueError("out of paper")
    scheduler = Scheduler("sqlite://", on_trigger=host)
    scheduler.start({"reviewer": {"schedules": {"check": CHECK}}})
    until(lambda: scheduler.get_schedule("reviewer.check").error_count == 1)
    scheduler.stop()
    assert "out of paper" in (scheduler.get_schedule("reviewer.check").last_error or "")


def test_an_async_callback_runs_on_the_loop_of_its_program() -> None:
    loops: list[object] = []

    async def on_trigger(info: TriggerInfo) -> None:
        loops.append(asyncio.get_running_loop())

    scheduler = Scheduler("sqlite://", on_trigger=on_trigger)
    scheduler.add("poll", every="1h")
    scheduler.set_agents(reviewer(check=CHECK))

    async def program() -> None:
        async with scheduler:
            while len(loops) < 2:
                await asyncio.sleep(0.01)
            assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(asyncio.wait_for(program(), 30))


def test_agents_come_with_the_start_and_are_replaced_while_it_runs() -> None:
    host = Host()
    scheduler = Scheduler("sqlite://", on_trigger=host)
    scheduler.start([{"name": "reviewer", "schedules": {"check": CHECK}}])
    until(lambda: scheduler.get_schedule("reviewer.check").run_count == 1)
    assert host.reported[0].agent == "reviewer"
    assert host.reported[0].schedule_name == "check"
    assert host.reported[0].prompt == "Check for ready issues."
    scheduler.set_agents({"writer": {"schedules": {"draft": CHECK}}})
    with pytest.raises(UnknownScheduleError):
        scheduler.get_schedule("reviewer.check")
    until(lambda: scheduler.get_schedule("writer.draft").run_count == 1)
    with pytest.raises(ConfigError, match=r"agents\.writer\.schedules\.draft\.interval: Invalid time unit"):
        scheduler.set_agents({"writer": {"schedules": {"draft": {"type": "interval", "interval": "5x"}}}})
    assert scheduler.get_schedule("writer.draft").status == "active"
    scheduler.stop()


def test_without_a_host_an_agent_needs_its_command(tmp_path: Path) -> None:
    scheduler = Scheduler("sqlite://")
    with pytest.raises(ConfigError, match=r"agents\.reviewer: command is required"):
        scheduler.start(reviewer(check=CHECK))
    said = tmp_path / "said"
    agent = {"command": ["tee", str(said)], "schedules": {"check": CHECK}}
    scheduler.start({"reviewer": agent})
    until(lambda: scheduler.get_schedule("reviewer.check").run_count == 1)
    scheduler.stop()
    assert said.read_text() == "Check for ready issues."


def test_an_item_of_the_work_source_is_completed_when_the_host_returns(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "fix-login.md").write_text("It fails on Mondays.")
    host = Host()
    scheduler = Scheduler("sqlite://", on_trigger=host)
    scheduler.start(reviewer(check={**CHECK, "work_source": {"type": "directory", "path": str(inbox)}}))
    until(lambda: scheduler.get_schedule("reviewer.check").run_count == 1)
    scheduler.stop()
    (info,) = host.reported
    assert info.work_item is not None and "It fails on Mondays." in info.prompt
    assert [path.name for path in (inbox / "done").iterdir()] == ["fix-login.md"]


def test_a_callback_learns_when_its_run_is_to_end() -> None:
    ended = threading.Event()

    def on_trigger(info: TriggerInfo) -> None:
        if info.cancelled.wait(30):
            ended.set()

    scheduler = Scheduler("sqlite://", on_trigger=on_trigger)
    scheduler.add("slow", every="1h", timeout="1s")
    with scheduler:
        assert ended.wait(30)
        until(lambda: scheduler.get_schedule("slow").error_count == 1)
