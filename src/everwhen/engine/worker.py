"""Claimed jobs, run concurrently and settled together.

A job belongs to the node that claimed it, by lease and fencing token; the node's report counts only while both are
valid. Targets run on one event loop, blocking ones in threads. The claims of many jobs share one transaction, and so
do their settlements. Where jobs are short the node claims ahead (`claims_ahead`): a claimed job begins as soon as a
worker is free, and is given back when that takes longer than expected.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import TypeVar

from everwhen.clock import Clock
from everwhen.engine.claims_ahead import MOMENT, Pace
from everwhen.engine.fitness import Fitness, Unfit
from everwhen.engine.job_runs import JobRuns, Return
from everwhen.engine.loop import LOOK_AGAIN, Loop, Wake
from everwhen.engine.running import Ending, OutputBook, Running, run_of
from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob, Held
from everwhen.model.outcome import JobEnd, Outcome
from everwhen.model.share import FreeWorkers, Share, WorkersInUse
from everwhen.store.slots import Slots
from everwhen.target import Observer, Several, StopFlag, Target

Ended = tuple[Running, Outcome]
_RETURNS = {"interrupted": "were interrupted", "lost": "were lost with the lease of this node"}
T = TypeVar("T")

SETTLED_AT_ONCE = 500
LOOK_EXTERNAL = 1.0
FIRST_LOOK = 1.0

log = logging.getLogger("everwhen")


class Worker:
    """Runs jobs of one node, at most `max_workers` at a time."""

    def __init__(
        self,
        slots: Slots,
        clock: Clock,
        targets: Mapping[str, Target],
        *,
        node: str,
        queues: Sequence[str] | None = None,
        max_workers: int = 8,
        max_workers_per_owner: int | None = None,
        wake: Wake | None = None,
        on_settled: Wake | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._targets = targets
        self.node = node
        self._queues = queues
        self._max_workers = max_workers
        # So that a late comer finds a worker, however long the jobs of another owner run.
        self._most_per_owner = max_workers_per_owner or max(max_workers - 1, 1)
        self._wake = wake or Wake()
        self._on_settled = on_settled
        self._runs = JobRuns(
            clock, targets, max_workers=max_workers, observer=observer or Several(), reports=self
        )
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._running: dict[Held, Running] = {}  # one job several times, if it was rescued from this node
        self._pace = Pace()
        self._in_use: Counter[Share] = Counter()  # workers, by those of `_running`
        self._lock = threading.Lock()
        # Of who claims: until a claim is committed and its jobs are among `_running`, no other claim of this node is
        # made, and nothing counts as an orphan.
        self._claim_lock = threading.Lock()
        self._has_begun = False
        self._left = threading.Condition()  # notified when a job that is waited for is over
        self._output = OutputBook(slots.write_output, clock)
        self._looked_external_at = float("-inf")
        self._may_have_orphans = False
        self._wanted: list[str] = []
        self._returned: queue.SimpleQueue[tuple[Running, Return]] = queue.SimpleQueue()
        self.fitness = Fitness(clock)
        self._recorded_unfit: Unfit | None = None
        self._is_over = False

    @property
    def running_count(self) -> int:
        return len(self._begun())

    @property
    def unsettled_count(self) -> int:
        """Return how many of the running jobs have not ended: work of a job may go on behind its recorded end."""
        return sum(not running.is_settled for running in self._begun())

    def running_count_of(self, group: str | None) -> int:
        """Return how many of the running jobs belong to a plugin, agent or workflow."""
        return sum(running.claimed.definition.group == group for running in self._begun())

    def _begun(self) -> list[Running]:
        with self._lock:
            claimed = list(self._running.values())
        waiting = self._runs.waiting
        return [running for running in claimed if running not in waiting]

    def begin(self, node: str) -> None:
        """Work for this node, also after a stop."""
        self.node = node
        self._has_begun = True
        self._runs.stopping = StopFlag()
        self._is_over = False

    def prepare_to_stop(self) -> None:
        """Note that the node stops: from now on a process that a signal ends was interrupted, and did not fail."""
        self._runs.stopping.set()

    # -- one step of the worker's loop --

    def step(self) -> bool:
        """Settle ended jobs, then claim ready ones; return True when something was done."""
        self._see_to_fitness()
        done = self.end_overdue() + self.put_orphans_back()
        self._runs.give_back(self._clock.monotonic())
        if not self._returned.empty():
            self._give_returned_back()
        if self._slots.can_exchange and not self._wanted and not self._ended.empty():
            return bool(done + self._exchange(self._drain_ended()))
        done += self.settle()
        return bool(done + self._claim(self._free_workers()))

    def _free_workers(self, over: int = 0) -> int:
        """Return how many jobs may be claimed, when so many of the running ones are over."""
        running = len(self._running) - over
        places = self._max_workers + self._pace.count_ahead(self._clock.monotonic())
        return self.fitness.count_claimable(max(places - running, 0), running)

    def _drain_ended(self) -> list[Ended]:
        ended = _drained(self._ended, SETTLED_AT_ONCE)
        if ended:
            self._pace.note_ended(len(ended), self._clock.monotonic())
        return ended

    def _see_to_fitness(self) -> None:
        """Try whether jobs can begin again, where they could not; record when that changes."""
        self.fitness.step(len(self._running))
        unfit, recorded = self.fitness.unfit, self._recorded_unfit
        if unfit == recorded:
            return
        since = unfit.since if unfit is not None else recorded.since if recorded is not None else 0
        fault = None if unfit is None else unfit.fault
        self._slots.note_fitness(self._clock.now(), node=self.node, fault=fault, since=since)
        self._recorded_unfit = unfit

    def sign_off(self) -> None:
        """Record the end of a time in which this node could begin no jobs: it stops."""
        if (recorded := self._recorded_unfit) is not None:
            self._slots.note_fitness(self._clock.now(), node=self.node, fault=None, since=recorded.since)
            self._recorded_unfit = None

    def _exchange(self, ended: Sequence[Ended]) -> int:
        """Settle and claim in one transaction; ended jobs make room for new ones in it."""
        over = [running for running, outcome in ended if not outcome.is_still_running]
        free = self._free_workers(len(over))
        now, ends = self._clock.now(), _ends(ended)
        with self._claim_lock, self._claiming():
            with self._settling(ended):
                in_use = self._workers_in_use(over)
                done = self._slots.exchange(
                    now, ends, node=self.node, limit=free, queues=self._queues, in_use=in_use
                )
            self._let_go(ended, done.settled)
            if done.is_sooner and self._on_settled is not None:
                self._on_settled.set()
            self._start(done.claimed)
        return len(ended) + len(done.claimed)

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        """Have the next step look for orphans when this fails: the claim may be committed, and its answer lost."""
        try:
            yield
        except BaseException:
            self.look_for_orphans()
            raise

    @contextmanager
    def _settling(self, ended: Sequence[Ended]) -> Iterator[None]:
        """Queue the outcomes again when this fails: the store may have written them; a second time changes nothing."""
        try:
            self._output.flush_ended(running.run.job_id for running, _ in ended)
            yield
        except BaseException:
            for pair in ended:
                self._ended.put(pair)
            raise

    def want(self, job_id: str) -> None:
        """Claim this job before any other, whatever its queue, as soon as possible; from any thread."""
        self._wanted.append(job_id)
        self._wake.set()

    def _claim(self, free: int) -> int:
        if free <= 0:
            return 0
        now, wanted = self._clock.now(), self._wanted[0] if self._wanted else None
        with self._claim_lock, self._claiming():
            if wanted is None:
                claimed = self._slots.claim_jobs(
                    now, node=self.node, limit=free, queues=self._queues, in_use=self._workers_in_use()
                )
            else:
                found = self._slots.claim_job(now, node=self.node, job_id=wanted)
                claimed = [] if found is None else [found]
            self._start(claimed)
        if wanted is not None and claimed:
            self._wanted.remove(wanted)
        return len(claimed)

    def _workers_in_use(self, over: Iterable[Running] = ()) -> WorkersInUse:
        """Return which workers are taken, also by claimed jobs that have not begun, without those of ended jobs."""
        with self._lock:
            in_use = self._in_use - Counter(running.share for running in over)
        return WorkersInUse(in_use, self._most_per_owner)

    def _forget(self, held: Iterable[Held]) -> None:
        """Free the workers of these jobs; the caller has the lock."""
        for one in held:
            if (running := self._running.pop(one, None)) is not None:
                self._in_use[running.share] -= 1

    def serve_also(self, queues: Collection[str]) -> None:
        """Claim jobs of these queues, too, from now on; from any thread."""
        if self._queues is not None and not set(queues) <= set(self._queues):
            self._queues = list(dict.fromkeys((*self._queues, *queues)))
            self._wake.set()

    def take(self, claimed: Sequence[ClaimedJob]) -> None:
        """Run the jobs that were claimed for this node."""
        with self._claiming():
            self._start(claimed)

    @contextmanager
    def offer(self) -> Iterator[FreeWorkers | None]:
        """Offer the free workers to an evaluation on another thread, which may claim for them.

        What it has claimed it hands to `take` inside the block. It never waits for a claim under way: then it is
        offered None, as it is where no worker is free.
        """
        if not self._claim_lock.acquire(blocking=False):
            yield None
            return
        try:
            is_open = self._has_begun and not self._wanted and not self._runs.stopping.is_set()
            free = self._idle_workers() if is_open else 0
            if not free:
                yield None
                return
            with self._claiming():
                yield FreeWorkers(self.node, free, self._queues, self._workers_in_use())
        finally:
            self._claim_lock.release()

    def _idle_workers(self) -> int:
        """Return how many jobs can begin at once."""
        running = len(self._running)
        return self.fitness.count_claimable(max(self._max_workers - running, 0), running)

    def look_for_orphans(self) -> None:
        """Have the next step compare the running jobs with the recorded ones; from any thread."""
        self._may_have_orphans = True
        self._wake.set()

    def put_orphans_back(self) -> int:
        """Put back jobs that are recorded as this node's and do not run.

        That happens when a claim was committed and its answer lost. Call it on the thread that claims, so that no claim
        is in progress.
        """
        if not self._may_have_orphans:
            return 0
        self._may_have_orphans = False
        with self._claim_lock, self._claiming():
            with self._lock:
                held = set(self._running)
            orphans = self._slots.put_orphans_back(self._clock.now(), node=self.node, held=held)
        if orphans:
            log.warning("%d job(s) were claimed here and never began: they are queued again", orphans)
        return orphans

    def end_overdue(self) -> int:
        """End jobs that await a reported outcome and are past their deadline; whichever node looks first ends them."""
        now = self._clock.monotonic()
        if now - self._looked_external_at < LOOK_EXTERNAL:
            return 0
        self._looked_external_at = now
        return self._slots.end_overdue(self._clock.now())

    def settle(self) -> int:
        """Record how jobs ended; a job whose work still runs stays until that work has ended, too."""
        self._give_returned_back()
        ended = self._drain_ended()
        if not ended:
            return 0
        with self._settling(ended):
            counted = self._slots.settle(self._clock.now(), _ends(ended))
        self._let_go(ended, counted)
        if self._on_settled is not None:
            self._on_settled.set()
        return len(ended)

    def _give_returned_back(self) -> None:
        returned = _drained(self._returned)
        try:
            for why in {why for _, why in returned}:
                self._give_back({one.held for one, reason in returned if reason == why}, why)
        except BaseException:  # giving a job back twice changes nothing
            for one in returned:
                self._returned.put(one)
            raise

    def _give_back(self, held: Collection[Held], why: Return = "interrupted") -> None:
        """Let other nodes run these jobs again: no process waits for their outcome here any more."""
        if not held:
            return
        now = self._clock.now()
        match why:
            case "interrupted" | "lost":
                count = self._slots.give_back(now, node=self.node, held=held, is_lost=why == "lost")
                end = "and run again unless on_lost is fail"
            case "ahead":
                self._slots.give_unbegun_back(now, node=self.node, held=held)
                count, end = 0, ""
            case _:
                count = self._slots.give_unbegun_back(now, node=self.node, held=held, fault=why)
                end = "and begin where they can"
        if count:
            log.warning(
                "%d job(s) %s: they are given back, %s", count, _RETURNS.get(why, "could not begin"), end
            )
        with self._lock:
            self._forget(held)

    def _let_go(self, ended: Sequence[Ended], counted: int) -> None:
        if counted < len(ended):
            log.warning("%d job(s) ended here after others had taken them over", len(ended) - counted)
        with self._lock:
            for running, _ in ended:
                running.is_settled = True
            self._forget(running.held for running, outcome in ended if not outcome.is_still_running)
        for running, outcome in ended:
            if outcome.is_still_running:
                over = outcome._replace(is_still_running=False)
                self._runs.await_work(running, partial(self.ended, running, over))

    def seconds_to_next(self, at_most: float) -> float:
        at_most = self.fitness.seconds_to_next(at_most)
        if self.fitness.unfit is not None:
            return at_most
        at_most = max(min(self._runs.earliest_begin_by - self._clock.monotonic(), at_most), 0.0)
        ready_at = self._slots.next_ready_at(self._queues, self._workers_in_use())
        if ready_at is None or not self._free_workers():
            return at_most
        return min(max((ready_at - self._clock.now()) / 1_000_000, 0.01), at_most)

    # -- endings --

    def cancel(self, job_ids: Collection[str] | None = None) -> None:
        """Stop jobs that were cancelled, with everything that they started; without ids, those that the store names."""
        if job_ids is None:
            job_ids = self._slots.cancel_requests(self.node) if self._running else ()
        self._end_running("cancelled", job_ids)

    def cut_off(self) -> None:
        """End the running jobs, because this node's lease is about to end: the next owner's runs must not overlap."""
        self._end_running("cut_off")

    def _end_running(self, ending: Ending, job_ids: Collection[str] | None = None) -> list[Running]:
        with self._lock:
            running = [one for one in self._running.values() if job_ids is None or one.run.job_id in job_ids]
        for one in running:
            self._runs.end(one, ending)
        return running

    def drain(self, seconds: float) -> int:
        """Settle the jobs that end within that time; return how many have not ended after it.

        Runs on its own thread: a database that refuses, or does not answer at all, must not delay the stop, which has
        processes to end afterwards.
        """
        self._runs.give_back()
        if not self.unsettled_count:
            return 0
        looked, over = threading.Event(), threading.Event()

        def settle_once() -> None:
            try:
                self.settle()
            finally:
                looked.set()
            if not self.unsettled_count:
                over.set()
            elif not over.is_set():
                self._wake.wait(LOOK_AGAIN)

        Loop("drain", "settlement", settle_once, over).start()
        looked.wait(FIRST_LOOK)  # jobs that have ended by now are settled, also with no time to wait
        over.wait(seconds)
        over.set()
        return self.unsettled_count

    def abandon(self, seconds: float) -> None:
        """End the running jobs without settling them: they are given back when the node stops, else rescued.

        A claim that returns only now begins no job any more.
        """
        with self._lock:
            self._is_over = True
        self._runs.give_back()
        left = self._end_running("abandoned")
        with self._left:
            self._left.wait_for(lambda: all(running.is_over for running in left), seconds)
        try:
            self._settle_the_rest()
        except StoreError as error:  # the rest is rescued when the lease is given up or expires
            log.error("Error during the last settlement: %s", error)
        with self._lock:
            self._forget(tuple(self._running))

    def leave_at_once(self) -> None:
        """Give back the running jobs without waiting for their end; from any thread."""
        with self._lock:
            self._is_over = True
        self._settle_the_rest()

    def _settle_the_rest(self) -> None:
        """Settle jobs that ended by themselves, and give back all others.

        Only when the node stops, not when only this run is ended: a job that the queue's own time limit ends again
        and again is rescued three times and no more.
        """
        self._runs.give_back()
        self.settle()
        if not self._runs.stopping.is_set():
            return
        with self._lock:
            ended = {held for held, running in self._running.items() if running.is_settled}
            held = self._running.keys() - ended
        if ended:  # nobody waits here any more for what continues of them
            self._slots.give_back(self._clock.now(), node=self.node, held=ended)
        self._give_back(held)

    def close(self) -> None:
        """End the loop and close what the targets keep open on it; no job runs any more."""
        self._runs.close()
        self._output.close()
        self.fitness.close()

    # -- what becomes of runs --

    def _start(self, claimed: Sequence[ClaimedJob]) -> None:
        output, stopping = self._output, self._runs.stopping
        batch = [Running(claim, run_of(claim, output.of(claim.job), stopping)) for claim in claimed]
        now = self._clock.monotonic()
        with self._lock:
            if self._is_over or not batch:
                return
            # A node considered dead (a laptop that slept) may reclaim what it still runs.
            newer = {running.run.job_id: running for running in batch}
            for older in self._running.values():
                if older.run.job_id in newer:
                    newer[older.run.job_id].before.append(older)
            if not self._running:
                self._pace.begin(now)
            for running in batch:
                self._running[running.held] = running
                self._in_use[running.share] += 1
        try:
            self._runs.begin(batch, begin_by=now + MOMENT)
        except BaseException:
            with self._lock:
                self._forget(running.held for running in batch)
            raise

    def ended(self, running: Running, outcome: Outcome) -> None:
        """Note that a run is over; from any thread."""
        self._ended.put((running, outcome))
        self.abandoned(running)

    def returned(self, running: Running, why: Return) -> None:
        """Note that a job has to be given back; from any thread."""
        if why != "interrupted" and why != "lost" and why != "ahead":
            self.fitness.note(why)
            self._runs.give_back()  # what waits would not begin either
        self._returned.put((running, why))
        self.abandoned(running)

    def abandoned(self, running: Running) -> None:
        """Note that nobody waits for a run any more; from any thread."""
        running.is_over = True
        if self._is_over:  # checked after the line above; `abandon` uses the opposite order
            with self._left:
                self._left.notify_all()
        self._wake.set()


def _ends(ended: Sequence[Ended]) -> list[JobEnd]:
    return [running.job_end(outcome) for running, outcome in ended]


def _drained(waiting: queue.SimpleQueue[T], most: float = inf) -> list[T]:
    found: list[T] = []
    with suppress(queue.Empty):
        while len(found) < most:
            found.append(waiting.get_nowait())
    return found
