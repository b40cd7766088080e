"""Turns: in which order the ready jobs of several owners get the free workers of a node.

Free workers are shared out by owner, and what an owner gets by group. The next worker goes to the owner whose jobs
have the fewest, running ones included, so that a late comer is served before an owner that has workers already. But of
the workers that are free now each owner gets its equal part first, whatever it has: with n owners that have jobs to
begin, each begins at least min(its jobs, free // n). Within one share jobs keep their order, and of shares with equally
many workers the one whose job has been ready the longest goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from math import inf

from everwhen.model.job import Job
from everwhen.model.schedule import Plan
from everwhen.model.share import Share, WorkersInUse

Place = tuple[int, Job]  # in the order in which the jobs became ready
MayBegin = Callable[[Job], bool]


def take_turns(
    jobs: Sequence[Job],
    plans: Mapping[tuple[str, int], Plan],
    in_use: WorkersInUse,
    may_begin: MayBegin,
    *,
    free: int,
) -> Iterator[Job]:
    """Yield the jobs that may begin, by turns of their owners and groups; the caller takes the first `free` of them.

    `may_begin` is asked again for a job that has waited for its turn: the jobs before it may have taken its place.
    """
    present = {(plan.definition.owner, plan.definition.group) for plan in plans.values()}
    if len(present) < 2 and all(_remaining_of(owner, in_use) >= free for owner, _ in present):
        return (job for job in jobs if may_begin(job))
    return _take_turns_of_owners(_jobs_by_share(jobs, plans), in_use, may_begin, free)


def _jobs_by_share(jobs: Sequence[Job], plans: Mapping[tuple[str, int], Plan]) -> dict[Share, list[Place]]:
    """Return the jobs of each share; those of one schedule stay together, because they run in order."""
    share_of: dict[str, Share] = {}
    shares: dict[Share, list[Place]] = {}
    for place in enumerate(jobs):
        job = place[1]
        share = share_of.get(job.uid)
        if share is None:
            definition = plans[job.uid, job.revision].definition
            share = share_of[job.uid] = Share(definition.owner, definition.group)
        shares.setdefault(share, []).append(place)
    return shares


def _take_turns_of_owners(
    shares: Mapping[Share, Sequence[Place]], in_use: WorkersInUse, may_begin: MayBegin, free: int
) -> Iterator[Job]:
    groups: dict[str | None, list[_Contender]] = {}
    for share, places in shares.items():
        line = _Contender(_only_free(places, may_begin), in_use.of_share.get(share, 0))
        groups.setdefault(share.owner, []).append(line)
    owners = [
        _Contender(_in_turn(lines, may_begin), in_use.of_owner(owner), _remaining_of(owner, in_use))
        for owner, lines in groups.items()
    ]
    return (job for _, job in _in_turn(owners, may_begin, free))


def _only_free(places: Sequence[Place], may_begin: MayBegin) -> Iterator[Place]:
    return (place for place in places if may_begin(place[1]))


def _remaining_of(owner: str | None, in_use: WorkersInUse) -> float:
    """Return how many workers more the owner may have."""
    if owner is None or in_use.most_per_owner is None:
        return inf
    return max(in_use.most_per_owner - in_use.of_owner(owner), 0)


class _Contender:
    """The jobs of one owner, or of one of its groups, of which the first waits for its turn."""

    def __init__(self, places: Iterator[Place], workers: int, most: float = inf) -> None:
        self.workers = workers
        self.taken = 0
        self._places = places
        self._most = most
        self.first: Place | None = None
        self.advance()

    def advance(self) -> None:
        """Move on to the next job that may begin now."""
        self.first = next(self._places, None) if self.taken < self._most else None

    def turn(self, equal_part: int) -> tuple[bool, int, int]:
        """Return what decides whose turn is next: the smallest."""
        assert self.first is not None
        return self.taken >= equal_part, self.workers + self.taken, self.first[0]


def _in_turn(lines: Sequence[_Contender], may_begin: MayBegin, free: int = 0) -> Iterator[Place]:
    """Yield the jobs of the lines by turns; of so many free workers each line has an equal part, if it needs it."""
    waiting = [line for line in lines if line.first is not None]
    equal_part = free // len(waiting) if waiting else 0
    heap = [(line.turn(equal_part), number, line) for number, line in enumerate(waiting)]
    heapify(heap)
    while heap:
        _, number, line = heap[0]
        place = line.first
        if place is not None and may_begin(place[1]):
            yield place
            line.taken += 1
        line.advance()
        if line.first is None:
            heappop(heap)
        else:
            heapreplace(heap, (line.turn(equal_part), number, line))


def choose_shares(ready: Sequence[tuple[Share, int]], in_use: WorkersInUse, most: int) -> list[Share]:
    """Choose up to `most` of the shares that have a ready job, each with the instant since when.

    The first share of every owner goes before the second of any; those with the fewest workers go first.
    """
    groups: dict[str | None, list[tuple[int, int, Share]]] = {}
    for share, ready_at in ready:
        if in_use.may_have_more(share.owner):
            groups.setdefault(share.owner, []).append((in_use.of_share.get(share, 0), ready_at, share))
    ranked = []
    for owner, waiting in groups.items():
        workers = in_use.of_owner(owner)
        waiting.sort(key=lambda one: one[:2])
        ranked += [(rank, workers, since, share) for rank, (_, since, share) in enumerate(waiting)]
    ranked.sort(key=lambda one: one[:3])
    return [share for *_, share in ranked[:most]]
