"""Links as RQ jobs: in RQ's own scheduled registry until they are due, then in the queue that the schedule names.

`rq worker --with-scheduler` does the rest. What an RQ job brings is the id of a schedule and an instant: no
address of a database, nothing secret.

RQ does not refuse an id that is there already, unless it is asked to (`unique`), and then it refuses those of jobs
that have failed or whose worker is dead, too, for as long as their record is kept. An errand whose first messenger is
lost would wait for ever. So where the record of an id says that nobody will come for it any more, the link is put in
under a further id, the same for everybody who tries within half a minute.
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
LATE = 5 * SECOND  # RQ's scheduler looks once a second: what it has not moved by then, nobody moves
FAILURES_KEPT = DAY // SECOND
NO_LIMIT = -1  # the job inside has its own, which RQ's would only cut short


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
        """One script of RQ looks whether the id is there and writes it: two who try at once cannot both succeed."""
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
        except NoSuchJobError:  # it has ended this moment; what it left to do is its own affair
            return False
        if status == JobStatus.QUEUED:
            # A worker that was killed when it had just taken it leaves it in no list; RQ looks for such minutes later.
            return self._redis.lpos(Queue(link.queue, connection=self._redis).key, link.link_id) is not None
        return status == JobStatus.SCHEDULED and now <= link.at + LATE


def _whole_second(at: int) -> int:
    """RQ cuts instants to whole seconds: never hand out early."""
    return -(-at // SECOND) * SECOND
