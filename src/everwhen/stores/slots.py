"""The slots port on any database: each method is one flow in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from everwhen.model.claim import ClaimedJob
from everwhen.model.events import Event
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.outcome import Outcome
from everwhen.model.output import OutputGap, OutputPiece
from everwhen.ports.slots import Approaching, Exchange, Held, JobEnd, TickReport
from everwhen.stores.flows.claim import take_job, take_jobs
from everwhen.stores.flows.external import end_overdue, take_report
from everwhen.stores.flows.load import schedules_of, system_paused_at
from everwhen.stores.flows.rescue import give_jobs_back, put_orphans_back, rescue_found, rescue_jobs
from everwhen.stores.flows.settle import settle_jobs
from everwhen.stores.flows.tick import evaluate, evaluate_one
from everwhen.stores.lanes import Lane
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Due, Store, Transaction

LATELY = 10 * SECOND
CLAIM_TRIES = 3

_NONE_DUE = TickReport(none_due=True)


class StoredSlots:
    """Ticks, claims, settlements and rescues, kept in a store."""

    def __init__(self, store: Store, plans: PlanCache, *, lately: int = LATELY, stagger: int = 0) -> None:
        self._store = store
        self._plans = plans
        self._lately = lately
        self._stagger = stagger
        self._is_line_long = False  # the last claim got all that it wanted: the next need not check first
        self._next_catch_up_at = 0  # the stagger of a backlog continues from batch to batch

    def tick(
        self, now: int, *, limit: int, behind: bool = False, alive_since: int | None = None
    ) -> TickReport:
        due = Due(now, now - self._lately, limit, behind, alive_since=alive_since)
        # A read costs a hundredth of a write, and most wake-ups find nothing.
        due_at = self._store.earliest_due_at()
        if due_at is None or due_at > (due.floor if behind else now):
            if due_at is not None:
                self._store.nothing_due_before(min(due_at, now))
            return _NONE_DUE if due_at is None or due_at > now else TickReport()
        keys = {"stagger": self._stagger, "next_catch_up_at": self._next_catch_up_at}
        report = self._store.write(Lane.TICK, lambda tx: evaluate(tx, self._plans, due, **keys))
        if self._stagger:
            self._next_catch_up_at = max(report.next_catch_up_at, self._next_catch_up_at)
        return report

    def tick_one(self, now: int, uid: str) -> TickReport:
        stagger = self._stagger
        return self._store.write(
            Lane.TICK, lambda tx: evaluate_one(tx, self._plans, uid, now, stagger=stagger)
        )

    def approaching(self, until: int, *, limit: int) -> Approaching:
        with self._store.read() as tx:
            if system_paused_at(tx) is not None:
                return Approaching([], [])
            states = tx.states_until(until, limit=limit)
            jobs = tx.jobs_until(until, limit=limit)
            return Approaching(schedules_of(tx, self._plans, states), jobs)

    def queued_of(self, uid: str) -> list[Job]:
        with self._store.look() as tx:
            found = tx.outstanding({uid}).get(uid, [])
        return [job for job in found if job.status == "queued"]

    def next_wake_at(self) -> int | None:
        with self._store.look() as tx:
            wakes = (tx.next_due_at(), tx.next_resume_at())
        return min((at for at in wakes if at is not None), default=None)

    def claim_jobs(
        self, now: int, *, node: str, limit: int, queues: Sequence[str] | None = None
    ) -> list[ClaimedJob]:
        if not self._is_line_long and not self._is_any_ready(now, queues):
            return []
        for _ in range(CLAIM_TRIES):
            taken = self._store.write(
                Lane.CLAIM, lambda tx: take_jobs(tx, self._plans, now, node=node, limit=limit, queues=queues)
            )
            if taken is not None:
                self._is_line_long = len(taken) == limit
                return taken
        return []

    def _is_any_ready(self, now: int, queues: Sequence[str] | None) -> bool:
        with self._store.look() as tx:
            ready_at = tx.next_ready_at(queues, now)
        return ready_at is not None and ready_at <= now

    def claim_job(self, now: int, *, node: str, job_id: str) -> ClaimedJob | None:
        return self._store.write(
            Lane.CLAIM, lambda tx: take_job(tx, self._plans, now, node=node, job_id=job_id)
        )

    def next_ready_at(self, queues: Sequence[str] | None = None) -> int | None:
        with self._store.look() as tx:
            return tx.next_ready_at(queues)

    def settle(self, now: int, ends: Sequence[JobEnd]) -> int:
        if not ends:
            return 0
        return self._store.write(Lane.SETTLE, lambda tx: settle_jobs(tx, self._plans, ends, now))

    @property
    def can_exchange(self) -> bool:
        return self._store.is_exclusive

    def exchange(
        self,
        now: int,
        ends: Sequence[JobEnd],
        *,
        node: str,
        limit: int,
        queues: Sequence[str] | None = None,
    ) -> Exchange:
        def work(tx: Transaction) -> Exchange:
            settled = settle_jobs(tx, self._plans, ends, now)
            claimed = take_jobs(tx, self._plans, now, node=node, limit=limit, queues=queues) if limit else []
            return Exchange(settled, claimed or [], tx.is_sooner)

        return self._store.write(Lane.SETTLE, work)

    def report(self, now: int, job_id: str, token_hash: str, outcome: Outcome) -> bool:
        return self._store.write(
            Lane.SETTLE, lambda tx: take_report(tx, self._plans, job_id, token_hash, outcome=outcome, now=now)
        )

    def end_overdue(self, now: int) -> int:
        with self._store.read() as tx:
            if not tx.jobs_external_over(now):
                return 0
        return self._store.write(Lane.SETTLE, lambda tx: end_overdue(tx, self._plans, now))

    def write_output(self, now: int, pieces: Sequence[OutputPiece], gaps: Sequence[OutputGap]) -> None:
        self._store.write(Lane.OUTPUT, lambda tx: tx.put_output(pieces, gaps, now))

    def rescue(self, now: int, *, node: str, lease: int) -> int:
        return self._store.write(
            Lane.SETTLE, lambda tx: rescue_jobs(tx, self._plans, now, node=node, lease=lease)
        )

    def put_orphans_back(self, now: int, *, node: str, held: Collection[Held]) -> int:
        with self._store.look() as tx:
            orphans = [job for job in tx.jobs_of_node(node) if (job.job_id, job.fence) not in held]
        if not orphans:
            return 0
        return self._store.write(Lane.SETTLE, lambda tx: put_orphans_back(tx, self._plans, orphans, now))

    def give_back(self, now: int, *, node: str, held: Collection[Held], is_lost: bool = False) -> int:
        with self._store.look() as tx:
            found = [job for job in tx.jobs_of_node(node) if (job.job_id, job.fence) in held]
        if not found:
            return 0
        give = rescue_found if is_lost else give_jobs_back
        return self._store.write(Lane.SETTLE, lambda tx: give(tx, self._plans, found, now))

    def cancel_requests(self, node: str) -> list[str]:
        with self._store.look() as tx:
            return tx.cancel_requests(node)

    def heartbeat(
        self, now: int, *, node: str, version: str, is_scheduler: bool, is_worker: bool = True
    ) -> None:
        def beat(tx: Transaction) -> None:
            tx.put_heartbeat(now, node=node, version=version, is_scheduler=is_scheduler, is_worker=is_worker)

        self._store.write(Lane.SETTLE, beat)

    def record(self, events: Sequence[Event]) -> None:
        self._store.write(Lane.SETTLE, lambda tx: tx.insert_events(events))

    def last_heartbeat_at(self) -> int | None:
        with self._store.look() as tx:
            return tx.last_heartbeat_at()

    def sign_off_node(self, now: int, *, node: str, is_passing: bool = False) -> None:
        def leave(tx: Transaction) -> None:
            if not is_passing or not tx.forget_node(node):
                tx.put_sign_off(now, node=node)

        self._store.write(Lane.SETTLE, leave)
