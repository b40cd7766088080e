"""Jobs, as people look them up, cancel them, and fill in those that are missing."""

from __future__ import annotations

from datetime import datetime

from everwhen.decide import by_hand
from everwhen.errors import BackfillError, UnknownJobError
from everwhen.model.instants import instant_of
from everwhen.model.job import Job
from everwhen.model.policy import IfRunning
from everwhen.model.schedule import State
from everwhen.operations.schedules import get_schedule
from everwhen.ports.house import House
from everwhen.ports.ledger import JobFilter

MOST_BACKFILLED = 1_000
MOST_LOOKED_AT = 100_000


def cancel_job(house: House, job_id: str) -> State:
    """End a job: a queued one at once, a running one as soon as its worker has killed it."""
    job = get_job(house, job_id)
    state = house.catalogue.change(
        house.clock.now(), job.uid, lambda s, now, shared: by_hand.cancel_job(s, job_id, now, shared)
    )
    house.wake_workers()
    return state


def get_job(house: House, job_id: str) -> Job:
    job = house.ledger.job(job_id)
    if job is None:
        raise UnknownJobError(job_id)
    return job


def backfill(
    house: House,
    schedule_id: str,
    start: datetime,
    end: datetime,
    *,
    if_running: IfRunning = "queue",
    dry_run: bool = False,
) -> list[int]:
    """Jobs for the slots of a past span that have none; the schedule and its counters do not move."""
    schedule = get_schedule(house, schedule_id)
    first, last = instant_of(start), min(instant_of(end), house.clock.now())
    slots = _slots_between(house, schedule.state.uid, first, last)
    if len(slots) > MOST_BACKFILLED:
        raise BackfillError(
            f"{len(slots):,} slots, and {MOST_BACKFILLED:,} are the most at once; take a shorter span"
        )
    if slots and not dry_run:
        house.catalogue.change(
            house.clock.now(),
            schedule_id,
            lambda s, now, shared: by_hand.backfill(s, slots, now, shared, if_running=if_running),
        )
        house.wake_workers()
    return slots


def _slots_between(house: House, uid: str, first: int, last: int) -> list[int]:
    """The slots of the revisions in force then, without those that have a job."""
    with house.ledger.history([uid]) as history:
        (life,) = history.lives
        planned = by_hand.slots_of_life(life, first, last, most=MOST_LOOKED_AT)
    wanted = JobFilter(uid=uid, origins=("schedule", "catch_up", "backfill"), since=first, until=last)
    taken = {job.slot_at for job in house.ledger.jobs(wanted, limit=1_000_000)}
    return [slot for slot in planned if slot not in taken]
