"""What a worker does, by hand: claim, print, end."""

from __future__ import annotations

from typing import Any

from everwhen.config.sections.notify import rules_in
from everwhen.engine.notifier import Notifier
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.claim import ClaimedJob
from everwhen.model.events import Event
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


def claimed_all(service: Service) -> dict[str, ClaimedJob]:
    """All jobs that can be claimed, which run now, by schedule id."""
    slots, now = service.runtime.slots, service.runtime.clock.now()
    slots.heartbeat(now, node=NODE, version="1", is_scheduler=False)
    return {one.job.schedule_id: one for one in slots.claim_jobs(now, node=NODE, limit=1_000)}


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


class Accepting:
    def send(self, spec: object, delivery: AlertDelivery) -> Sent:
        return Sent(True)


def alerted(service: Service, *schedule_ids: str) -> None:
    """Open an alert about each of these schedules, and one about a node."""
    rules = rules_in([{"http": {"url": "http://a"}, "group_wait": 0}])
    notifier = Notifier(
        service.runtime, lambda: rules, {"http": Accepting()}, node=lambda: "n", is_threaded=False
    )
    notifier.begin()
    notifier.step()
    now = service.runtime.clock.now()
    events = [Event("scheduler.stalled", now, detail={"node": "n1", "reason": "locked"})]
    for schedule_id in schedule_ids:
        state = service.runtime.catalogue.get(schedule_id).state  # type: ignore[union-attr]
        slot_at = state.next_slot_at
        events.append(
            Event("schedule.overdue", now, schedule_id, state.uid, owner=state.owner, slot_at=slot_at)
        )
    service.runtime.slots.record(events)
    for _ in range(3):
        notifier.step()
    notifier.release()
