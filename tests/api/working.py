"""What a worker does, by hand: claim, print, end."""

from __future__ import annotations

from typing import Any

from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import SUCCEEDED, JobEnd, Outcome, OutputPiece, OutputStream
from tests.api.serving import Client, Service

NODE = "a-node-of-the-tests"
FAILED = Outcome("failed", error="no luck")


def triggered(client: Client, schedule: dict[str, Any], **body: Any) -> dict[str, Any]:
    """A new job of a schedule."""
    answer = client.post(f"/schedules/{schedule['id']}/trigger/", body or None)
    assert answer.status == 202, answer.raw
    job: dict[str, Any] = answer.fields["job"]
    return job


def claimed(service: Service, job_id: str) -> ClaimedJob:
    """A job that is running now."""
    slots, now = service.runtime.slots, service.runtime.clock.now()
    slots.heartbeat(now, node=NODE, version="1", is_scheduler=False)
    return next(one for one in slots.claim_jobs(now, node=NODE, limit=1_000) if one.job.job_id == job_id)


def end(service: Service, claim: ClaimedJob, outcome: Outcome = SUCCEEDED) -> None:
    ended = JobEnd(claim.job.job_id, claim.job.fence, outcome)
    assert service.runtime.slots.settle(service.runtime.clock.now(), [ended]) == 1


def ran(service: Service, job_id: str, outcome: Outcome = SUCCEEDED) -> None:
    """A job that ran and is over."""
    end(service, claimed(service, job_id), outcome)


def said(service: Service, job_id: str, data: bytes, *, stream: str = "stdout", position: int = 0) -> None:
    """A job prints."""
    piece = OutputPiece(OutputStream(job_id, 1, stream), position, data)
    service.runtime.slots.write_output(service.runtime.clock.now(), [piece], [])
