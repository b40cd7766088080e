"""RQ: messages in Redis, executed by plain `rq worker` processes.

A message is an RQ job that calls `everwhen.carried.run_job` with the id of our job and the number of the message. RQ
accepts an id that already exists (a repeated one is queued twice, and its record overwritten while a worker processes
it). So each message has its own id, and is written by RQ's own script for unique jobs: sending a batch again after a
lost answer changes nothing. A whole batch is one pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue
from rq import Queue as RqName
from rq.exceptions import DuplicateJobError, NoSuchJobError
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry
from rq.scripts import UNIQUE_ENQUEUE_SCRIPT
from rq.utils import now as rq_now

from everwhen.errors import QueueError, shown_url
from everwhen.model.instants import DAY, SECOND, to_datetime
from everwhen.model.queue import GONE, WAITING, Delivery, Found, Link

# On the wire through 0.x: workers of the previous release know only this name.
ENTRY = "everwhen.carried.run_job"
GRACE = 60  # seconds after the job's own timeout; then RQ ends a job that has not ended by itself
RESULT_TTL = 300
FAILURE_TTL = 86_400


class RqQueue:
    """RQ on one Redis."""

    name = "RQ"

    def __init__(self, url: str) -> None:
        self._url = url
        self._redis = connect(url)
        self._put_unique = self._redis.register_script(UNIQUE_ENQUEUE_SCRIPT)
        self._names: dict[str, RqName] = {}

    def ping(self) -> None:
        with reaching(self._url):
            self._redis.ping()

    def put(self, deliveries: Sequence[Delivery]) -> None:
        with reaching(self._url):
            pipe = self._redis.pipeline(transaction=False)
            for name in {delivery.queue for delivery in deliveries}:
                pipe.sadd(RqName.redis_queues_keys, self._name(name).key)
            for delivery in deliveries:
                job = self._job(delivery)
                keys = [job.key, self._name(delivery.queue).key]
                self._put_unique(keys=keys, args=[job.id, "R", -1, *_fields(job)], client=pipe)
            pipe.execute()

    def find(self, deliveries: Sequence[Delivery]) -> list[Found]:
        with reaching(self._url):
            pipe = self._redis.pipeline(transaction=False)
            for delivery in deliveries:
                pipe.hget(_key(delivery), "status")
                pipe.lpos(self._name(delivery.queue).key, delivery.message_id)
            answers = iter(pipe.execute())
            wanted = {delivery.message_id for delivery in deliveries}
            started = {
                name: self._started(name, wanted) for name in {delivery.queue for delivery in deliveries}
            }
            return [
                self._found(delivery, status, place, started[delivery.queue])
                for delivery, status, place in zip(deliveries, answers, answers, strict=True)
            ]

    def withdraw(self, deliveries: Sequence[Delivery]) -> None:
        with reaching(self._url):
            pipe = self._redis.pipeline(transaction=False)
            for delivery in deliveries:
                pipe.lrem(self._name(delivery.queue).key, 0, delivery.message_id)
            # A worker that already has the message needs its record; it will find nothing to do.
            taken_out = [d for d, count in zip(deliveries, pipe.execute(), strict=True) if count]
            if taken_out:
                self._redis.delete(*[_key(delivery) for delivery in taken_out])

    def close(self) -> None:
        self._redis.close()

    def _name(self, queue: str) -> RqName:
        if queue not in self._names:
            self._names[queue] = RqName(queue, connection=self._redis)
        return self._names[queue]

    def _job(self, delivery: Delivery) -> Job:
        job = Job.create(
            ENTRY,
            args=(delivery.job_id, delivery.number),
            id=delivery.message_id,
            connection=self._redis,
            origin=delivery.queue,
            status=JobStatus.QUEUED,
            timeout=-1 if delivery.seconds is None else math.ceil(delivery.seconds) + GRACE,
            result_ttl=RESULT_TTL,
            failure_ttl=FAILURE_TTL,
            description=f"everwhen {delivery.job_id}",
        )
        job.enqueued_at = rq_now()
        return job

    def _started(self, queue: str, wanted: Collection[str]) -> dict[str, bool]:
        """Return which of these messages workers process, each with whether its worker is alive.

        RQ's registry has the time until which a worker counts as alive, by the worker's own clock, which may be wrong
        by a day. The record of the execution expires by the server's clock, and the worker's heartbeats prolong it.
        """
        registry = StartedJobRegistry(queue, connection=self._redis).key
        entries: Any = self._redis.zrange(registry, 0, -1)
        entries = [entry for entry in entries if StartedJobRegistry.parse_job_id(entry) in wanted]
        pipe = self._redis.pipeline()  # a transaction: a worker that finishes removes both at once
        for entry in entries:
            pipe.exists(Execution.from_composite_key(entry.decode(), self._redis).key)
            pipe.zscore(registry, entry)
        answers = iter(pipe.execute())
        return {
            StartedJobRegistry.parse_job_id(entry): bool(is_alive)
            for entry, is_alive, score in zip(entries, answers, answers, strict=True)
            if score is not None
        }

    def _found(
        self, delivery: Delivery, status: bytes | None, place: int | None, started: dict[str, bool]
    ) -> Found:
        match None if status is None else status.decode():
            case "failed":
                return Found("failed", self._error(delivery))
            case "started" if delivery.message_id in started:
                is_alive = started[delivery.message_id]
                return WAITING if is_alive else Found("failed", "its RQ worker was abandoned")
            case "queued" if place is not None:
                return WAITING
            case "scheduled" | "deferred":
                return WAITING
        # No record; or one that no worker will find; or a worker that finished without claiming the job.
        return GONE

    def _error(self, delivery: Delivery) -> str:
        try:
            result = Job.fetch(delivery.message_id, connection=self._redis).latest_result()
        except NoSuchJobError:
            result = None
        lines = (result.exc_string or "").strip().splitlines() if result is not None else []
        return f"RQ's worker failed before the job began: {lines[-1] if lines else 'no reason given'}"


def _key(delivery: Delivery) -> str:
    return f"{Job.redis_job_namespace_prefix}{delivery.message_id}"


def _fields(job: Job) -> list[bytes | str]:
    """Return the record of a job as the flat list that the script takes.

    RQ reads a missing field as an empty one, and packing an empty value costs as much as any other.
    """
    fields: list[bytes | str] = []
    for name, value in job.to_dict().items():
        if value is not None and value != "":
            fields += [name, value if isinstance(value, bytes | str) else str(value)]
    return fields


# The Redis or Valkey server that RQ uses: how it is connected, and its errors as QueueError.


ANSWER_WITHIN = 10.0  # seconds


def connect(url: str) -> Redis:
    """Create a client, which connects when it is first used."""
    try:
        return Redis.from_url(
            url,
            socket_timeout=ANSWER_WITHIN,
            socket_connect_timeout=ANSWER_WITHIN,
            health_check_interval=30,
        )
    except ValueError as error:
        raise QueueError(
            f"service.redis is not the address of a Redis server: {error}; write redis://HOST:6379/0"
        ) from error


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Raise QueueError when the server cannot be reached, or refuses."""
    try:
        yield
    except RedisError as error:
        raise QueueError(f"RQ's Redis {shown_url(url)} cannot be used: {error}") from error


# Links as RQ jobs: in RQ's own scheduled registry until they are due, then in the queue that the schedule
# names.
#
# `rq worker --with-scheduler` does the rest. An RQ job contains the id of a schedule and an instant: no
# database address, no secret.
#
# RQ accepts an id that already exists, unless called with `unique`. Then it also refuses the ids of jobs that
# have failed or whose worker is dead, for as long as their record is kept, so a link whose first RQ job is
# lost would wait for ever. So when the record of an id shows that no worker will process it any more, the
# link is put in under another id, which is the same for all processes that try within half a minute.


CHAIN_ENTRY = "everwhen.execute_scheduled_job"
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
            CHAIN_ENTRY,
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
                queue.schedule_job(job, to_datetime(_whole_second(link.at)), unique=True)
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
