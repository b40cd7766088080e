"""How a store keeps a new job, for worlds in memory: as the simulation does."""

from everwhen.model.job import Job, NewJob
from everwhen.model.row_changes import job_row, queue_job
from everwhen.model.schedule import Plan, State


def kept(new: NewJob, row_id: int, state: State, plan: Plan, now: int) -> Job:
    return queue_job(job_row(new, state, plan, now), row_id)
