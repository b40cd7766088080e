"""The steps of a node, one call each: for tests, benchmarks, and processes in which no scheduler loop runs."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.errors import UnknownScheduleError
from everwhen.model.claim import ClaimedJob
from everwhen.model.events import Event
from everwhen.model.job import Job
from everwhen.model.outcome import JobEnd, Outcome
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

BATCH = 500
ALL = 1_000_000


def decide_schedule(runtime: Runtime, schedule_id: str) -> int:
    """Decide the due slots of one schedule; return how many fired."""
    store = store_of(runtime)
    schedule = store.catalogue.get(schedule_id)
    if schedule is None:
        raise UnknownScheduleError(schedule_id)
    return store.slots.tick_one(runtime.clock.now(), schedule.state.uid).fired


def decide_all_due(runtime: Runtime) -> int:
    """Decide every due slot, recent ones first; return how many schedules were due."""
    slots, count = store_of(runtime).slots, 0
    for behind in (False, True):
        is_left = True
        while is_left:
            report = slots.tick(runtime.clock.now(), limit=BATCH, behind=behind)
            is_left = report.more
            count += report.schedules
    return count


def claim_ready(
    runtime: Runtime, *, node: str, limit: int, queues: Sequence[str] | None = None
) -> list[ClaimedJob]:
    """Claim up to `limit` ready jobs for a node, within every capacity."""
    return store_of(runtime).slots.claim_jobs(runtime.clock.now(), node=node, limit=limit, queues=queues)


def claim_delivered(runtime: Runtime, job_id: str, number: int, node: str) -> ClaimedJob | None:
    """Claim the job of a queue's message; None when the message is out of date or the job must wait."""
    return store_of(runtime).outbox.take(runtime.clock.now(), node=node, job_id=job_id, number=number)


def settle_job(runtime: Runtime, claimed: ClaimedJob, outcome: Outcome) -> int:
    """Write how a claimed job ended; return 0 when the claim is no longer valid."""
    end = JobEnd(claimed.job.job_id, claimed.job.fence, outcome)
    return store_of(runtime).slots.settle(runtime.clock.now(), [end])


def rescue_jobs(runtime: Runtime, *, node: str, lease: int) -> int:
    """Requeue the jobs of nodes whose lease has expired, or end them as lost; return how many."""
    return store_of(runtime).slots.rescue(runtime.clock.now(), node=node, lease=lease)


def send_heartbeat(runtime: Runtime, *, node: str, version: str) -> None:
    """Record that a scheduler is alive and keeps its jobs."""
    store_of(runtime).slots.heartbeat(runtime.clock.now(), node=node, version=version, is_scheduler=True)


def record_event(runtime: Runtime, event: Event) -> None:
    """Append an event that concerns no particular schedule to the audit."""
    store_of(runtime).slots.record([event])


def next_expected_at(runtime: Runtime) -> int | None:
    """Return the earliest instant by which a success is expected."""
    return store_of(runtime).slots.next_expected_at()


def next_ready_at(runtime: Runtime, queues: Sequence[str] | None = None) -> int | None:
    """Return the earliest instant at which a queued job, of those queues, may be claimed."""
    return store_of(runtime).slots.next_ready_at(queues)


def all_jobs(runtime: Runtime) -> list[Job]:
    """Return every job, oldest first."""
    return store_of(runtime).ledger.jobs(JobFilter(), limit=ALL)[::-1]


def all_events(runtime: Runtime) -> list[Event]:
    """Return every event, oldest first."""
    return [recorded.event for recorded in store_of(runtime).ledger.events(EventFilter(), limit=ALL)][::-1]
