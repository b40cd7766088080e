"""Nodes: processes that schedule, work, or do both, as the database knows them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from everwhen.model.instants import MINUTE

Role = Literal["up", "scheduler", "worker"]
WhenCutOff = Literal["continue", "stop"]  # what a node does with its jobs when it cannot renew its lease

SILENT = MINUTE  # a node that was heard of within it is taken to live
MOST_SKEW = 2_000_000  # a clock that is set now and then differs by less


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
    def is_alive(self) -> bool:
        """Neither stopped nor lost, as far as anybody has noticed."""
        return self.stopped_at is None and self.lost_at is None

    @property
    def role(self) -> Role:
        if self.is_scheduler and self.is_worker:
            return "up"
        return "scheduler" if self.is_scheduler else "worker"

    def was_up_at(self, instant: int) -> bool:
        """It had started, and was neither stopped nor silent for good.

        A node that died is found lost by whoever comes next, perhaps days later: its last heartbeat is what is known.
        """
        if self.stopped_at is not None:
            return self.started_at <= instant <= self.stopped_at
        grace = SILENT if self.lost_at is None else 0  # a node that lives beats again
        return self.started_at <= instant <= self.heartbeat_at + grace
