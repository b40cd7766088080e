"""A job that a node has claimed."""

from __future__ import annotations

from typing import NamedTuple

from everwhen.model.job import Job
from everwhen.model.schedule import Definition


class ClaimedJob(NamedTuple):
    """A job that this node runs, with its definition. To settle it, the node must present the job's `fence`."""

    job: Job
    definition: Definition
    schedule_name: str
    repeat_number: int

    @property
    def dedupe_key(self) -> str:
        return self.definition.dedupe_key(self.job.schedule_id, self.job.origin, self.job.slot_at)


Held = tuple[str, int]  # a job and the fence of its claim
