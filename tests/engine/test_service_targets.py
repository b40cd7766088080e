"""A whole node with plugins, messages and subscribers: real threads, real processes."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

from everwhen.engine.service import ServiceOptions
from everwhen.model.message import message_target
from everwhen.model.outcome import Outcome
from everwhen.model.plugin import plugin_target
from everwhen.model.schedule import Target
from everwhen.operations.schedules import get_schedule, invalidate_schedule
from everwhen.target import Run
from everwhen.target_registry import open_target_registry
from everwhen.targets.subscribers import CallbackSubscriber
from everwhen.wiring import Stack, build_service, open_stack
from tests.submissions import Submission, create_schedule
from tests.targets.plugins import put_plugin

PATIENCE = 60


class Watch:
    """An observer that hands on what ends."""

    def __init__(self) -> None:
        self.ended_runs: queue.SimpleQueue[tuple[str, Outcome]] = queue.SimpleQueue()

    def started(self, run: Run) -> None:
        return None

    def ended(self, run: Run, outcome: Outcome) -> None:
        self.ended_runs.put((run.schedule_id, outcome))


def add(stack: Stack, schedule_id: str, target: Target, **fields: Any) -> None:
    create_schedule(stack.runtime, Submission(schedule_id, {"every": "1h", **fields}, target))


def test_a_node_runs_plugins_and_delivers_messages(tmp_path: Path) -> None:
    put_plugin(tmp_path)
    stack, watch = open_stack("sqlite://"), Watch()
    got: queue.SimpleQueue[str] = queue.SimpleQueue()
    service = build_service(
        stack,
        ServiceOptions(observer=watch),
        target_registry=open_target_registry(stack.runtime, plugin_dirs=[tmp_path]),
        subscribers=[CallbackSubscriber("inbox", lambda event: got.put(event["content"]["text"]))],
    )
    add(stack, "withings.hourly", plugin_target("withings", "poll"))
    add(stack, "reminder", message_target({"text": "Presents!"}))
    service.start()
    assert watch.ended_runs.get(timeout=PATIENCE)[1].result == "hello"
    assert got.get(timeout=PATIENCE) == "Presents!"
    service.stop()
    stack.close()


def test_a_start_finds_valid_what_can_run_now_and_nothing_else(tmp_path: Path) -> None:
    put_plugin(tmp_path)
    stack = open_stack("sqlite://")
    add(stack, "withings.hourly", plugin_target("withings", "poll"))
    add(stack, "gone", plugin_target("withings", "no_more"))
    add(stack, "pigeon", Target("carrier-pigeon"))
    add(stack, "workflow", Target("workflow", '{"workflow_id": "9"}'))
    names = ("withings.hourly", "gone", "pigeon", "workflow")
    for name in names:
        invalidate_schedule(stack.runtime, name, "it could not run")
    service = build_service(
        stack, target_registry=open_target_registry(stack.runtime, plugin_dirs=[tmp_path])
    )
    service.start()
    service.stop()
    statuses = [get_schedule(stack.runtime, name).state.status for name in names]
    assert statuses == ["active", "invalid", "invalid", "invalid"]
    stack.close()
