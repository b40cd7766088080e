"""Where links wait for their time (`rq-chain`)."""

from __future__ import annotations

from typing import Protocol

from everwhen.model.link import Link


class Links(Protocol):
    """A queue that hands a link to one of its workers when it is due; QueueError when it cannot be reached."""

    def put(self, link: Link, now: int) -> bool:
        """Have it handed out at its instant, or at once where that is past; False when it waits there already.

        A link of the same id that was handed out before, and whose errand is still to be done, counts for nothing:
        then this one goes in beside it, once in a while.
        """
        ...

    def ping(self) -> None:
        """Whether it can be reached."""
        ...

    def close(self) -> None: ...
