"""Jobs in order of uid, woven together with everything else that is known of those uids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from everwhen.model.history import Life
from everwhen.model.job import Job


def weave(
    uids: Sequence[str], jobs: Iterable[Job], life: Callable[[str, Iterable[Job]], Life]
) -> Iterator[Life]:
    """One life after another, each with its jobs, in one pass over both; also jobs that nothing else tells of."""
    groups = groupby(jobs, key=lambda job: job.uid)
    upcoming = next(groups, None)
    for uid in uids:
        while upcoming is not None and upcoming[0] < uid:
            yield life(*upcoming)
            upcoming = next(groups, None)
        if upcoming is not None and upcoming[0] == uid:
            yield life(*upcoming)
            upcoming = next(groups, None)
        else:
            yield life(uid, ())
    while upcoming is not None:
        yield life(*upcoming)
        upcoming = next(groups, None)
