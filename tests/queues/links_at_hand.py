"""RQ's queue and scheduled registry on a real server, handed out by hand: time is the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis import Redis
from rq import Queue
from rq.job import Job, JobStatus
from rq.registry import FailedJobRegistry, ScheduledJobRegistry

from everwhen.model.instants import SECOND


class LinksAtHand:
    """What RQ's scheduler and a worker would do, one step at a time."""

    def __init__(self, url: str, queue: str = "default") -> None:
        self.redis: Redis = Redis.from_url(url)
        self.queue = Queue(queue, connection=self.redis)
        self.scheduled = ScheduledJobRegistry(queue=self.queue)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self.redis.close()

    @property
    def ids(self) -> list[str]:
        """Everything that waits, what is due already first."""
        return [*self.queue.job_ids, *self.scheduled.get_job_ids(cleanup=False)]

    def times(self) -> list[int]:
        """When each of those in the scheduled registry is due."""
        found: Any = self.redis.zrange(self.scheduled.key, 0, -1, withscores=True)
        return [int(score) * SECOND for _, score in found]

    def take(self, now: int) -> Job | None:
        """Move what is due into the queue, as RQ's scheduler does, and hand the first one out."""
        for job_id in self.scheduled.get_jobs_to_schedule(now // SECOND):
            self.queue._enqueue_job(Job.fetch(job_id, connection=self.redis))
            self.scheduled.remove(job_id)
        name: Any = self.redis.lpop(self.queue.key)
        if name is None:
            return None
        job = Job.fetch(name.decode(), connection=self.redis)
        job.set_status(JobStatus.STARTED)
        return job

    def hand_out(self, now: int, execute: Callable[..., Any]) -> list[str]:
        """Have everything that is due executed; the ids in order. What has ended leaves no record."""
        done: list[str] = []
        while (job := self.take(now)) is not None:
            assert len(done) < 50, "links without end"
            execute(*job.args[1:], **job.kwargs)
            job.delete()
            done.append(job.id)
        return done

    def lose_everything(self) -> None:
        """What this queue has, and no other."""
        for name in self.ids:
            Job.fetch(name, connection=self.redis).delete()

    def fail(self, job: Job) -> None:
        """What RQ does with a job whose horse was killed."""
        job.set_status(JobStatus.FAILED)
        FailedJobRegistry(queue=self.queue).add(job, ttl=1_000, exc_string="killed")
