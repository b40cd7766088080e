"""Merging jobs, in order of uid, with the other records of those uids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from everwhen.model.history import ScheduleHistory
from everwhen.model.job import Job


def merge_histories(
    uids: Sequence[str], jobs: Iterable[Job], history: Callable[[str, Iterable[Job]], ScheduleHistory]
) -> Iterator[ScheduleHistory]:
    """Yield histories one by one, each with its jobs, in one pass over both; also for jobs without other records."""
    groups = groupby(jobs, key=lambda job: job.uid)
    upcoming = next(groups, None)
    for uid in uids:
        while upcoming is not None and upcoming[0] < uid:
            yield history(*upcoming)
            upcoming = next(groups, None)
        if upcoming is not None and upcoming[0] == uid:
            yield history(*upcoming)
            upcoming = next(groups, None)
        else:
            yield history(uid, ())
    while upcoming is not None:
        yield history(*upcoming)
        upcoming = next(groups, None)
