"""How much of a schedule's row a claim looks at, and what the start of a job adds to it."""

from __future__ import annotations

from typing import NamedTuple


class Standing(NamedTuple):
    """Where a schedule stands, as far as its jobs in line are concerned."""

    row_id: int
    uid: str
    outstanding: int
    running_jobs: int
    current_repeat: int

    def started(self, running_jobs: int) -> Standing:
        return Standing(
            self.row_id, self.uid, self.outstanding, self.running_jobs + running_jobs, self.current_repeat
        )


class Start(NamedTuple):
    """What the start of a job adds to the row of its schedule; an own one is its last run."""

    running_jobs: int = 1
    waiting: int = 0
    retries_waiting: int = 0
    is_own: bool = True


NO_START = Start(running_jobs=0, is_own=False)  # of a backfill: it runs beside the rest
