"""Links as RQ jobs: in RQ's own scheduled registry until they are due, then in the queue that the schedule names.

`rq worker --with-scheduler` does the rest. An RQ job contains the id of a schedule and an instant: no database
address, no secret.

RQ accepts an id that already exists, unless called with `unique`. Then it also refuses the ids of jobs that have
failed or whose worker is dead, for as long as their record is kept, so a link whose first RQ job is lost would wait
for ever. So when the record of an id shows that no worker will process it any more, the link is put in under another
id, which is the same for all processes that try within half a minute.
"""

from __future__ import annotations

from rq import Queue
from rq.exceptions import DuplicateJobError, NoSuchJobError
from rq.job import Job, JobStatus

from everwhen.model.instants import DAY, SECOND, moment_of
from everwhen.model.link import Link
from everwhen.queues.rq_server import connect, reaching

ENTRY = "everwhen.execute_scheduled_job"
AGAIN = 30 * SECOND
LATE = 5 * SECOND  # RQ's scheduler polls once a second: a job that it has not moved by then stays where it is
FAILURES_KEPT = DAY // SECOND
NO_LIMIT = -1  # the job inside has its own limit, which RQ's would only cut short


class RqLinks:
    """RQ on one Redis or Valkey."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._redis = connect(url)

    def put(self, link: Link, now: int) -> bool:
        with reaching(self._url):
            if self._entered(link, link.link_id, now):
                return True
            if self._is_waiting(link, now):
                return False
            return self._entered(link, f"{link.link_id}-again{now // AGAIN}", now)

    def ping(self) -> None:
        with reaching(self._url):
            self._redis.ping()

    def close(self) -> None:
        self._redis.close()

    def _entered(self, link: Link, name: str, now: int) -> bool:
        """Write the link under this id. One RQ script checks and writes it: of two concurrent calls one succeeds."""
        queue = Queue(link.queue, connection=self._redis)
        job = queue.create_job(
            ENTRY,
            args=(None, link.schedule_id),
            kwargs={"uid": link.uid, "at": link.at},
            job_id=name,
            status=JobStatus.SCHEDULED,
            timeout=NO_LIMIT,
            result_ttl=0,
            failure_ttl=FAILURES_KEPT,
            description=f"everwhen: {link.schedule_id}",
        )
        try:
            if link.at > now:
                queue.schedule_job(job, moment_of(_whole_second(link.at)), unique=True)
            else:
                queue.enqueue_job(job, unique=True)
        except DuplicateJobError:
            return False
        return True

    def _is_waiting(self, link: Link, now: int) -> bool:
        try:
            status = Job.fetch(link.link_id, connection=self._redis).get_status(refresh=False)
        except NoSuchJobError:  # it has just ended, and has put in its own successor
            return False
        if status == JobStatus.QUEUED:
            # A worker that was killed just after taking the job leaves it in no list; RQ finds such jobs only minutes
            # later.
            return self._redis.lpos(Queue(link.queue, connection=self._redis).key, link.link_id) is not None
        return status == JobStatus.SCHEDULED and now <= link.at + LATE


def _whole_second(at: int) -> int:
    """Round up to a whole second, because RQ truncates instants: a link must never be delivered early."""
    return -(-at // SECOND) * SECOND
