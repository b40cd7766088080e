"""Nodes: processes that schedule, work, or do both, as the database records them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from everwhen.model.host_fault import HostFault
from everwhen.model.instants import MINUTE, SECOND

Role = Literal["up", "scheduler", "worker"]
WhenCutOff = Literal["continue", "stop"]  # what a node does with its jobs when it cannot renew its lease

SILENT = MINUTE  # a node with a heartbeat within this time counts as alive
HOLD = MINUTE  # how long a node holds a subscription or a cursor that it does not renew; see `store.holds`
LAST_DELIVERIES = 10 * SECOND  # how long a node that has signed off may deliver what happened until then
MOST_SKEW = 2_000_000  # clocks that are synchronised now and then differ by less


class Node(NamedTuple):
    """One start of one process. `clock_skew`: its clock minus the database's, at its last heartbeat. `unfit`: why its
    host lets it begin no jobs.
    """

    node: str
    version: str
    is_scheduler: bool
    is_worker: bool
    started_at: int
    heartbeat_at: int
    clock_skew: int = 0
    stopped_at: int | None = None
    lost_at: int | None = None
    unfit: HostFault | None = None
    unfit_since: int | None = None

    @property
    def is_alive(self) -> bool:
        """Return whether the node is neither stopped nor known to be lost."""
        return self.stopped_at is None and self.lost_at is None

    @property
    def role(self) -> Role:
        if self.is_scheduler and self.is_worker:
            return "up"
        return "scheduler" if self.is_scheduler else "worker"

    def was_up_at(self, instant: int) -> bool:
        """Return whether the node had started by then, and had neither stopped nor become silent for good.

        Another node marks a dead node as lost, perhaps days later: only the time of its last heartbeat is certain.
        """
        if self.stopped_at is not None:
            return self.started_at <= instant <= self.stopped_at
        grace = SILENT if self.lost_at is None else 0  # a live node will send another one
        return self.started_at <= instant <= self.heartbeat_at + grace
