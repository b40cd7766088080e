"""The hot port: tick, claim, settle, rescue; whole batches, and the decisions made inside the transaction.

A tick claims due rows, asks `decide` what becomes of them, and commits the answer with the claim or not at all;
so do claims, settlements and rescues.
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
    """What one evaluation did. `more`: slots that are due were left for the next.

    `next_catch_up_at`: when the next catch-up job may begin, where they are staggered. `none_due`: there is nothing
    to decide at all, neither of late nor further back.
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
    """Jobs that ended for jobs that begin. `is_sooner`: a slot is due sooner than a scheduler may think."""

    settled: int
    claimed: list[ClaimedJob]
    is_sooner: bool


class Slots(Protocol):
    """Everything that happens to slots and jobs while the clock runs."""

    @property
    def can_exchange(self) -> bool:
        """Whether one transaction can settle and claim."""
        ...

    def tick(self, now: int, *, limit: int, behind: bool, alive_since: int | None = None) -> TickReport:
        """Decide due and released slots: those of late (`behind=False`), or those further back.

        `alive_since`: the first heartbeat of whoever decides, which lives until now whatever its last one says.
        """
        ...

    def tick_one(self, now: int, uid: str) -> TickReport:
        """Decide the due and released slots of this one schedule, however far back they lie."""
        ...

    def approaching(self, until: int, *, limit: int) -> Approaching:
        """What somebody has to look after by then; nothing while the system is paused."""
        ...

    def queued_of(self, uid: str) -> list[Job]:
        """The queued jobs of one schedule, which may be deleted, in order of slot_at."""
        ...

    def next_wake_at(self) -> int | None:
        """The earliest instant at which a slot is due, a held one is released, or a pause has its end."""
        ...

    def claim_jobs(
        self, now: int, *, node: str, limit: int, queues: Sequence[str] | None = None
    ) -> list[ClaimedJob]:
        """Take up to `limit` ready jobs for this node, within every capacity."""
        ...

    def claim_job(self, now: int, *, node: str, job_id: str) -> ClaimedJob | None:
        """Take this one job, whatever its queue, within every capacity; None when it cannot be had."""
        ...

    def next_ready_at(self, queues: Sequence[str] | None = None) -> int | None:
        """The earliest instant at which a queued job, of those queues, may be claimed."""
        ...

    def settle(self, now: int, ends: Sequence[JobEnd]) -> int:
        """Write how jobs ended and what follows from it; returns how many still mattered."""
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
        """Settle, and take up to `limit` ready jobs, in one transaction: half the commits of a busy worker."""
        ...

    def report(self, now: int, job_id: str, token_hash: str, outcome: Outcome) -> bool:
        """End a job whose work went on elsewhere; False when it does not wait for this token."""
        ...

    def end_overdue(self, now: int) -> int:
        """End jobs that went on elsewhere and are past their deadline, or were cancelled."""
        ...

    def write_output(self, now: int, pieces: Sequence[OutputPiece], gaps: Sequence[OutputGap]) -> None:
        """Keep what runs printed, and drop what is kept no longer."""
        ...

    def rescue(self, now: int, *, node: str, lease: int) -> int:
        """Put jobs of nodes whose lease has expired back into the queue, or end them as lost; how many there were.

        Expired is a heartbeat older than the lease, or as far in the future: it is from before the clock was put
        back.
        """
        ...

    def put_orphans_back(self, now: int, *, node: str, held: Collection[Held]) -> int:
        """Put jobs that are on record as this node's, and that it does not hold, back into the queue; how many.

        The answer to a claim can be lost after its commit: nobody runs such a job, and nobody else may take it.
        """
        ...

    def give_back(self, now: int, *, node: str, held: Collection[Held], is_lost: bool = False) -> int:
        """Put jobs that this node interrupts because it stops back into the queue; how many.

        It is none of the three rescues. With `on_lost: fail` the job ends as lost. `is_lost`: the node was frozen
        beyond its lease, and nobody took its jobs: it is a rescue like any other.
        """
        ...

    def cancel_requests(self, node: str) -> list[str]:
        """The ids of jobs that this node runs and that were cancelled meanwhile."""
        ...

    def heartbeat(
        self, now: int, *, node: str, version: str, is_scheduler: bool, is_worker: bool = True
    ) -> None:
        """One write per node: it is alive, and its jobs are its own."""
        ...

    def record(self, events: Sequence[Event]) -> None:
        """Append to the audit what happened to no schedule in particular."""
        ...

    def last_heartbeat_at(self) -> int | None:
        """When any scheduler was last seen alive."""
        ...

    def sign_off_node(self, now: int, *, node: str, is_passing: bool = False) -> None:
        """A clean stop gives the lease up.

        `is_passing`: one of very many nodes with short lives; where it holds nothing any more, nobody needs its row.
        """
        ...
