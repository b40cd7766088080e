"""The slots port, the hot path: tick, claim, settle, rescue, in batches, with decisions made inside the transaction.

A tick claims due rows, lets `decide` decide about them, and commits the decisions together with the claim or not at
all. Claims, settlements and rescues do the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from everwhen.model.claim import ClaimedJob
from everwhen.model.events import Event
from everwhen.model.job import Job
from everwhen.model.outcome import Outcome
from everwhen.model.output import OutputGap, OutputPiece
from everwhen.model.schedule import Schedule

Held = tuple[str, int]  # a job and the fence of its claim


@dataclass(frozen=True, slots=True)
class TickReport:
    """The result of one evaluation. `more`: some due slots are left for the next one.

    `next_catch_up_at`: when the next catch-up job may begin, if they are staggered. `none_due`: there is nothing to
    decide at all, neither recent slots nor old ones.
    """

    schedules: int = 0
    fired: int = 0
    more: bool = False
    next_catch_up_at: int = 0
    none_due: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Approaching:
    """Active schedules with a slot that is due or released by some instant, and jobs that can start by then."""

    schedules: list[Schedule]
    jobs: list[Job]


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a claimed job ended."""

    job_id: str
    fence: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Exchange:
    """The result of settling and claiming together. `is_sooner`: a slot is due sooner than a scheduler may expect."""

    settled: int
    claimed: list[ClaimedJob]
    is_sooner: bool


class Slots(Protocol):
    """Operations on slots and jobs while the clock runs."""

    @property
    def can_exchange(self) -> bool:
        """Return whether one transaction can settle and claim."""
        ...

    def tick(self, now: int, *, limit: int, behind: bool, alive_since: int | None = None) -> TickReport:
        """Decide due and released slots: recent ones (`behind=False`), or older ones.

        `alive_since`: the first heartbeat of the deciding node, which counts as alive until now whatever its last one
        is.
        """
        ...

    def tick_one(self, now: int, uid: str) -> TickReport:
        """Decide the due and released slots of this one schedule, however old they are."""
        ...

    def approaching(self, until: int, *, limit: int) -> Approaching:
        """Return what needs a process by then; nothing while the system is paused."""
        ...

    def queued_of(self, uid: str) -> list[Job]:
        """Return the queued jobs of one schedule, which may be deleted, in order of slot_at."""
        ...

    def next_wake_at(self) -> int | None:
        """Return the earliest instant at which a slot is due, a held one is released, or a pause ends."""
        ...

    def claim_jobs(
        self, now: int, *, node: str, limit: int, queues: Sequence[str] | None = None
    ) -> list[ClaimedJob]:
        """Claim up to `limit` ready jobs for this node, within every capacity."""
        ...

    def claim_job(self, now: int, *, node: str, job_id: str) -> ClaimedJob | None:
        """Claim this one job, whatever its queue, within every capacity; None when it cannot be claimed."""
        ...

    def next_ready_at(self, queues: Sequence[str] | None = None) -> int | None:
        """Return the earliest instant at which a queued job, of those queues, may be claimed."""
        ...

    def settle(self, now: int, ends: Sequence[JobEnd]) -> int:
        """Write how jobs ended and what follows from it; return how many of the ends were valid."""
        ...

    def exchange(
        self,
        now: int,
        ends: Sequence[JobEnd],
        *,
        node: str,
        limit: int,
        queues: Sequence[str] | None = None,
    ) -> Exchange:
        """Settle, and claim up to `limit` ready jobs, in one transaction: half the commits of a busy worker."""
        ...

    def report(self, now: int, job_id: str, token_hash: str, outcome: Outcome) -> bool:
        """End a job whose work continued externally; False when it does not wait for this token."""
        ...

    def end_overdue(self, now: int) -> int:
        """End jobs whose work continued externally and that are past their deadline, or were cancelled."""
        ...

    def write_output(self, now: int, pieces: Sequence[OutputPiece], gaps: Sequence[OutputGap]) -> None:
        """Store output of runs, and delete what exceeds its bounds."""
        ...

    def rescue(self, now: int, *, node: str, lease: int) -> int:
        """Requeue jobs of nodes whose lease has expired, or end them as lost; return how many.

        A lease has expired when the heartbeat is older than the lease, or equally far in the future: then it dates
        from before the clock was set back.
        """
        ...

    def put_orphans_back(self, now: int, *, node: str, held: Collection[Held]) -> int:
        """Requeue jobs that are recorded as this node's but that it does not hold; return how many.

        The response to a claim can be lost after its commit: no node runs such a job, and no other node may claim it.
        """
        ...

    def give_back(self, now: int, *, node: str, held: Collection[Held], is_lost: bool = False) -> int:
        """Requeue jobs that this node interrupts because it stops; return how many.

        This does not count as one of the three rescues. With `on_lost: fail` the job ends as lost. `is_lost`: the
        node was frozen beyond its lease and no other node took its jobs; then it is an ordinary rescue.
        """
        ...

    def cancel_requests(self, node: str) -> list[str]:
        """Return the ids of jobs that this node runs and that were cancelled since."""
        ...

    def heartbeat(
        self, now: int, *, node: str, version: str, is_scheduler: bool, is_worker: bool = True
    ) -> None:
        """Record that the node is alive and keeps its jobs: one write per node."""
        ...

    def record(self, events: Sequence[Event]) -> None:
        """Append events that concern no particular schedule to the audit."""
        ...

    def last_heartbeat_at(self) -> int | None:
        """Return when any scheduler was last alive."""
        ...

    def sign_off_node(self, now: int, *, node: str, is_passing: bool = False) -> None:
        """Give the lease up on a clean stop.

        `is_passing`: one of very many short-lived nodes; its row is deleted if it holds no job any more.
        """
        ...
