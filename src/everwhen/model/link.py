"""A link: one message in a queue that says when somebody is to look after one schedule (`rq-chain`)."""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """`link_id` is made of what it is for, so that the same link cannot be put into the queue twice.

    `is_slot`: it is for a slot of the clock, and not for a job that exists already.
    `is_expected`: whoever made the job is about to run it, or has put this very link in.
    """

    link_id: str
    uid: str
    schedule_id: str
    queue: str
    at: int
    is_slot: bool = True
    is_expected: bool = False


def link_id(job_id: str, at: int) -> str:
    """The id of the run that is expected, and the instant for which it is.

    The instant, because a slot that was skipped leaves the number of the next run as it was: a link that puts its
    successor into the queue while it is itself still there must not take its own name (W6).

    >>> link_id("sched-a1b2c3d4-n5-rc0", 1_767_600_060_000_000)
    'sched-a1b2c3d4-n5-rc0-at1767600060000000'
    """
    return f"{job_id}-at{at}"
