"""Which ready jobs a claim, or a hand-over to a queue, looks at.

Usually it sees all of them, or there is one share (an owner and a group): then it looks at those that have been ready
the longest. When more are ready than it looks at, and they are of several shares, it looks at the first ones of each,
however many jobs stand before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from everwhen.decide.turns import choose_shares
from everwhen.model.instants import HOUR
from everwhen.model.job import Job
from everwhen.model.share import Share, WorkersInUse, parse_share, share_key
from everwhen.store.records import LockHint, ReadyQuery
from everwhen.store.transaction import Snapshot

MOST_LOOKED_AT = 5_000  # jobs of all shares, beside the equal part of each
MOST_SHARES = 1_000  # that one claim compares; where there are more, the next claim goes on behind them
FAR_AHEAD = 10 * 366 * 24 * HOUR


class ShareWindow:
    """Where the next claim of this process begins to look for shares. Shared by threads: any value is right."""

    def __init__(self) -> None:
        self._start = ""

    def read(self, tx: Snapshot, query: ReadyQuery) -> list[tuple[str, int | None]]:
        """Return shares that have a queued job, each with when the first of its jobs can be taken."""
        start = self._start
        shares = tx.ready_shares(query._replace(limit=MOST_SHARES), start)
        self._start = shares[-1][0] if len(shares) == MOST_SHARES else ""
        if start and not self._start:
            before = tx.ready_shares(query._replace(limit=MOST_SHARES), "")
            shares += [(share, ready_at) for share, ready_at in before if share < start]
        return shares


class SeenReady(NamedTuple):
    """What a claim looks at: the query, the hints for its locks, and the jobs where nothing has to be locked.

    `is_edge`: there may be more ready jobs than it sees.
    """

    query: ReadyQuery
    peeked: Sequence[LockHint]
    jobs: list[Job]
    is_edge: bool


def look_for_ready(tx: Snapshot, query: ReadyQuery, in_use: WorkersInUse, window: ShareWindow) -> SeenReady:
    """Look at ready jobs, those that have been ready the longest; where not all can be seen, at those of each share."""
    look = _look(tx, query)
    if not look.is_edge:
        return look
    ready = window.read(tx, query)
    found = [(parse_share(share), ready_at) for share, ready_at in ready if ready_at is not None]
    chosen = choose_shares(found, in_use, query.limit)
    if len(chosen) == len(ready) == 1:
        return look
    shares = [share_key(*share) for share in chosen]
    return _look(tx, query._replace(shares=shares, limit=_most_of_each(chosen, query.limit)))


def _most_of_each(chosen: Sequence[Share], limit: int) -> int:
    """Return how many jobs of each share are looked at, so that every owner can begin its equal part.

    Each share has one ready job at least. An owner with few shares may have all others of its part in one of them.
    """
    counts = Counter(share.owner for share in chosen)
    part = -(-limit // max(len(counts), 1))
    most = max((part - count + 1 for count in counts.values()), default=1)
    shares = max(len(chosen), 1)
    return max(-(-limit // shares), min(most, MOST_LOOKED_AT // shares))


def _look(tx: Snapshot, query: ReadyQuery) -> SeenReady:
    peeked = tx.peek_ready(query)
    jobs = [] if peeked else tx.ready_jobs(query)
    return SeenReady(query, peeked, jobs, is_edge=len(peeked or jobs) >= query.limit)


def next_ready_of_others(
    tx: Snapshot, now: int, queues: Sequence[str] | None, in_use: WorkersInUse, window: ShareWindow
) -> int | None:
    """Return when the earliest job may start of an owner that may have a worker more."""
    ready = window.read(tx, ReadyQuery(now + FAR_AHEAD, MOST_SHARES, queues))
    return min(
        (at for share, at in ready if at is not None and in_use.may_have_more(parse_share(share).owner)),
        default=None,
    )
