"""The watch over chains: every schedule has its link in good time, whoever lost it. It decides no slots.

`everwhen up` keeps it, where there is one; chains go on without. A link that was put in is asked for again only when
its time has passed and nothing came of it: then its queue lost it, or nobody works there.
"""

from __future__ import annotations

from everwhen.engine.chain import Chain
from everwhen.engine.pauses import end_pauses
from everwhen.model.instants import SECOND
from everwhen.model.link import Link
from everwhen.ports.links import Links
from everwhen.ports.runtime import Runtime

AHEAD = 10 * SECOND
PATIENCE = 3 * SECOND
AT_ONCE = 1_000


class ChainWatch:
    """Looks ahead, and puts in the links that are missing."""

    def __init__(self, runtime: Runtime, links: Links) -> None:
        self._runtime = runtime
        self._links = links
        self._chain = Chain(runtime, links)
        self._look_at: dict[str, int] = {}  # by link: when to ask the queue for it again

    def ping(self) -> None:
        """Whether the queue of the links can be reached; QueueError when it cannot."""
        self._links.ping()

    def step(self) -> int:
        """Put in what is missing; how many links that were."""
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
    """A job that a run has fired this moment is begun by that run: a link for it would only cost a process."""
    return link.at + PATIENCE if link.is_expected else 0
