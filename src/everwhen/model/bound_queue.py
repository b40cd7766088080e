"""Queues that belong to one program: `queue@name`. Only processes that declare the same name take jobs from them.

The names of other queues contain no @, so a worker that serves every queue recognises these by it and skips them.
"""

from __future__ import annotations

BOUND = "@"


def bound_queue(queue: str, name: str) -> str:
    """Return the name of a queue that belongs to a program.

    >>> bound_queue("default", "shop")
    'default@shop'
    """
    return f"{queue}{BOUND}{name}"


def plain_queue(queue: str) -> str:
    """Return the name of the queue as it was declared.

    >>> plain_queue("default@shop"), plain_queue("default")
    ('default', 'default')
    """
    return queue.partition(BOUND)[0]
