"""How many jobs a node claims before it has a worker for each: those that it will begin within a moment.

A transaction costs as much as the run of many short jobs. A node that claimed only what its free workers take would
write one for every few of them. What it claimed ahead and has not begun in time it gives back: a long job keeps no
other waiting while another node is idle.
"""

from __future__ import annotations

MOMENT = 0.05  # seconds
MOST_AHEAD = 500  # jobs
SHORTEST = 0.0005  # seconds between two measurements


class Pace:
    """The rate at which the jobs of a node have ended lately. Instants are monotonic seconds."""

    def __init__(self) -> None:
        self._rate = 0.0  # jobs a second
        self._since = 0.0

    def begin(self, now: float) -> None:
        """Measure from now on: jobs begin, and none was running."""
        self._since = now

    def note_ended(self, count: int, now: float) -> None:
        """Note that so many jobs have ended since the last note; the last measurement counts for half."""
        rate = count / max(now - self._since, SHORTEST)
        self._rate += (rate - self._rate) / 2
        self._since = now

    def count_ahead(self, now: float) -> int:
        """Return how many jobs will begin within a moment, by the rate; a rate that nothing confirms sinks.

        >>> pace = Pace()
        >>> pace.note_ended(40, now=0.02)
        >>> pace.count_ahead(0.02), pace.count_ahead(0.03), pace.count_ahead(0.12)
        (50, 5, 0)
        """
        since = now - self._since
        rate = min(self._rate, 1 / since) if since > 0 else self._rate
        return min(int(rate * MOMENT), MOST_AHEAD)
