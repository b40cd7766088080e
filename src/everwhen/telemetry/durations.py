"""Durations of jobs, counted as jobs end: two calls per job, about a microsecond each.

The counters are not those of the client library, whose histograms take a lock per bucket; they become a histogram when
metrics are collected.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator

from everwhen.model.outcome import Outcome
from everwhen.target import Run

# Seconds: from a function that returns at once to a backup that runs all night.
BOUNDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0)
STATUSES = ("succeeded", "failed", "timed_out", "cancelled", "lost")
MOST_STARTED = 100_000


class JobDurations:
    """An observer that counts the durations of the jobs of one process."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._counts = {status: [0] * (len(BOUNDS) + 1) for status in STATUSES}
        self._sums = dict.fromkeys(STATUSES, 0.0)

    def started(self, run: Run) -> None:
        if len(self._started) < MOST_STARTED:  # more cannot run; jobs without an end must not accumulate
            self._started[run.job_id] = self._monotonic()

    def ended(self, run: Run, outcome: Outcome) -> None:
        began = self._started.pop(run.job_id, None)
        counts = self._counts.get(outcome.status)
        if began is None or counts is None:
            return
        seconds = self._monotonic() - began
        with self._lock:
            counts[bisect_left(BOUNDS, seconds)] += 1
            self._sums[outcome.status] += seconds

    def histograms(self) -> Iterator[tuple[str, list[tuple[str, float]], float]]:
        """Yield each status with its cumulative buckets and the sum of its seconds."""
        with self._lock:
            seen = {status: (list(counts), self._sums[status]) for status, counts in self._counts.items()}
        for status, (counts, seconds) in seen.items():
            total, buckets = 0, []
            for bound, count in zip((*BOUNDS, float("inf")), counts, strict=True):
                total += count
                buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
            yield status, buckets, seconds
