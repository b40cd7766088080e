"""The hot path: tick, claim, settle, rescue, in batches, each one flow in one transaction.

A tick claims due rows, lets `decide` decide about them, and commits the decisions together with the claim or not at
all. Claims, settlements and rescues do the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from everwhen.model.claim import ClaimedJob, Held
from everwhen.model.events import Event, EventType
from everwhen.model.host_fault import HostFault
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.outcome import JobEnd, Outcome, OutputGap, OutputPiece
from everwhen.model.schedule import Schedule, State
from everwhen.model.share import NONE_IN_USE, FreeWorkers, WorkersInUse
from everwhen.store.claim import take_job, take_jobs
from everwhen.store.dialect import Statement
from everwhen.store.expect import NEXT_EXPECTED, Downtimes, find_downtimes, move_deadlines, note_silences
from everwhen.store.job_rows import JOB, READY
from everwhen.store.lanes import Lane
from everwhen.store.load import schedules_of, system_paused_at
from everwhen.store.ready import ShareWindow, next_ready_of_others
from everwhen.store.rescue import (
    give_jobs_back,
    give_unbegun_back,
    put_orphans_back,
    rescue_found,
    rescue_jobs,
)
from everwhen.store.schedule_rows import STATE
from everwhen.store.settle import EXTERNAL_OVER, end_overdue, settle_jobs, take_report
from everwhen.store.tick import TickReport, evaluate, evaluate_one
from everwhen.store.transaction import Due, Store, StorePart, Transaction

LATELY = 10 * SECOND
CLAIM_TRIES = 3

# idx_schedules_next_run and idx_schedules_release, each from its front.
_UNTIL = Statement(f"""
SELECT {STATE} FROM schedules WHERE row_id IN (
    SELECT row_id FROM (SELECT row_id FROM schedules WHERE enabled AND next_run_at <= :until::instant
        ORDER BY next_run_at LIMIT :limit) AS due
    UNION SELECT row_id FROM (SELECT row_id FROM schedules WHERE release_at IS NOT NULL
        AND release_at <= :until::instant AND enabled ORDER BY release_at LIMIT :limit) AS released)""")
# idx_schedules_resume and idx_budgets_refill, each from its front.
_NEXT_RESUME = Statement("""
SELECT min(next_at) FROM (
    SELECT min(resume_at) AS next_at FROM schedules WHERE resume_at IS NOT NULL AND status = 'paused'
    UNION ALL SELECT min(refill_at) FROM budgets WHERE refill_at IS NOT NULL) AS ends""")
# idx_jobs_unreleased: the jobs that a node has not released, and those that were cancelled.
_OF_NODE = Statement(f"""
SELECT {JOB} FROM jobs WHERE node = :node::text AND released_at IS NULL ORDER BY row_id""")
_CANCEL_REQUESTS = Statement("""
SELECT job_id FROM jobs WHERE node = :node::text AND released_at IS NULL AND status = 'cancelled'""")
# nodes, by their primary key, and whole.
_HEARTBEAT = Statement("""
INSERT INTO nodes (node, version, is_scheduler, is_worker, started_at, heartbeat_at, clock_skew, migration)
VALUES (:node::text, :version::text, :is_scheduler, :is_worker, :now::instant, :now::instant, :skew, :migration)
ON CONFLICT (node) DO UPDATE SET heartbeat_at = :now::instant, clock_skew = :skew, lost_at = NULL""")
_SIGN_OFF = Statement("""
UPDATE nodes SET stopped_at = :now::instant, heartbeat_at = :now::instant, unfit = NULL, unfit_since = NULL
WHERE node = :node::text""")
_NOTE_FITNESS = Statement("""
UPDATE nodes SET unfit = :fault::text, unfit_since = :since::instant WHERE node = :node::text""")
_LAST_HEARTBEAT = Statement("SELECT max(heartbeat_at) FROM nodes WHERE is_scheduler")
# idx_jobs_unreleased: jobs that the node has not released would have no owner without its row.
_FORGET_NODE = Statement("""
DELETE FROM nodes WHERE node = :node::text
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE node = :node::text AND released_at IS NULL)""")
_NONE_DUE = TickReport(none_due=True)


@dataclass(frozen=True, slots=True)
class Approaching:
    """Active schedules with a slot that is due or released by some instant, and jobs that can start by then."""

    schedules: list[Schedule]
    jobs: list[Job]


@dataclass(frozen=True, slots=True)
class Exchange:
    """The result of settling and claiming together. `is_sooner`: a slot is due sooner than a scheduler may expect."""

    settled: int
    claimed: list[ClaimedJob]
    is_sooner: bool


class Slots(StorePart):
    """Operations on slots and jobs while the clock runs."""

    def __init__(self, store: Store, *, lately: int = LATELY, stagger: int = 0) -> None:
        super().__init__(store)
        self._lately = lately
        self._stagger = stagger
        self._window = ShareWindow()
        self._is_line_long = False  # the last claim got all that it wanted: the next need not check first
        self._next_catch_up_at = 0  # the stagger of a backlog continues from batch to batch

    def tick(
        self,
        now: int,
        *,
        limit: int,
        behind: bool = False,
        alive_since: int | None = None,
        workers: FreeWorkers | None = None,
    ) -> TickReport:
        """Decide due and released slots: recent ones (`behind=False`), or older ones.

        `alive_since`: the first heartbeat of the deciding node, which counts as alive until now whatever its last one
        is. `workers`: free ones of that node, on which what is fired may begin.
        """
        due = Due(now, now - self._lately, limit, behind, alive_since=alive_since)
        # A read costs a hundredth of a write, and most wake-ups find nothing.
        due_at = self._store.earliest_due_at()
        if due_at is None or due_at > (due.floor if behind else now):
            if due_at is not None:
                self._store.nothing_due_before(min(due_at, now))
            return _NONE_DUE if due_at is None or due_at > now else TickReport()
        keys: dict[str, Any] = {
            "stagger": self._stagger,
            "next_catch_up_at": self._next_catch_up_at,
            "workers": workers,
        }
        report = self._store.write(Lane.TICK, lambda tx: evaluate(tx, due, **keys))
        if self._stagger:
            self._next_catch_up_at = max(report.next_catch_up_at, self._next_catch_up_at)
        return report

    def tick_one(self, now: int, uid: str) -> TickReport:
        """Decide the due and released slots of this one schedule, however old they are."""
        stagger = self._stagger
        return self._store.write(Lane.TICK, lambda tx: evaluate_one(tx, uid, now, stagger=stagger))

    def approaching(self, until: int, *, limit: int) -> Approaching:
        """Return what needs a process by then; nothing while the system is paused."""
        with self._store.read() as tx:
            if system_paused_at(tx) is not None:
                return Approaching([], [])
            states = tx.many(State._make, _UNTIL, until=until, limit=limit)
            jobs = tx.many(Job._make, READY[False], now=until, limit=limit, queues=None)
            return Approaching(schedules_of(tx, states), jobs)

    def next_expected_at(self) -> int | None:
        """Return the earliest deadline of `expect`; None where nothing is expected, and while the system is paused."""
        with self._store.look() as tx:
            return tx.number(NEXT_EXPECTED)

    def note_silences(self, now: int) -> int:
        """Record the schedules whose deadline has passed, once each; return how many were looked at."""
        return self._store.write(Lane.SETTLE, lambda tx: note_silences(tx, now))

    def downtimes(self, now: int, *, node: str, lease: int) -> Downtimes:
        """Return the times without a scheduler for which no deadline was moved yet."""
        with self._store.look() as tx:
            return find_downtimes(tx, now, node=node, lease=lease)

    def move_deadlines(self, since: int, until: int) -> None:
        """Move the deadlines after a time in which no scheduler was alive."""
        self._store.write(Lane.SETTLE, lambda tx: move_deadlines(tx, since, until))

    def queued_of(self, uid: str) -> list[Job]:
        """Return the queued jobs of one schedule, which may be deleted, in order of slot_at."""
        with self._store.look() as tx:
            found = tx.outstanding({uid}).get(uid, [])
        return [job for job in found if job.status == "queued"]

    def next_wake_at(self) -> int | None:
        """Return the earliest instant at which a slot is due or released, a pause ends, or a budget refills."""
        with self._store.look() as tx:
            wakes = (tx.next_due_at(), tx.number(_NEXT_RESUME))
        return min((at for at in wakes if at is not None), default=None)

    def claim_jobs(
        self,
        now: int,
        *,
        node: str,
        limit: int,
        queues: Sequence[str] | None = None,
        in_use: WorkersInUse = NONE_IN_USE,
    ) -> list[ClaimedJob]:
        """Claim up to `limit` ready jobs for this node, within every capacity, by turns of their owners."""
        if not self._is_line_long:
            ready_at = self.next_ready_at(queues, in_use, now)
            if ready_at is None or ready_at > now:
                return []
        keys: dict[str, Any] = {"in_use": in_use, "window": self._window}
        for _ in range(CLAIM_TRIES):
            taken = self._store.write(
                Lane.CLAIM, lambda tx: take_jobs(tx, now, node=node, limit=limit, queues=queues, **keys)
            )
            if taken is not None:
                self._is_line_long = len(taken) == limit
                return taken
        return []

    def claim_job(self, now: int, *, node: str, job_id: str) -> ClaimedJob | None:
        """Claim this one job, whatever its queue, within every capacity; None when it cannot be claimed."""
        return self._store.write(Lane.CLAIM, lambda tx: take_job(tx, now, node=node, job_id=job_id))

    def next_ready_at(
        self,
        queues: Sequence[str] | None = None,
        in_use: WorkersInUse = NONE_IN_USE,
        now: int | None = None,
    ) -> int | None:
        """Return the earliest instant at which a queued job, of those queues, may be claimed by a node."""
        with self._store.look() as tx:
            ready_at = tx.next_ready_at(queues, now)
            if ready_at is None or not in_use.is_any_full:
                return ready_at
            return next_ready_of_others(tx, ready_at if now is None else now, queues, in_use, self._window)

    def settle(self, now: int, ends: Sequence[JobEnd]) -> int:
        """Write how jobs ended and what follows from it; return how many of the ends were valid."""
        if not ends:
            return 0
        return self._store.write(Lane.SETTLE, lambda tx: settle_jobs(tx, ends, now))

    @property
    def can_exchange(self) -> bool:
        """Return whether one transaction can settle and claim."""
        return self._store.is_exclusive

    def exchange(
        self,
        now: int,
        ends: Sequence[JobEnd],
        *,
        node: str,
        limit: int,
        queues: Sequence[str] | None = None,
        in_use: WorkersInUse = NONE_IN_USE,
    ) -> Exchange:
        """Settle, and claim up to `limit` ready jobs, in one transaction: half the commits of a busy worker."""
        keys: dict[str, Any] = {"in_use": in_use, "window": self._window}

        def work(tx: Transaction) -> Exchange:
            settled = settle_jobs(tx, ends, now)
            claimed = take_jobs(tx, now, node=node, limit=limit, queues=queues, **keys) if limit else []
            return Exchange(settled, claimed or [], tx.is_sooner)

        return self._store.write(Lane.SETTLE, work)

    def report(self, now: int, job_id: str, token_hash: str, outcome: Outcome) -> bool:
        """End a job whose work continued externally; False when it does not wait for this token."""
        return self._store.write(
            Lane.SETTLE, lambda tx: take_report(tx, job_id, token_hash, outcome=outcome, now=now)
        )

    def end_overdue(self, now: int) -> int:
        """End jobs whose work continued externally and that are past their deadline, or were cancelled."""
        with self._store.look() as tx:
            if not tx.rows(EXTERNAL_OVER, now=now):
                return 0
        return self._store.write(Lane.SETTLE, lambda tx: end_overdue(tx, now))

    def write_output(self, now: int, pieces: Sequence[OutputPiece], gaps: Sequence[OutputGap]) -> None:
        """Store output of runs, and delete what exceeds its bounds."""
        self._store.write(Lane.OUTPUT, lambda tx: tx.put_output(pieces, gaps, now))

    def rescue(self, now: int, *, node: str, lease: int) -> int:
        """Requeue jobs of nodes whose lease has expired, or end them as lost; return how many.

        A lease has expired when the heartbeat is older than the lease, or equally far in the future: then it dates
        from before the clock was set back.
        """
        return self._store.write(Lane.SETTLE, lambda tx: rescue_jobs(tx, now, node=node, lease=lease))

    def put_orphans_back(self, now: int, *, node: str, held: Collection[Held]) -> int:
        """Requeue jobs that are recorded as this node's but that it does not hold; return how many.

        The response to a claim can be lost after its commit: no node runs such a job, and no other node may claim it.
        """
        with self._store.look() as tx:
            orphans = [
                job for job in tx.many(Job._make, _OF_NODE, node=node) if (job.job_id, job.fence) not in held
            ]
        if not orphans:
            return 0
        return self._store.write(Lane.SETTLE, lambda tx: put_orphans_back(tx, orphans, now))

    def give_back(self, now: int, *, node: str, held: Collection[Held], is_lost: bool = False) -> int:
        """Requeue jobs that this node interrupts because it stops; return how many.

        This does not count as one of the three rescues. With `on_lost: fail` the job ends as lost. `is_lost`: the
        node was frozen beyond its lease and no other node took its jobs; then it is an ordinary rescue.
        """
        with self._store.look() as tx:
            found = [
                job for job in tx.many(Job._make, _OF_NODE, node=node) if (job.job_id, job.fence) in held
            ]
        if not found:
            return 0
        give = rescue_found if is_lost else give_jobs_back
        return self._store.write(Lane.SETTLE, lambda tx: give(tx, found, now))

    def give_unbegun_back(
        self, now: int, *, node: str, held: Collection[Held], fault: HostFault | None = None
    ) -> int:
        """Requeue jobs that this node did not begin: this counts as no attempt; return how many.

        `fault`: why its host let them not begin. Without one it had claimed them ahead.
        """
        with self._store.look() as tx:
            found = [
                job for job in tx.many(Job._make, _OF_NODE, node=node) if (job.job_id, job.fence) in held
            ]
        if not found:
            return 0
        return self._store.write(Lane.SETTLE, lambda tx: give_unbegun_back(tx, found, now, fault=fault))

    def note_fitness(self, now: int, *, node: str, fault: HostFault | None, since: int) -> None:
        """Record that a node can begin no jobs since some instant, or (None) that it can again."""
        kind: EventType = "node.fit" if fault is None else "node.unfit"
        detail = (
            {"node": node, "since": since}
            if fault is None
            else {"node": node, "fault": fault, "since": since}
        )

        def note(tx: Transaction) -> None:
            tx.run(_NOTE_FITNESS, node=node, fault=fault, since=None if fault is None else since)
            tx.insert_events([Event(kind, now, detail=detail)])

        self._store.write(Lane.SETTLE, note)

    def cancel_requests(self, node: str) -> list[str]:
        """Return the ids of jobs that this node runs and that were cancelled since."""
        with self._store.look() as tx:
            return tx.column(_CANCEL_REQUESTS, node=node)

    def heartbeat(
        self, now: int, *, node: str, version: str, is_scheduler: bool, is_worker: bool = True
    ) -> None:
        """Record that the node is alive and keeps its jobs: one write per node."""

        def beat(tx: Transaction) -> None:
            roles = {"is_scheduler": is_scheduler, "is_worker": is_worker}
            values = {"node": node, "version": version, "skew": tx.skew(), "migration": tx.migration}
            tx.run(_HEARTBEAT, **values, **roles, now=now)

        self._store.write(Lane.HEARTBEAT, beat)

    def record(self, events: Sequence[Event]) -> None:
        """Append events that concern no particular schedule to the audit."""
        self._store.write(Lane.SETTLE, lambda tx: tx.insert_events(events))

    def last_heartbeat_at(self) -> int | None:
        """Return when any scheduler was last alive."""
        with self._store.look() as tx:
            return tx.number(_LAST_HEARTBEAT)

    def sign_off_node(self, now: int, *, node: str, is_passing: bool = False) -> None:
        """Give the lease up on a clean stop.

        `is_passing`: one of very many short-lived nodes; its row is deleted if it holds no job any more.
        """

        def leave(tx: Transaction) -> None:
            if not is_passing or not tx.run(_FORGET_NODE, node=node):
                tx.run(_SIGN_OFF, now=now, node=node)

        self._store.write(Lane.SETTLE, leave)
