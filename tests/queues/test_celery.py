"""Celery on a real broker: one task per message, found in the queue where that can be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from redis import Redis

from everwhen.errors import QueueError
from everwhen.model.queue import GONE, UNKNOWN, WAITING, Delivery
from everwhen.queues.celery import ENTRY, GRACE, CeleryQueue

FIRST = Delivery("sched-a-n1-rc0", 1, "heavy", 0, 90.5)
SECOND = FIRST._replace(number=2, seconds=None)


@pytest.fixture
def queue(valkey_url: str) -> Iterator[CeleryQueue]:
    queue = CeleryQueue(valkey_url)
    yield queue
    queue.close()


def messages(url: str, name: str = "heavy") -> list[dict[str, Any]]:
    with Redis.from_url(url) as redis:
        return [json.loads(raw) for raw in cast("list[bytes]", redis.lrange(name, 0, -1))]


def test_a_message_is_a_task_whose_id_is_that_of_the_job(queue: CeleryQueue, valkey_url: str) -> None:
    queue.put([FIRST, SECOND])
    second, first = [message["headers"] for message in messages(valkey_url)]
    assert {first["id"], second["id"]} == {"sched-a-n1-rc0"}
    assert first["task"] == ENTRY
    assert [one["timelimit"][0] for one in (first, second)] == [91 + GRACE, None]
    assert [one["argsrepr"] for one in (first, second)] == [
        "['sched-a-n1-rc0', 1]",
        "['sched-a-n1-rc0', 2]",
    ]


def test_a_message_waits_while_it_is_in_the_list_by_its_number(queue: CeleryQueue, valkey_url: str) -> None:
    queue.put([FIRST])
    assert queue.find([FIRST, SECOND]) == [WAITING, GONE]
    with Redis.from_url(valkey_url) as redis:
        redis.rpush("heavy", b"not json", json.dumps({"headers": {"task": "theirs"}, "body": ""}))
        assert queue.find([FIRST]) == [WAITING]
        redis.delete("heavy")
    assert queue.find([FIRST]) == [GONE]


def test_a_broker_that_cannot_be_read_only_tells_whether_it_is_empty() -> None:
    queue = CeleryQueue("memory://")
    queue.ping()
    queue.put([FIRST])
    assert queue.find([FIRST, SECOND]) == [UNKNOWN, UNKNOWN]
    assert queue.find([FIRST._replace(queue="other")]) == [GONE]


def test_a_broker_that_is_away_is_named_without_its_password() -> None:
    queue = CeleryQueue("redis://:secret@127.0.0.1:1/0")
    with pytest.raises(
        QueueError, match=r"Celery's broker redis://.*127\.0\.0\.1:1/0 cannot be used"
    ) as caught:
        queue.ping()
    with pytest.raises(QueueError):
        queue.put([FIRST])
    with pytest.raises(QueueError):
        queue.withdraw([FIRST])
    assert "secret" not in str(caught.value)
