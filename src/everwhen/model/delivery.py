"""A job on its way to a worker of a queue that is not ours: the message, and what the queue knows of it."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Delivery(NamedTuple):
    """The message "this job is ready". `number` counts the messages about one job: only the last one counts.

    `seconds`: how long the job may take by its own timeout, None: as long as it likes.
    """

    job_id: str
    number: int
    queue: str
    handed_over_at: int
    seconds: float | None = None

    @property
    def message_id(self) -> str:
        """Unlike that of any other message, also of those about the same job that are forgotten only later.

        >>> Delivery("sched-a-n1-rc0", 1, "default", 0).message_id
        'sched-a-n1-rc0'
        >>> Delivery("sched-a-n1-rc0", 2, "default", 0).message_id
        'sched-a-n1-rc0-d2'
        """
        return self.job_id if self.number == 1 else f"{self.job_id}-d{self.number}"


Whereabouts = Literal["waiting", "gone", "failed", "unknown"]


class Found(NamedTuple):
    """What became of a message: it waits still, or is gone, or the queue's worker failed with it before the job began.

    `unknown`: the queue cannot be asked about one message.
    """

    whereabouts: Whereabouts
    error: str | None = None


WAITING, GONE, UNKNOWN = Found("waiting"), Found("gone"), Found("unknown")
