"""The Redis or Valkey server that RQ uses: how it is connected, and its errors as QueueError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.exceptions import RedisError

from everwhen.errors import QueueError, shown_url

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
