"""Rows P and W10: workflows, what they are told, and whose success counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from everwhen.model.group import Workflow, workflow_target
from everwhen.target_registry import open_target_registry
from everwhen.targets.workflow import WorkflowRegistry
from everwhen.wiring import build_service
from tests.api.serving import Service, configuration_of, serving
from tests.crash.nodes import opened
from tests.rows.node import WorkingNode
from tests.rows.served import ServedNode, served
from tests.targets.http_server import Seen, Server, a_server, status
from tests.targets.running import until

PIPELIT: dict[str, Any] = {
    "every": "60s",
    "first_run": "after_interval",
    "max_retries": 3,
    "retry_delay": "60s",
}


def test_p10_a_workflow_is_dispatched_with_the_event_of_its_schedule(working_node: WorkingNode) -> None:
    reported: list[Any] = []
    working_node.workflows.register(Workflow("1", lambda *event: reported.append(event), triggers=("abc",)))
    target = workflow_target(1, trigger_node_id="abc", owner="7")
    s = working_node.scheduler
    s.add("report", name="Daily report", target=target, payload={"report_type": "daily"}, **PIPELIT)
    s.advance("2m")
    data = {
        "scheduled_job_id": "report",
        "scheduled_job_name": "Daily report",
        "payload": {"report_type": "daily"},
    }
    assert reported == [
        ("schedule", {**data, "repeat_number": 0, "timestamp": "2026-01-05T08:01:00Z"}, "7"),
        ("schedule", {**data, "repeat_number": 1, "timestamp": "2026-01-05T08:02:00Z"}, "7"),
    ]


def test_p10_without_a_payload_the_event_has_an_empty_one(working_node: WorkingNode) -> None:
    reported: list[Any] = []
    working_node.workflows.register(Workflow("1", lambda *event: reported.append(event[1]["payload"])))
    working_node.scheduler.add("report", target=workflow_target("1"), **PIPELIT)
    working_node.scheduler.advance("1m")
    assert reported == [{}]


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


def accepting(work: Server) -> str:
    """A workflow that runs elsewhere, and is accepted there with 202."""
    return f"workflows: {{'1': {{name: Report, run: {{http: {{url: '{work.url}/run'}}}}}}}}"


def report(node: ServedNode, request: Seen, outcome: dict[str, Any]) -> int:
    """What the work came to, as it reports it itself; the status of the answer."""
    headers = {"Everwhen-Outcome-Token": request.headers["everwhen-outcome-token"]}
    job_id = request.headers["everwhen-job-id"]
    return node.service.nobody.post(f"/jobs/{job_id}/outcome/", outcome, headers=headers).status


def counts(node: ServedNode, schedule_id: str) -> tuple[int, int, int]:
    found = node.schedule(schedule_id)
    return found["run_count"], found["error_count"], found["running_jobs"]


def test_w10_success_is_that_of_the_work_and_not_of_its_dispatch(tmp_path: Path) -> None:
    with a_server(status(202)) as work, served(tmp_path, file=accepting(work)) as node:
        made = node.create({"name": "report", "workflow_id": 1, "interval_seconds": 60, "max_retries": 0})
        node.scheduler.advance("60s")
        assert len(work.seen) == 1
        assert counts(node, made["id"]) == (0, 0, 1)  # dispatched, and no success
        assert report(node, work.seen[0], {"status": "succeeded", "result": "3 rows"}) == 200
        assert counts(node, made["id"]) == (1, 0, 0)
        node.scheduler.advance("60s")
        assert report(node, work.seen[1], {"status": "failed", "error": "the work failed"}) == 200
        assert counts(node, made["id"]) == (1, 1, 0)
        assert [job["status"] for job in node.jobs(made["id"])] == ["succeeded", "failed"]
        assert node.schedule(made["id"])["last_error"] == "the work failed"


def test_w10_the_timeout_bounds_the_work_and_not_only_its_dispatch(tmp_path: Path) -> None:
    """A node that runs by itself: nobody reports what became of the work, so its time runs out."""
    with a_server(status(202)) as work, serving(tmp_path, file=accepting(work)) as service:
        workflows = WorkflowRegistry()
        for workflow in configuration_of(tmp_path, accepting(work)).workflows:
            workflows.register(workflow)
        with opened(f"sqlite:///{tmp_path}/api.db") as stack:
            engine = build_service(
                stack, target_registry=open_target_registry(stack.runtime, workflows=workflows)
            )
            engine.start()
            run = {"workflow": {"id": 1}}
            made = service.admin.create(every="1h", run=run, timeout="1s")
            (job,) = ended(service, made["id"])
            engine.stop()
        assert (job["status"], job["error"]) == ("timed_out", "timed out: no outcome was reported in time")
        found = service.admin.get(f"/schedules/{made['id']}/").fields
        assert (found["run_count"], found["error_count"], found["running_jobs"]) == (0, 1, 0)
        (request,) = work.seen
        headers = {"Everwhen-Outcome-Token": request.headers["everwhen-outcome-token"]}
        late = service.nobody.post(f"/jobs/{job['id']}/outcome/", {"status": "succeeded"}, headers=headers)
        assert late.status == 404
        assert service.admin.get(f"/jobs/{job['id']}/").fields["status"] == "timed_out"


def ended(service: Service, schedule_id: str) -> list[dict[str, Any]]:
    """Its jobs, when none is queued or running any more."""
    found: list[dict[str, Any]] = []

    def is_over() -> bool:
        found[:] = service.admin.get(f"/jobs/?schedule_id={schedule_id}").fields["items"]
        return bool(found) and all(job["ended_at"] is not None for job in found)

    until(is_over)
    return found
