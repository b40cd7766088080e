"""The dispatcher: what it sends, what it asks about and when, and what it leaves alone while the broker is away."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from redis import Redis
from rq import Queue as RqName

from everwhen.engine.dispatcher import LONGEST_LOOK, Dispatcher
from everwhen.errors import QueueError
from everwhen.model.instants import SECOND
from everwhen.model.queries import JobFilter
from everwhen.model.queue import Delivery
from everwhen.model.schedule import Target
from everwhen.operations.jobs import cancel_job
from everwhen.queues.celery import CeleryQueue
from everwhen.queues.rq import RqQueue
from everwhen.store.opened import store_of
from everwhen.testing.manual import ManualClock
from everwhen.wiring import Stack, open_stack
from tests.submissions import Submission, create_schedule

PATIENCE = 30.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-05T08:00:00Z")


@pytest.fixture
def stack(clock: ManualClock) -> Iterator[Stack]:
    stack = open_stack("sqlite://", clock=clock)
    yield stack
    stack.close()


@pytest.fixture
def rq(valkey_url: str) -> Iterator[RqQueue]:
    queue = RqQueue(valkey_url)
    yield queue
    queue.close()


def waiting(url: str) -> list[str]:
    with Redis.from_url(url) as redis:
        return RqName("default", connection=redis).job_ids


def add(stack: Stack, *names: str) -> None:
    for name in names:
        target = Target("command", json.dumps({"argv": ["true"]}))
        create_schedule(stack.runtime, Submission(name, {"every": "24h"}, target, source="config"))
    store_of(stack.runtime).slots.tick(stack.runtime.clock.now(), limit=500, behind=False)


def job_ids(stack: Stack) -> list[str]:
    return [job.job_id for job in store_of(stack.runtime).ledger.jobs(JobFilter(), limit=100)]


def a_dispatcher(stack: Stack, queue: Any) -> Dispatcher:
    return Dispatcher(store_of(stack.runtime).outbox, queue, stack.runtime.clock, patience=PATIENCE)


def test_ready_jobs_are_sent_and_then_there_is_nothing_to_do(
    stack: Stack, rq: RqQueue, valkey_url: str
) -> None:
    add(stack, "a", "b")
    dispatcher = a_dispatcher(stack, rq)
    assert dispatcher.step()
    assert sorted(waiting(valkey_url)) == sorted(job_ids(stack))
    assert not dispatcher.step()
    assert dispatcher.seconds_to_next(60.0) == PATIENCE


def test_nothing_is_marked_while_the_broker_is_away(stack: Stack) -> None:
    add(stack, "a")
    with pytest.raises(QueueError):
        a_dispatcher(stack, RqQueue("redis://127.0.0.1:1/0")).step()
    (job_id,) = job_ids(stack)
    assert store_of(stack.runtime).outbox.on_its_way(job_id) is None


class Faltering:
    """A queue whose connection breaks while a batch is sent."""

    def __init__(self, queue: RqQueue) -> None:
        self._queue = queue
        self.is_broken = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def put(self, deliveries: Sequence[Delivery]) -> None:
        if self.is_broken:
            self._queue.put(deliveries[:1])
            raise QueueError("the connection was lost")
        self._queue.put(deliveries)


def test_what_was_marked_and_not_sent_is_sent_by_the_same_names(
    stack: Stack, rq: RqQueue, valkey_url: str
) -> None:
    add(stack, "a", "b")
    queue = Faltering(rq)
    dispatcher = a_dispatcher(stack, queue)
    with pytest.raises(QueueError):
        dispatcher.step()
    queue.is_broken = False
    dispatcher.step()
    assert sorted(waiting(valkey_url)) == sorted(job_ids(stack))
    numbers = {store_of(stack.runtime).outbox.on_its_way(job_id) for job_id in job_ids(stack)}
    assert {sent.number for sent in numbers if sent is not None} == {1}


def test_a_message_that_waits_is_asked_about_later_each_time(
    stack: Stack, rq: RqQueue, clock: ManualClock, valkey_url: str
) -> None:
    add(stack, "a")
    dispatcher = a_dispatcher(stack, rq)
    dispatcher.step()
    gaps = []
    for _ in range(7):
        gaps.append(round(dispatcher.seconds_to_next(10_000.0)))
        clock.advance(f"{gaps[-1]}s")
        dispatcher.step()
    assert gaps == [30, 30, 60, 120, 240, 480, LONGEST_LOOK // SECOND]
    assert len(waiting(valkey_url)) == 1


def test_a_message_that_is_gone_is_sent_again_as_the_next(
    stack: Stack, rq: RqQueue, clock: ManualClock, valkey_url: str
) -> None:
    add(stack, "a")
    dispatcher = a_dispatcher(stack, rq)
    dispatcher.step()
    with Redis.from_url(valkey_url) as redis:
        redis.flushall()
    clock.advance("31s")
    dispatcher.step()
    (job_id,) = job_ids(stack)
    assert waiting(valkey_url) == [f"{job_id}-d2"]


def test_a_cancelled_job_leaves_the_queue(stack: Stack, rq: RqQueue, valkey_url: str) -> None:
    add(stack, "a")
    dispatcher = a_dispatcher(stack, rq)
    dispatcher.step()
    cancel_job(stack.runtime, *job_ids(stack))
    assert dispatcher.step()
    assert waiting(valkey_url) == []
    assert not dispatcher.step()


def test_a_queue_that_cannot_be_asked_is_given_an_hour(stack: Stack, clock: ManualClock) -> None:
    queue = CeleryQueue("memory://")
    add(stack, "a")
    dispatcher = a_dispatcher(stack, queue)
    dispatcher.step()
    (job_id,) = job_ids(stack)
    numbers = []
    for _ in range(3):
        clock.advance("29m")
        dispatcher.step()
        sent = store_of(stack.runtime).outbox.on_its_way(job_id)
        assert sent is not None
        numbers.append(sent.number)
    assert numbers == [1, 1, 2]
