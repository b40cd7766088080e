"""Claimed jobs, run concurrently and settled together.

A job belongs to the node that claimed it, by lease and fencing token; the node's report counts only while both are
valid. Targets run on one event loop, blocking ones in threads. The claims of many jobs share one transaction, and so
do their settlements. Where jobs are short the node claims ahead (`claims_ahead`): a claimed job begins as soon as a
worker is free, and is given back when that takes longer than expected.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import Literal, TypeVar, cast

from everwhen.clock import Clock
from everwhen.engine.call_executor import CallExecutor, LoopThread
from everwhen.engine.claims_ahead import MOMENT, Pace
from everwhen.engine.fitness import Fitness, Unfit
from everwhen.engine.loop import LOOK_AGAIN, Loop, Wake
from everwhen.engine.running import Ending, OutputBook, Running, failed_by, run_of
from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob, Held
from everwhen.model.host_fault import HostFault, NotBegunError, before_target, host_fault_of
from everwhen.model.outcome import JobEnd, Outcome, drifted, not_begun
from everwhen.model.share import Share, WorkersInUse
from everwhen.store.slots import Slots
from everwhen.target import Observer, Several, StopFlag, Target

Ended = tuple[Running, Outcome]
# Why a job is given back and not settled: interrupted because the node stops, lost with its lease, claimed ahead and
# not begun in time, or not begun because of its host.
Return = Literal["interrupted", "lost", "ahead"] | HostFault
_RETURNS = {"interrupted": "were interrupted", "lost": "were lost with the lease of this node"}
MOST_UNBEGUN = 20  # times that the host lets one job not begin
MOST_COUNTED = 10_000
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
        self._observer = observer or Several()
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._running: dict[Held, Running] = {}  # one job several times, if it was rescued from this node
        self._ahead: deque[Running] = deque()  # of these, those that have not begun
        self._occupied = 0  # workers, by those that have begun
        self._pace = Pace()
        self._in_use: Counter[Share] = Counter()  # workers, by those of `_running`
        self._lock = threading.Lock()
        self._left = threading.Condition()  # notified when a job that is waited for is over
        self._is_async: dict[str, bool] = {}  # by kind of target
        self._loop = LoopThread("everwhen-targets")
        self._call_executor = CallExecutor(max_workers)
        self._output = OutputBook(slots.write_output, clock)
        self._looked_external_at = float("-inf")
        self._may_have_orphans = False
        self._wanted: list[str] = []
        self._returned: queue.SimpleQueue[tuple[Running, Return]] = queue.SimpleQueue()
        self.fitness = Fitness(clock)
        self._recorded_unfit: Unfit | None = None
        self._not_begun: Counter[str] = Counter()  # how often the host let a job not begin
        self._stopping = StopFlag()
        self._is_over = False

    @property
    def running_count(self) -> int:
        with self._lock:
            return len(self._running) - len(self._ahead)

    @property
    def unsettled_count(self) -> int:
        """Return how many of the running jobs have not ended: work of a job may go on behind its recorded end."""
        with self._lock:
            unsettled = sum(not running.is_settled for running in self._running.values())
            return unsettled - len(self._ahead)

    def running_count_of(self, group: str | None) -> int:
        """Return how many of the running jobs belong to a plugin, agent or workflow."""
        with self._lock:
            ahead = set(self._ahead)
            return sum(
                running.claimed.definition.group == group and running not in ahead
                for running in self._running.values()
            )

    def begin(self, node: str) -> None:
        """Work for this node, also after a stop."""
        self.node = node
        self._stopping = StopFlag()
        self._is_over = False

    def prepare_to_stop(self) -> None:
        """Note that the node stops: from now on a process that a signal ends was interrupted, and did not fail."""
        self._stopping.set()

    # -- one step of the worker's loop --

    def step(self) -> bool:
        """Settle ended jobs, then claim ready ones; return True when something was done."""
        self._see_to_fitness()
        done = self.end_overdue() + self.put_orphans_back()
        self._return_ahead(self._clock.monotonic())
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
        with self._claiming(), self._settling(ended):
            in_use = self._workers_in_use(over)
            done = self._slots.exchange(
                now, ends, node=self.node, limit=free, queues=self._queues, in_use=in_use
            )
        self._let_go(ended, done.settled)
        if done.is_sooner and self._on_settled is not None:
            self._on_settled.set()
        self.take(done.claimed)
        return len(ended) + len(done.claimed)

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        """Have the next step look for orphans when this fails: the claim may be committed, and its answer lost."""
        try:
            yield
        except BaseException:
            self._may_have_orphans = True
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
        with self._claiming():
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
        with self._lock:
            held = set(self._running)
        with self._claiming():
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
                self._await_work(running, outcome)

    def _await_work(self, running: Running, outcome: Outcome) -> None:
        """Free the worker of a settled run when the last of its remaining work has returned."""
        left = next((work for work in running.run.still_running if not work.done()), None)
        if left is not None:
            left.add_done_callback(lambda _left: self._await_work(running, outcome))
            return
        self._ended.put((running, outcome._replace(is_still_running=False)))
        self._loop.call(self._leave_worker)
        self._wake.set()

    def seconds_to_next(self, at_most: float) -> float:
        at_most = self.fitness.seconds_to_next(at_most)
        if self.fitness.unfit is not None:
            return at_most
        with self._lock:
            if self._ahead:
                at_most = max(min(self._ahead[0].begin_by - self._clock.monotonic(), at_most), 0.0)
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
            self._loop.call(self._end, one, ending)
        return running

    def drain(self, seconds: float) -> int:
        """Settle the jobs that end within that time; return how many have not ended after it.

        Runs on its own thread: a database that refuses, or does not answer at all, must not delay the stop, which has
        processes to end afterwards.
        """
        self._return_ahead()
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
        self._return_ahead()
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
        self._return_ahead()
        self.settle()
        if not self._stopping.is_set():
            return
        with self._lock:
            ended = {held for held, running in self._running.items() if running.is_settled}
            held = self._running.keys() - ended
        if ended:  # nobody waits here any more for what continues of them
            self._slots.give_back(self._clock.now(), node=self.node, held=ended)
        self._give_back(held)

    def close(self) -> None:
        """End the loop and close what the targets keep open on it; no job runs any more."""
        closers = [getattr(target, "close", None) for target in self._targets.values()]
        self._loop.finish([close for close in closers if close is not None])
        self._call_executor.close()
        self._output.close()
        self.fitness.close()

    # -- on the event loop --

    def _start(self, claimed: Sequence[ClaimedJob]) -> None:
        output, stopping = self._output, self._stopping
        batch = [Running(claim, run_of(claim, output.of(claim.job), stopping)) for claim in claimed]
        with self._lock:
            if self._is_over or not batch:
                return
            # A node considered dead (a laptop that slept) may reclaim what it still runs.
            newer = {running.run.job_id: running for running in batch}
            for older in self._running.values():
                if older.run.job_id in newer:
                    newer[older.run.job_id].before.append(older)
            if not self._running:
                self._pace.begin(self._clock.monotonic())
            for running in batch:
                self._running[running.held] = running
                self._in_use[running.share] += 1
        try:
            self._loop.call(self._begin_or_wait, batch)  # one hand-over for the whole batch
        except BaseException as error:
            fault = host_fault_of(error)  # no thread can be started
            if fault is not None:
                for running in batch:
                    self._return_unbegun(running, fault)
                return
            with self._lock:
                self._forget(running.held for running in batch)
            raise

    def _return_unbegun(self, running: Running, fault: HostFault) -> None:
        self.fitness.note(fault)
        self._return(running, fault)

    def _return_ahead(self, now: float = inf) -> None:
        """Give back the jobs that were claimed ahead and should have begun by now; from any thread."""
        with self._lock:
            late = [running for running in self._ahead if running.begin_by <= now]
            if late:
                self._ahead = deque(running for running in self._ahead if running.begin_by > now)
        for running in late:
            self._return(running, "ahead")

    def _return(self, running: Running, why: Return) -> None:
        self._returned.put((running, why))
        running.is_over = True
        self._wake.set()

    def _end(self, running: Running, ending: Ending) -> None:
        """End a job; one that has not begun never begins."""
        with self._lock:
            has_begun = running not in self._ahead
            if not has_begun:
                self._ahead.remove(running)
        if has_begun:
            running.end(ending)
        elif ending == "cancelled":
            running.is_over = True
            self._ended.put((running, Outcome("cancelled", error="cancelled")))
            self._wake.set()
        else:
            self._return(running, "ahead")

    def _begin_or_wait(self, batch: Sequence[Running]) -> None:
        """Begin as many jobs as there are free workers; the others begin as workers become free, or are given back."""
        begin_by = self._clock.monotonic() + MOMENT
        with self._lock:
            for running in batch:
                running.begin_by = begin_by
            self._ahead.extend(batch)
            next_ones = self._take_next()
            are_left = bool(self._ahead)
        self._begin(next_ones)
        for running in batch:
            if running.ending is not None:  # it was ended before it came here
                self._end(running, running.ending)
        if are_left:
            self._wake.set()  # they may have to be given back

    def _take_next(self) -> list[Running]:
        """Give each free worker the next of the claimed jobs, and return these; the caller has the lock."""
        free = 0 if self._stopping.is_set() else self._max_workers - self._occupied
        next_ones = [self._ahead.popleft() for _ in range(min(free, len(self._ahead)))]
        self._occupied += len(next_ones)
        return next_ones

    def _leave_worker(self) -> None:
        """Give the worker of a job that is over to the next one; on the event loop."""
        with self._lock:
            self._occupied -= 1
            next_ones = self._take_next()
        self._begin(next_ones)

    def _begin(self, batch: Sequence[Running]) -> None:
        if not batch:
            return
        loop, now = asyncio.get_running_loop(), self._clock.now()
        for running in batch:
            running.begin(now)
            for older in running.before:
                self._end(older, "superseded")
            self._notify(self._observer.started, running.run)
            running.task = loop.create_task(self._work_of(running))
            running.task.add_done_callback(partial(self._finish, running))
            if running.ending is not None:
                running.task.cancel()
        loop.call_soon(self._set_timers, batch)

    def _set_timers(self, batch: Sequence[Running]) -> None:
        """Set the timers after the first step of the tasks: a task that has ended in it needs none."""
        loop = asyncio.get_running_loop()
        for running in batch:
            assert running.task is not None
            if running.run.seconds_left is not None and not running.task.done():
                running.timer = loop.call_later(running.run.seconds_left, running.end, "timed_out")

    async def _work_of(self, running: Running) -> Outcome:
        outcome = await self._outcome_of(running)
        is_by_signal = isinstance(outcome, Outcome) and outcome.is_interrupted
        if is_by_signal and not await running.run.is_node_stopping():
            return outcome._replace(is_interrupted=False)  # killed by another process: an ordinary failure
        return outcome

    async def _outcome_of(self, running: Running) -> Outcome:
        if older := [copy.task for copy in running.before if copy.task is not None]:
            await asyncio.wait(older)
        target = running.claimed.definition.target
        adapter = self._targets.get(target.kind)
        if adapter is None:
            return drifted(f'no target of kind "{target.kind}" on this node')
        try:
            if target.kind not in self._is_async:
                self._is_async[target.kind] = inspect.iscoroutinefunction(adapter.run)
            if self._is_async[target.kind]:
                return await cast("Awaitable[Outcome]", adapter.run(target.spec, running.run))
            work = partial(_guarded, partial(adapter.run, target.spec, running.run))
            with before_target():
                handed = self._call_executor.hand_over(work)
            return await running.run.until_cancelled(handed)
        except NotBegunError as error:
            return not_begun(error.fault, error)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return failed_by(error)

    def _finish(self, running: Running, _task: asyncio.Task[Outcome]) -> None:
        if running.timer is not None:
            running.timer.cancel()
        outcome = running.outcome()
        if running.is_left_behind:
            outcome = outcome._replace(is_still_running=True)
        else:
            self._leave_worker()
        if outcome.host_fault is not None and self._may_try_again(running):
            self._return_unbegun(running, outcome.host_fault)
        elif outcome.is_interrupted or outcome.status == "lost":
            self._returned.put((running, "lost" if outcome.status == "lost" else "interrupted"))
        elif running.ending != "abandoned":
            if outcome.awaits is None:  # else it has not ended
                self._notify(self._observer.ended, running.run, outcome)
            self._ended.put((running, outcome))
        running.is_over = True
        if self._is_over:  # checked after the line above; `abandon` uses the opposite order
            with self._left:
                self._left.notify_all()
        self._wake.set()

    def _may_try_again(self, running: Running) -> bool:
        """Count a job that did not begin; False for one that meets such a fault however often the host has recovered:
        then the fault is its own."""
        if len(self._not_begun) > MOST_COUNTED:
            self._not_begun.clear()
        self._not_begun[running.run.job_id] += 1
        return self._not_begun[running.run.job_id] <= MOST_UNBEGUN

    def _notify(self, tell: Callable[..., None], *what: object) -> None:
        """Call an observer; one that fails (a closed terminal) must not affect the worker."""
        try:
            tell(*what)
        except Exception:
            with suppress(Exception):  # nor may a handler of the log that fails
                log.warning("an observer failed", exc_info=True)


def _ends(ended: Sequence[Ended]) -> list[JobEnd]:
    return [running.job_end(outcome) for running, outcome in ended]


def _drained(waiting: queue.SimpleQueue[T], most: float = inf) -> list[T]:
    found: list[T] = []
    with suppress(queue.Empty):
        while len(found) < most:
            found.append(waiting.get_nowait())
    return found


def _guarded(work: Callable[[], object]) -> Outcome:
    """Run a blocking target on its thread, and return an outcome whatever it raises."""
    try:
        outcome = work()
    except NotBegunError as error:
        return not_begun(error.fault, error)
    except BaseException as error:
        return failed_by(error)
    assert isinstance(outcome, Outcome)
    return outcome
