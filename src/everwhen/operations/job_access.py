"""Jobs within the rights of the caller's token: list, show, cancel, run again.

A job belongs to the owner of its schedule. For a deleted schedule the record holds the owner. Commands that only read
import this module, so what only changes need is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everwhen.errors import SourceGoneError, StatusError, UnknownJobError, UnknownScheduleError
from everwhen.model.changes import Decision
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import OutputPiece
from everwhen.model.policy import IfRunning
from everwhen.model.queries import EventFilter, JobFilter, JobPage
from everwhen.model.queue import Delivery
from everwhen.model.schedule import Schedule
from everwhen.operations.access import Caller
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

if TYPE_CHECKING:
    from everwhen.operations.jobs import FiringResult

NOTHING = JobPage([])


def list_jobs(
    runtime: Runtime,
    wanted: JobFilter,
    caller: Caller,
    *,
    schedule_id: str | None = None,
    limit: int,
    before: int | None = None,
    offset: int = 0,
) -> JobPage:
    """Return the jobs that the caller may see, newest first; of a deleted schedule too, if it is requested by id."""
    if schedule_id is not None:
        uid = _uid_of(runtime, schedule_id)
        if (
            uid is None
            or not caller.token.sees(_owner_of(runtime, uid))
            or not _reaches(runtime, uid, caller)
        ):
            return NOTHING
        wanted = wanted._replace(uid=uid)
    elif caller.is_hidden(wanted.group) or caller.token.confined is not None:
        return NOTHING
    elif caller.token.owner is not None:
        wanted = wanted._replace(owner=caller.token.owner)
    return store_of(runtime).ledger.job_page(wanted, limit=limit, before=before, offset=offset)


def get_job(runtime: Runtime, job_id: str, caller: Caller) -> Job:
    """Return a job; raise UnknownJobError for a job of another owner too."""
    job, owner = store_of(runtime).ledger.job(job_id), caller.token.owner
    if job is None or (owner is not None and owner != _owner_of(runtime, job.uid)):
        raise UnknownJobError(job_id)
    if not _reaches(runtime, job.uid, caller):
        raise UnknownJobError(job_id)
    return job


def _reaches(runtime: Runtime, uid: str, caller: Caller) -> bool:
    """Return whether the token of a run reaches this schedule; every other token does, as far as its owner goes."""
    if caller.token.confined is None:
        return True
    schedule = store_of(runtime).catalogue.get(uid)
    try:
        if schedule is not None:
            caller.refuse_stranger(schedule)
    except UnknownScheduleError:
        return False
    return schedule is not None


def delivery_of(runtime: Runtime, job_id: str) -> Delivery | None:
    """Return the message of an external queue that a queued job waits for."""
    return store_of(runtime).outbox.on_its_way(job_id)


def get_output(runtime: Runtime, job_id: str, caller: Caller) -> tuple[Job, list[OutputPiece]]:
    """Return a job and what is kept of its output.

    The job is read first: when it has ended, all of its output is there.
    """
    job = get_job(runtime, job_id, caller)
    return job, store_of(runtime).ledger.output(job_id)


def cancel_job(runtime: Runtime, job_id: str, caller: Caller) -> Job:
    """Cancel a job that is queued or running."""
    job = get_job(runtime, job_id, caller)
    if not job.is_outstanding:
        raise StatusError("cancel", job.status)
    from everwhen.operations.jobs import cancel_job

    return cancel_job(runtime, job_id, actor=caller.actor)


def rerun_job(
    runtime: Runtime, job_id: str, caller: Caller, *, if_running: IfRunning = "queue"
) -> FiringResult:
    """Run an ended job once more, with its slot and its payload, by the current definition of its schedule."""
    from everwhen.decide import by_hand
    from everwhen.operations.jobs import request_job

    job = get_job(runtime, job_id, caller)
    if job.is_outstanding:
        raise StatusError("rerun", job.status)

    def rerun(schedule: Schedule, now: int, shared: Shared) -> Decision:
        return by_hand.rerun(schedule, job, now, shared, if_running=if_running, actor=caller.actor)

    try:
        return request_job(runtime, job.uid, rerun, caller.refuse_unapproved, caller.cause)
    except UnknownScheduleError:
        raise SourceGoneError(job.job_id) from None


def _uid_of(runtime: Runtime, schedule_id: str) -> str | None:
    store = store_of(runtime)
    schedule = store.catalogue.get(schedule_id)
    return store.ledger.uid_of(schedule_id) if schedule is None else schedule.state.uid


def _owner_of(runtime: Runtime, uid: str) -> str | None:
    """Return the owner of a schedule; for a deleted one from the newest event about it."""
    store = store_of(runtime)
    schedule = store.catalogue.get(uid)
    if schedule is not None:
        return schedule.state.owner
    events = store.ledger.events(EventFilter(uid=uid), limit=1)
    return events[0].event.owner if events else None
