"""Celery: messages in a broker (Redis, RabbitMQ), executed by plain `celery worker` processes.

A message calls the task `everwhen.run_job` with the id of our job and the number of the message; the task's id is
that of the job. Workers acknowledge late, so a message whose worker died is delivered again, and is dropped when it
no longer counts. There is no result backend: the outcome of a job is in our database.

A broker cannot answer questions about one message. In Redis the queue is a list that can be read. In other brokers
only its length is known: an empty queue contains no message, and for any other queue the answer is unknown.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from celery import Celery
from kombu.exceptions import KombuError

from everwhen.errors import QueueError, shown_url
from everwhen.model.queue import GONE, UNKNOWN, WAITING, Delivery, Found

ENTRY = "everwhen.run_job"
GRACE = 60  # seconds after the job's own timeout; then Celery kills a process that has not ended by itself
ANSWER_WITHIN = 10.0  # seconds
PAGE = 1_000
_ONCE = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
}  # the dispatcher retries

Message = tuple[str, int]  # a job id and the number of a message about it


class CeleryQueue:
    """Celery on one broker."""

    name = "Celery"

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._app = Celery("everwhen", broker=broker, set_as_current=False)
        waits = {"socket_timeout": ANSWER_WITHIN, "socket_connect_timeout": ANSWER_WITHIN}
        self._app.conf.update(
            broker_transport_options={**_ONCE, **(waits if broker.startswith("redis") else {})},
            broker_connection_timeout=ANSWER_WITHIN,
            task_ignore_result=True,
        )
        self._refuse_strange()

    def ping(self) -> None:
        with self._connected() as connection:
            connection.default_channel  # noqa: B018 - opened here

    def put(self, deliveries: Sequence[Delivery]) -> None:
        with self._reaching(), self._app.amqp.producer_pool.acquire(block=True) as producer:
            for delivery in deliveries:
                self._app.send_task(
                    ENTRY,
                    args=[delivery.job_id, delivery.number],
                    task_id=delivery.job_id,
                    queue=delivery.queue,
                    time_limit=None if delivery.seconds is None else math.ceil(delivery.seconds) + GRACE,
                    producer=producer,
                    retry=False,
                )

    def find(self, deliveries: Sequence[Delivery]) -> list[Found]:
        with self._connected() as connection:
            find = (
                self._find_in_redis if connection.transport.driver_type == "redis" else self._find_by_length
            )
            return find(connection.default_channel, deliveries)

    def withdraw(self, deliveries: Sequence[Delivery]) -> None:
        with self._reaching():
            self._app.control.revoke([delivery.job_id for delivery in deliveries])

    def close(self) -> None:
        self._app.close()

    def _find_in_redis(self, channel: Any, deliveries: Sequence[Delivery]) -> list[Found]:
        """Look up messages in the lists of Redis.

        A message that a worker has reserved is not in the list: if that worker is busy for long, another may have the
        job.
        """
        waiting = {
            message
            for queue in {delivery.queue for delivery in deliveries}
            for message in _messages_in(channel, queue)
        }
        return [WAITING if (d.job_id, d.number) in waiting else GONE for d in deliveries]

    def _find_by_length(self, channel: Any, deliveries: Sequence[Delivery]) -> list[Found]:
        lengths = {
            queue: self._app.amqp.queues[queue].bind(channel).queue_declare().message_count
            for queue in {delivery.queue for delivery in deliveries}
        }
        return [UNKNOWN if lengths[delivery.queue] else GONE for delivery in deliveries]

    def _refuse_strange(self) -> None:
        """Raise QueueError for an address that no broker can have: it is a mistake in the file, not an outage."""
        try:
            self._app.connection().get_transport_cls()
        except (KeyError, ValueError, ImportError) as error:
            raise QueueError(
                f"service.celery_broker {shown_url(self._broker)} is not the address of a broker that Celery can use: "
                f"{error.args[0]}; write redis://HOST:6379/1 or amqp://USER:PASSWORD@HOST//"
            ) from error

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        with self._reaching(), self._app.pool.acquire(block=True) as connection:
            connection.ensure_connection(**_ONCE, timeout=ANSWER_WITHIN)
            yield connection

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        transport = self._app.connection()
        away = (KombuError, OSError, *transport.connection_errors, *transport.channel_errors)
        try:
            yield
        except away as error:
            raise QueueError(f"Celery's broker {shown_url(self._broker)} cannot be used: {error}") from error


def _messages_in(channel: Any, queue: str) -> Iterator[Message]:
    """Yield each of our messages in a Redis queue, which has one list per priority."""
    for priority in channel.priority_steps:
        key = channel._q_for_pri(queue, priority)
        start = 0
        while page := channel.client.lrange(key, start, start + PAGE - 1):
            yield from (message for raw in page if (message := _message(raw)) is not None)
            start += PAGE


def _message(raw: bytes) -> Message | None:
    """Parse one of our messages; return None for a message of another application."""
    try:
        envelope = json.loads(raw)
        if envelope["headers"].get("task") != ENTRY:
            return None
        (job_id, number), *_ = json.loads(base64.b64decode(envelope["body"]))
    except (ValueError, KeyError, TypeError):
        return None
    return job_id, number
