"""RQ on a real server: messages by their own names, asked about, taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from redis import Redis
from rq import Queue
from rq.job import Job
from rq.registry import StartedJobRegistry

from everwhen.errors import QueueError
from everwhen.model.queue import GONE, WAITING, Delivery
from everwhen.queues.rq import GRACE, RqQueue
from everwhen.wiring import open_queue
from tests.queues.worker_at_hand import WorkerAtHand

FIRST = Delivery("sched-a-n1-rc0", 1, "heavy", 0, 90.5)
SECOND = FIRST._replace(number=2, seconds=None)


@pytest.fixture
def queue(valkey_url: str) -> Iterator[RqQueue]:
    queue = RqQueue(valkey_url)
    yield queue
    queue.close()


@pytest.fixture
def redis(valkey_url: str) -> Iterator[Redis]:
    with Redis.from_url(valkey_url) as redis:
        yield redis


def test_a_message_is_an_rq_job_of_that_queue_with_a_name_of_its_own(queue: RqQueue, redis: Redis) -> None:
    queue.put([FIRST, SECOND])
    heavy = Queue("heavy", connection=redis)
    first, second = heavy.jobs
    assert [first.id, second.id] == ["sched-a-n1-rc0", "sched-a-n1-rc0-d2"]
    assert (first.func_name, first.args) == ("everwhen.carried.run_job", ("sched-a-n1-rc0", 1))
    assert (first.timeout, second.timeout) == (91 + GRACE, -1)
    assert heavy in Queue.all(connection=redis)
    assert (first.get_status(), first.origin) == ("queued", "heavy")


def test_w6_a_batch_that_is_sent_again_changes_nothing(queue: RqQueue, redis: Redis) -> None:
    queue.put([FIRST])
    before = redis.hgetall(f"rq:job:{FIRST.message_id}")
    queue.put([FIRST, SECOND])
    assert Queue("heavy", connection=redis).job_ids == [FIRST.message_id, SECOND.message_id]
    assert redis.hgetall(f"rq:job:{FIRST.message_id}") == before


def test_a_message_waits_until_it_is_taken_out_and_is_gone_with_the_data(
    queue: RqQueue, redis: Redis
) -> None:
    queue.put([FIRST])
    assert queue.find([FIRST, SECOND]) == [WAITING, GONE]
    redis.lpop("rq:queue:heavy")  # by a worker that died before it said so
    assert queue.find([FIRST]) == [GONE]
    queue.put([SECOND])
    redis.flushall()
    assert queue.find([FIRST, SECOND]) == [GONE, GONE]


def test_a_message_that_a_worker_has_waits_while_that_worker_lives(queue: RqQueue, redis: Redis) -> None:
    queue.put([FIRST])
    heavy = Queue("heavy", connection=redis)
    job = Job.fetch(FIRST.message_id, connection=redis)
    worker = WorkerAtHand([heavy], connection=redis)
    redis.lpop(heavy.key)
    worker.prepare_execution(job)
    worker.prepare_job_execution(job)
    assert queue.find([FIRST]) == [WAITING]
    registry = StartedJobRegistry("heavy", connection=redis).key
    (entry,) = cast("list[bytes]", redis.zrange(registry, 0, -1))
    execution = f"rq:execution:{entry.decode()}"
    assert redis.ttl(execution) > 0
    redis.pexpireat(execution, 1)  # its worker was last heard of long ago
    ((whereabouts, error),) = queue.find([FIRST])
    assert (whereabouts, error) == ("failed", "its RQ worker was abandoned")
    redis.zrem(registry, entry)
    assert queue.find([FIRST]) == [GONE]


@pytest.mark.parametrize("days", [-1, 1])
def test_a_worker_counts_as_alive_by_the_server_s_clock_and_not_by_its_own(
    queue: RqQueue, redis: Redis, days: int
) -> None:
    """A worker whose clock is a day ahead and that died would count as alive for a day; one behind, as dead at once."""
    queue.put([FIRST])
    heavy = Queue("heavy", connection=redis)
    job = Job.fetch(FIRST.message_id, connection=redis)
    worker = WorkerAtHand([heavy], connection=redis)
    redis.lpop(heavy.key)
    execution = worker.prepare_execution(job)
    worker.prepare_job_execution(job)
    registry = StartedJobRegistry("heavy", connection=redis).key
    redis.zincrby(registry, days * 86_400, execution.composite_key)  # as its clock would have written it
    assert queue.find([FIRST]) == [WAITING]
    redis.pexpireat(execution.key, 1)  # no heartbeat has prolonged it
    assert queue.find([FIRST])[0].whereabouts == "failed"


def test_a_worker_that_cannot_even_begin_is_a_failure_with_its_reason(
    queue: RqQueue, valkey_url: str, tmp_path: Path
) -> None:
    queue.put([FIRST])
    (tmp_path / "bad.yaml").write_text("service: {leese: 3s}")
    command = [str(Path(sys.executable).parent / "rq"), "worker", "--url", valkey_url, "--burst", "heavy"]
    environment = {**os.environ, "EVERWHEN_CONFIG": str(tmp_path / "bad.yaml")}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=90, check=False)
    ((whereabouts, error),) = queue.find([FIRST])
    assert whereabouts == "failed", done.stderr
    assert error is not None and 'did you mean "lease"' in error


def test_what_is_withdrawn_is_no_longer_there_and_what_a_worker_has_is_left_to_it(
    queue: RqQueue, redis: Redis
) -> None:
    queue.put([FIRST, SECOND])
    redis.lrem("rq:queue:heavy", 0, FIRST.message_id)
    queue.withdraw([FIRST, SECOND])
    assert Queue("heavy", connection=redis).job_ids == []
    exists = [redis.exists(f"rq:job:{delivery.message_id}") for delivery in (FIRST, SECOND)]
    assert exists == [1, 0]


def test_a_redis_that_is_away_is_named_without_its_password() -> None:
    queue = RqQueue("redis://:secret@127.0.0.1:1/0")
    with pytest.raises(QueueError, match=r"RQ's Redis redis://.*127\.0\.0\.1:1/0 cannot be used") as caught:
        queue.ping()
    assert "secret" not in str(caught.value)


def test_an_address_that_is_none_says_what_one_looks_like() -> None:
    with pytest.raises(QueueError, match="write redis://HOST:6379/0"):
        open_queue("rq", redis="localhost")


@pytest.mark.parametrize("name", ["rq", "celery"])
def test_an_extra_that_is_missing_is_named_with_its_cure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"everwhen.queues.{name}", raising=False)
    with pytest.raises(QueueError, match=rf"pip install 'everwhen\[{name}\]'"):
        open_queue(name)
