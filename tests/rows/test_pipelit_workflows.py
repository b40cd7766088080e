"""Rows P and W10: workflows, what they are told, and whose success counts."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from everwhen.model.workflow import workflow_target
from everwhen.ports.workflows import Workflow
from tests.rows.node import WorkingNode

PIPELIT: dict[str, Any] = {
    "every": "60s",
    "first_run": "after_interval",
    "max_retries": 3,
    "retry_delay": "60s",
}


def test_p10_a_workflow_is_dispatched_with_the_event_of_its_schedule(working_node: WorkingNode) -> None:
    told: list[Any] = []
    working_node.workflows.register(Workflow("1", lambda *event: told.append(event), triggers=("abc",)))
    target = workflow_target(1, trigger_node_id="abc", owner="7")
    s = working_node.scheduler
    s.add("report", name="Daily report", target=target, payload={"report_type": "daily"}, **PIPELIT)
    s.advance("2m")
    data = {
        "scheduled_job_id": "report",
        "scheduled_job_name": "Daily report",
        "payload": {"report_type": "daily"},
    }
    assert told == [
        ("schedule", {**data, "repeat_number": 0, "timestamp": "2026-01-05T08:01:00Z"}, "7"),
        ("schedule", {**data, "repeat_number": 1, "timestamp": "2026-01-05T08:02:00Z"}, "7"),
    ]


def test_p10_without_a_payload_the_event_has_an_empty_one(working_node: WorkingNode) -> None:
    told: list[Any] = []
    working_node.workflows.register(Workflow("1", lambda *event: told.append(event[1]["payload"])))
    working_node.scheduler.add("report", target=workflow_target("1"), **PIPELIT)
    working_node.scheduler.advance("1m")
    assert told == [{}]


def test_p10_an_unknown_trigger_node_fails_the_job(working_node: WorkingNode) -> None:
    working_node.workflows.register(Workflow("1", print, triggers=("abc",)))
    s = working_node.scheduler
    s.add("report", target=workflow_target("1", trigger_node_id="xyz"), **PIPELIT)
    s.advance("1m")
    assert s.jobs()[0].error == "No matching trigger found for scheduled job report"
    assert s.state("report").status == "active"


def test_p10_an_unknown_workflow_ends_the_schedule(working_node: WorkingNode) -> None:
    s = working_node.scheduler
    s.add("report", target=workflow_target("1"), **PIPELIT)
    s.advance("1h")
    assert [job.error for job in s.jobs()] == ["Workflow not found."]
    assert (s.state("report").status, s.state("report").status_reason) == ("invalid", "Workflow not found.")


def test_w10_success_is_that_of_the_work_and_not_of_its_dispatch(working_node: WorkingNode) -> None:
    def dispatch(*_event: Any) -> Future[None]:
        """It is dispatched, and fails later."""
        work: Future[None] = Future()
        work.set_exception(RuntimeError("the work failed"))
        return work

    working_node.workflows.register(Workflow("1", dispatch))
    s = working_node.scheduler
    s.add("report", target=workflow_target("1"), **PIPELIT)
    s.advance("1m")
    state = s.state("report")
    assert (state.run_count, state.error_count) == (0, 1)
    assert "the work failed" in (state.last_error or "")
