"""The watch over chains: it ensures that every schedule has its link in time, however a link was lost.

It decides no slots. `everwhen up` runs it; chains continue without it. The watch asks for a link again only when the
link's time has passed without effect: then the queue lost the link, or has no worker.
"""

from __future__ import annotations

from everwhen.engine.chain import Chain
from everwhen.engine.pauses import end_pauses
from everwhen.model.instants import SECOND
from everwhen.model.link import Link, Links
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of

AHEAD = 10 * SECOND
PATIENCE = 3 * SECOND
AT_ONCE = 1_000


class ChainWatch:
    """Looks ahead, and puts in the missing links."""

    def __init__(self, runtime: Runtime, links: Links) -> None:
        self._runtime = store_of(runtime)
        self._links = links
        self._chain = Chain(runtime, links)
        self._look_at: dict[str, int] = {}  # by link: when to ask the queue for it again

    def ping(self) -> None:
        """Raise QueueError when the queue of the links cannot be reached."""
        self._links.ping()

    def step(self) -> int:
        """Put in the missing links; return how many there were."""
        self._runtime.slots.end_overdue(self._runtime.clock.now())
        end_pauses(self._runtime)
        now = self._runtime.clock.now()
        wanted = self._chain.wanted(now + AHEAD, AT_ONCE)
        look_at = {link.link_id: self._look_at.get(link.link_id, _first_look(link)) for link in wanted}
        put = 0
        for link in wanted:
            if look_at[link.link_id] <= now:
                put += self._links.put(link, now)
                look_at[link.link_id] = max(link.at, now) + PATIENCE
        self._look_at = look_at
        return put


def _first_look(link: Link) -> int:
    """Return when to check for a link first: a run begins the job that it has just fired, so a link costs a process."""
    return link.at + PATIENCE if link.is_expected else 0
