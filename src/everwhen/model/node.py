"""Nodes: processes that schedule, work, or do both, as the database knows them."""

from __future__ import annotations

from typing import Literal, NamedTuple

Role = Literal["up", "scheduler", "worker"]


class Node(NamedTuple):
    """One start of one process. `clock_skew`: its clock minus the database's, when it last beat."""

    node: str
    version: str
    is_scheduler: bool
    is_worker: bool
    started_at: int
    heartbeat_at: int
    clock_skew: int = 0
    stopped_at: int | None = None
    lost_at: int | None = None

    @property
    def role(self) -> Role:
        if self.is_scheduler and self.is_worker:
            return "up"
        return "scheduler" if self.is_scheduler else "worker"

    def was_up_at(self, instant: int) -> bool:
        """It had started, and was neither stopped nor silent for good."""
        ended_at = next((at for at in (self.stopped_at, self.lost_at) if at is not None), None)
        return self.started_at <= instant and (ended_at is None or instant <= ended_at)
