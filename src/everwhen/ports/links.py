"""The queue in which links wait until they are due (`rq-chain`)."""

from __future__ import annotations

from typing import Protocol

from everwhen.model.link import Link


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
