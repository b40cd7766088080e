"""What came of a run, as the target reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OutcomeStatus = Literal["succeeded", "failed", "timed_out", "cancelled", "lost"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`is_final`: the target says that repeating is of no use (R4). `retry_after`: it asks for a pause.

    `is_still_running`: the run is over and its work is not; the worker says when that has ended (R9). `awaits`: the
    work goes on elsewhere, and whoever shows the token with this hash says what came of it.
    """

    status: OutcomeStatus
    error: str | None = None
    result: str | None = None
    is_final: bool = False
    retry_after: int | None = None
    is_still_running: bool = False
    awaits: str | None = None

    @property
    def is_failure(self) -> bool:
        return self.status in ("failed", "timed_out", "lost")


SUCCEEDED = Outcome("succeeded")
