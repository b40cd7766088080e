"""A job that is sent to a worker of an external queue: the message, and what the queue reports about it."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Delivery(NamedTuple):
    """The message "this job is ready". `number` counts the messages about one job: only the last one is valid.

    `seconds` is the job's own timeout; None means no timeout.
    """

    job_id: str
    number: int
    queue: str
    handed_over_at: int
    seconds: float | None = None

    @property
    def message_id(self) -> str:
        """Return an id that no other message has, not even an earlier one about the job that the queue still keeps.

        >>> Delivery("sched-a-n1-rc0", 1, "default", 0).message_id
        'sched-a-n1-rc0'
        >>> Delivery("sched-a-n1-rc0", 2, "default", 0).message_id
        'sched-a-n1-rc0-d2'
        """
        return self.job_id if self.number == 1 else f"{self.job_id}-d{self.number}"


Whereabouts = Literal["waiting", "gone", "failed", "unknown"]


class Found(NamedTuple):
    """The state of a message: it still waits, is gone, or the queue's worker failed with it before the job began.

    `unknown`: the queue cannot be queried for a single message.
    """

    whereabouts: Whereabouts
    error: str | None = None


WAITING, GONE, UNKNOWN = Found("waiting"), Found("gone"), Found("unknown")
