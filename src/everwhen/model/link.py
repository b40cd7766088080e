"""A link: a queue message that makes a worker process one schedule at a given time (`rq-chain`)."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Link(NamedTuple):
    """One link. `link_id` is derived from its purpose, so that the same link cannot be put into the queue twice.

    `is_slot`: it is for a slot of the clock, and not for a job that exists already.
    `is_expected`: the process that created the job is about to run it, or has put this same link into the queue.
    """

    link_id: str
    uid: str
    schedule_id: str
    queue: str
    at: int
    is_slot: bool = True
    is_expected: bool = False


def link_id(job_id: str, at: int) -> str:
    """Return the id of a link: the id of the expected job, and its instant.

    The instant is needed because a skipped slot does not change the number of the next run: a link that puts its
    successor into the queue while it is itself still there must not use its own id again (W6).

    >>> link_id("sched-a1b2c3d4-n5-rc0", 1_767_600_060_000_000)
    'sched-a1b2c3d4-n5-rc0-at1767600060000000'
    """
    return f"{job_id}-at{at}"


class Links(Protocol):
    """A queue that delivers a link to one of its workers when it is due; raises QueueError when it is unreachable."""

    def put(self, link: Link, now: int) -> bool:
        """Schedule a link for its instant, or for now if that has passed; False when it is scheduled already.

        A link with the same id that was delivered earlier, and whose work is not done, does not count: this one is
        added next to it, at most once per period.
        """
        ...

    def ping(self) -> None:
        """Raise QueueError when the queue cannot be reached."""
        ...

    def close(self) -> None: ...
