"""A job for tests of what happens around one."""

from __future__ import annotations

from everwhen.model.job import Job


def a_job(job_id: str = "sched-abc-n1-rc0") -> Job:
    empty = dict.fromkeys(Job._fields)
    return Job(**{**empty, "job_id": job_id, "attempt": 1})  # type: ignore[arg-type]
