"""What a slot runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Protocol

from everwhen.model.job import Origin
from everwhen.model.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """What every target gets: which job, of which slot, with which payload, until when."""

    job_id: str
    schedule_id: str
    schedule_name: str
    slot_at: int
    attempt: int
    origin: Origin
    repeat_number: int
    payload: dict[str, Any]
    deadline_at: int | None
    seconds_left: float | None
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def catch_up(self) -> bool:
        return self.origin == "catch_up"


class Target(Protocol):
    """One kind of work. It never raises for what the work does: that is an Outcome."""

    def run(self, spec: str, run: Run) -> Outcome: ...
