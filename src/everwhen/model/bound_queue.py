"""Queues that a program keeps for itself: `queue@name`, taken only by processes that declare the same name.

No name of a queue holds an @, so a worker that takes whatever there is knows these by it and leaves them alone.
"""

from __future__ import annotations

BOUND = "@"


def bound_queue(queue: str, name: str) -> str:
    """
    >>> bound_queue("default", "shop")
    'default@shop'
    """
    return f"{queue}{BOUND}{name}"


def plain_queue(queue: str) -> str:
    """What people called it.

    >>> plain_queue("default@shop"), plain_queue("default")
    ('default', 'default')
    """
    return queue.partition(BOUND)[0]
