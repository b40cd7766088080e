"""Workflows: what they are told, and that success is that of the work."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from everwhen.model.group import DispatchEvent, Workflow
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Target
from everwhen.target import Run
from everwhen.target import Target as Work
from everwhen.targets.command import CommandTarget
from everwhen.targets.workflow import WorkflowRegistry, WorkflowTarget
from everwhen.testing import ManualClock
from tests.targets.http_server import Requests, a_server, status
from tests.targets.running import a_run, perform, until


class Echo:
    """A target that blocks, and says what it was told."""

    def run(self, spec: str, run: Run) -> Outcome:
        return Outcome("succeeded", result=json.dumps([json.loads(spec), run.payload]))


def ask(run_by: DispatchEvent | Target, *, triggers: tuple[str, ...] = (), **keys: Any) -> Outcome:
    registry = WorkflowRegistry()
    registry.register(Workflow("1", run_by, triggers=triggers))
    targets: dict[str, Work] = {"command": CommandTarget(), "http": Echo()}
    target = WorkflowTarget(registry, targets, ManualClock("2026-01-05T08:00:00Z"))
    run = keys.pop("run", None)
    spec = {"workflow_id": "1", **keys.pop("spec", {})}
    return perform(target, spec, run or a_run(report_type="daily"), **keys)


EVENT = {
    "scheduled_job_id": "backup",
    "scheduled_job_name": "Backup",
    "repeat_number": 0,
    "payload": {"report_type": "daily"},
    "timestamp": "2026-01-05T08:00:00Z",
}


def test_a_handler_gets_the_event_and_the_owner() -> None:
    reported: list[Any] = []
    outcome = ask(lambda *event: reported.append(event), spec={"owner": "ann"})
    assert outcome == Outcome("succeeded", result="")
    assert reported == [("schedule", EVENT, "ann")]


def test_an_async_handler_is_awaited() -> None:
    async def handler(_kind: str, data: dict[str, Any], _owner: str | None) -> str:
        await asyncio.sleep(0)
        return f"ran {data['scheduled_job_name']}"

    assert ask(handler) == Outcome("succeeded", result="ran Backup")


def test_a_handler_that_raises_has_failed() -> None:
    def handler(*_event: Any) -> None:
        raise LookupError("no such report")

    outcome = ask(handler)
    assert (outcome.status, outcome.is_final) == ("failed", False)
    assert "LookupError: no such report" in (outcome.error or "")


def test_a_handler_that_calls_exit_has_failed_and_nothing_else_has() -> None:
    def handler(*_event: Any) -> None:
        raise SystemExit(3)

    assert "SystemExit(3)" in (ask(handler).error or "")


def test_work_that_was_started_elsewhere_is_waited_for() -> None:
    external: Future[str] = Future()

    def handler(*_event: Any) -> Future[str]:
        threading.Timer(0.05, external.set_exception, [RuntimeError("the work failed")]).start()
        return external

    outcome = ask(handler)
    assert outcome.status == "failed"
    assert "the work failed" in (outcome.error or "")


def test_an_awaitable_that_a_plain_handler_returns_is_waited_for() -> None:
    async def work() -> str:
        return "done"

    assert ask(lambda *_event: work()).result == "done"


def test_a_handler_may_say_the_outcome_itself() -> None:
    said = Outcome("failed", error="no quota", is_final=True)
    assert ask(lambda *_event: said) == said


def test_a_handler_that_blocks_is_over_when_its_time_is_up_and_its_place_stays_taken() -> None:
    gate = threading.Event()
    run = a_run(2.0)
    outcome = ask(lambda *_event: gate.wait(30), run=run)
    assert outcome.status == "timed_out"
    (work,) = run.still_running
    assert not work.done()
    gate.set()
    until(work.done)


def test_over_http_the_event_is_the_body() -> None:
    outcome = ask(Target("http", '{"url": "http://127.0.0.1:9000/run"}'))
    assert json.loads(outcome.result or "") == [{"url": "http://127.0.0.1:9000/run", "body": EVENT}, EVENT]


def test_the_words_of_a_payload_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL is the file's, and its references count; name and payload are the submitter's."""
    monkeypatch.setenv("EVERWHEN_TEST_SECRET", "hunter2")
    said: dict[str, Any] = {
        "a": "${EVERWHEN_TEST_SECRET}",
        "b": ["$${EVERWHEN_TEST_SECRET}", {"c": "${NOT_SET}"}],
    }
    with a_server(status(200)) as server:
        registry = WorkflowRegistry()
        spec = {"url": f"{server.url}/run?key=${{EVERWHEN_TEST_SECRET}}"}
        registry.register(Workflow("1", Target("http", json.dumps(spec))))
        target = WorkflowTarget(registry, {"http": Requests()}, ManualClock("2026-01-05T08:00:00Z"))
        outcome = perform(target, {"workflow_id": "1"}, a_run(**said))
    assert outcome.status == "succeeded"
    (seen,) = server.seen
    assert seen.path == "/run?key=hunter2"
    assert seen.json["payload"] == said


def test_over_a_command_the_event_is_the_payload_and_its_exit_code_the_outcome() -> None:
    command = Target("command", json.dumps({"argv": ["sh", "-c", 'echo "$EVERWHEN_PAYLOAD"; exit 3']}))
    outcome = ask(command)
    assert outcome.status == "failed"
    assert json.loads((outcome.error or "").removeprefix("exit code 3: ")) == EVENT


def test_an_unknown_workflow_ends_the_schedule() -> None:
    outcome = ask(print, spec={"workflow_id": "2"})
    assert (outcome.error, outcome.is_final, outcome.invalidates) == ("Workflow not found.", True, True)


def test_a_target_that_is_not_there_ends_the_schedule() -> None:
    assert ask(Target("carrier-pigeon")).error == 'no target of kind "carrier-pigeon" on this node'


@pytest.mark.parametrize(("trigger", "status"), [("a", "succeeded"), (None, "succeeded"), ("z", "failed")])
def test_a_trigger_node_must_be_one_of_the_workflow(trigger: str | None, status: str) -> None:
    outcome = ask(lambda *_event: None, triggers=("a", "b"), spec={"trigger_node_id": trigger})
    assert outcome.status == status
    if status == "failed":
        assert outcome.error == "No matching trigger found for scheduled job backup"
        assert outcome.is_final and not outcome.invalidates


def test_a_workflow_without_triggers_takes_every_trigger_node() -> None:
    assert ask(lambda *_event: None, spec={"trigger_node_id": "anything"}).status == "succeeded"
