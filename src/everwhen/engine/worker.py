"""Claimed jobs, run side by side and settled together.

A job belongs to the node that claimed it, by lease and fencing token; what it reports counts only while both
still hold. Targets run on one event loop, those that block in threads; the claims and the settlements of many
jobs share one transaction each.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import cast

from everwhen.engine.call_executor import CallExecutor
from everwhen.engine.loop_thread import LoopThread
from everwhen.engine.output import OutputBook
from everwhen.engine.running import Running, failed_by, run_of
from everwhen.engine.wake import Wake
from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome, drifted
from everwhen.ports.clock import Clock
from everwhen.ports.observer import Nobody, Observer
from everwhen.ports.slots import Held, JobEnd, Slots
from everwhen.ports.target import StopFlag, Target

Ended = tuple[Running, Outcome]

SETTLED_AT_ONCE = 500
LOOK_EXTERNAL = 1.0

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
        self._wake = wake or Wake()
        self._on_settled = on_settled
        self._observer = observer or Nobody()
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._running: dict[Held, Running] = {}  # of one job several, when it was rescued from under us
        self._lock = threading.Lock()
        self._left = threading.Condition()  # notified when one of those that are waited for is over
        self._is_async: dict[str, bool] = {}  # by kind of target
        self._loop = LoopThread("everwhen-targets")
        self._call_executor = CallExecutor(max_workers)
        self._output = OutputBook(slots, clock)
        self._looked_external_at = float("-inf")
        self._may_have_orphans = False
        self._wanted: list[str] = []
        # Over here and not settled: interrupted because the node stops, or lost with its lease (`is_lost`).
        self._returned: queue.SimpleQueue[tuple[Running, bool]] = queue.SimpleQueue()
        self._stopping = StopFlag()
        self._is_over = False

    @property
    def running_count(self) -> int:
        return len(self._running)

    def running_count_of(self, group: str | None) -> int:
        """How many of the running jobs belong to a plugin, agent or workflow."""
        with self._lock:
            return sum(running.claimed.definition.group == group for running in self._running.values())

    def begin(self, node: str) -> None:
        """Work for this node, also after a stop."""
        self.node = node
        self._stopping = StopFlag()
        self._is_over = False

    def prepare_to_stop(self) -> None:
        """The node stops: from now on a process that a signal ends was interrupted, and did not fail (G1)."""
        self._stopping.set()

    # -- one step of the worker's loop --

    def step(self) -> bool:
        """Settle what has ended, then take what is ready; True when something was done."""
        done = self.end_overdue() + self.put_orphans_back()
        if not self._returned.empty():
            self._give_returned_back()
        if self._slots.can_exchange and not self._wanted and not self._ended.empty():
            return bool(done + self._exchange(self._take_ended()))
        done += self.settle()
        return bool(done + self._claim(self._max_workers - len(self._running)))

    def _exchange(self, ended: Sequence[Ended]) -> int:
        """Settle and claim in one transaction; whoever has ended makes room in it."""
        over = sum(not outcome.is_still_running for _, outcome in ended)
        room = max(self._max_workers - len(self._running) + over, 0)
        try:
            done = self._slots.exchange(
                self._clock.now(), _ends(ended), node=self.node, limit=room, queues=self._queues
            )
        except BaseException:
            self._tell_again(ended)
            self._may_have_orphans = True
            raise
        self._let_go(ended, done.settled)
        if done.is_sooner and self._on_settled is not None:
            self._on_settled.set()
        self.take(done.claimed)
        return len(ended) + len(done.claimed)

    def want(self, job_id: str) -> None:
        """Take this one before any other, whatever its queue, as soon as it can be had; from any thread."""
        self._wanted.append(job_id)
        self._wake.set()

    def _claim(self, room: int) -> int:
        if room <= 0:
            return 0
        if self._wanted:
            return self._claim_wanted()
        now = self._clock.now()
        try:
            claimed = self._slots.claim_jobs(now, node=self.node, limit=room, queues=self._queues)
        except BaseException:
            self._may_have_orphans = True
            raise
        self.take(claimed)
        return len(claimed)

    def _claim_wanted(self) -> int:
        job_id = self._wanted[0]
        try:
            claimed = self._slots.claim_job(self._clock.now(), node=self.node, job_id=job_id)
            if claimed is None:
                return 0
            self._start([claimed])
        except BaseException:
            self._may_have_orphans = True
            raise
        self._wanted.remove(job_id)
        return 1

    def take(self, claimed: Sequence[ClaimedJob]) -> None:
        """Run what was claimed for this node."""
        if not claimed:
            return
        try:
            self._start(claimed)
        except BaseException:
            self._may_have_orphans = True
            raise

    def look_for_orphans(self) -> None:
        """Have the next step compare what runs here with what is on record; from any thread."""
        self._may_have_orphans = True
        self._wake.set()

    def put_orphans_back(self) -> int:
        """A claim can be committed and its answer lost: its jobs are ours on record, and nobody runs them (R8).

        On the thread that claims, so that no claim is under way.
        """
        if not self._may_have_orphans:
            return 0
        self._may_have_orphans = False
        with self._lock:
            held = set(self._running)
        try:
            orphans = self._slots.put_orphans_back(self._clock.now(), node=self.node, held=held)
        except BaseException:
            self._may_have_orphans = True
            raise
        if orphans:
            log.warning("%d job(s) were claimed here and never began: they are queued again", orphans)
        return orphans

    def end_overdue(self) -> int:
        """Jobs whose outcome was to be reported have deadlines, too; whichever node looks first ends them."""
        now = self._clock.monotonic()
        if now - self._looked_external_at < LOOK_EXTERNAL:
            return 0
        self._looked_external_at = now
        return self._slots.end_overdue(self._clock.now())

    def settle(self) -> int:
        """Write how jobs ended; one whose work is still running stays until that has ended, too."""
        self._give_returned_back()
        ended = self._take_ended()
        if not ended:
            return 0
        try:
            counted = self._slots.settle(self._clock.now(), _ends(ended))
        except BaseException:
            self._tell_again(ended)
            raise
        self._let_go(ended, counted)
        if self._on_settled is not None:
            self._on_settled.set()
        return len(ended)

    def _give_returned_back(self) -> None:
        returned: list[tuple[Running, bool]] = []
        with suppress(queue.Empty):
            while True:
                returned.append(self._returned.get_nowait())
        try:
            for is_lost in (False, True):
                self._give_back(
                    {running.held for running, was_lost in returned if was_lost == is_lost}, is_lost
                )
        except BaseException:  # a second word about what was given back changes nothing
            for one in returned:
                self._returned.put(one)
            raise

    def _give_back(self, held: Collection[Held], is_lost: bool = False) -> None:
        """Have others run these again: whatever they did here, nobody waits for it any more."""
        if not held:
            return
        count = self._slots.give_back(self._clock.now(), node=self.node, held=held, is_lost=is_lost)
        if count:
            word = "lost with the lease of this node" if is_lost else "interrupted"
            log.warning("%d job(s) were %s: they are given back, and run again", count, word)
        with self._lock:
            for one in held:
                self._running.pop(one, None)

    def _tell_again(self, ended: Sequence[Ended]) -> None:
        """A store that failed: it may have written them, and a second word changes nothing."""
        for pair in ended:
            self._ended.put(pair)

    def _let_go(self, ended: Sequence[Ended], counted: int) -> None:
        if counted < len(ended):
            log.warning("%d job(s) ended here after others had taken them over", len(ended) - counted)
        with self._lock:
            for running, outcome in ended:
                if not outcome.is_still_running:
                    self._running.pop(running.held, None)
        for running, outcome in ended:
            if outcome.is_still_running:
                self._await_work(running, outcome)

    def _take_ended(self) -> list[Ended]:
        ended: list[Ended] = []
        while len(ended) < SETTLED_AT_ONCE:
            try:
                ended.append(self._ended.get_nowait())
            except queue.Empty:
                break
        return ended

    def _await_work(self, running: Running, outcome: Outcome) -> None:
        """The run is over, and known to be; its worker is free when the last of its work has returned (R9)."""
        left = next((work for work in running.run.still_running if not work.done()), None)
        if left is not None:
            left.add_done_callback(lambda _left: self._await_work(running, outcome))
            return
        self._ended.put((running, replace(outcome, is_still_running=False)))
        self._wake.set()

    def seconds_to_next(self, at_most: float) -> float:
        ready_at = self._slots.next_ready_at(self._queues)
        if ready_at is None or len(self._running) >= self._max_workers:
            return at_most
        return min(max((ready_at - self._clock.now()) / 1_000_000, 0.01), at_most)

    # -- endings --

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Tell jobs that were cancelled to stop, with everything that they started."""
        with self._lock:
            concerned = [r for r in self._running.values() if r.run.job_id in job_ids]
        for running in concerned:
            self._loop.call(running.end, "cancelled")

    def cut_off(self) -> None:
        """End what runs, because the lease of this node is about to end: whoever takes it over must not meet it."""
        with self._lock:
            concerned = list(self._running.values())
        for running in concerned:
            self._loop.call(running.end, "cut_off")

    def abandon(self, seconds: float) -> None:
        """End what runs without settling it: it is given back where the node stops, and rescued elsewhere.

        A claim that comes back only now begins nothing any more.
        """
        with self._lock:
            self._is_over = True
            left = list(self._running.values())
        for running in left:
            self._loop.call(running.end, "abandoned")
        with self._left:
            self._left.wait_for(lambda: all(running.is_over for running in left), seconds)
        try:
            self._settle_the_rest()
        except StoreError as error:  # what is left is rescued when the lease is given up, or over
            log.error("Error during the last settlement: %s", error)
        with self._lock:
            self._running.clear()

    def leave_at_once(self) -> None:
        """Give back what runs, without waiting for its end; from any thread."""
        with self._lock:
            self._is_over = True
        self._settle_the_rest()

    def _settle_the_rest(self) -> None:
        """Those that ended by themselves have their outcome; all others are given back.

        Not where only this run is told to go: what a queue's own time limit ends again and again is rescued three
        times and no more.
        """
        self.settle()
        if not self._stopping.is_set():
            return
        with self._lock:
            held = set(self._running)
        self._give_back(held)

    def close(self) -> None:
        """No job runs any more: the loop ends, and what the targets keep open on it is closed."""
        closers = [getattr(target, "close", None) for target in self._targets.values()]
        self._loop.finish([close for close in closers if close is not None])
        self._call_executor.close()
        self._output.close()

    # -- on the event loop --

    def _start(self, claimed: Sequence[ClaimedJob]) -> None:
        batch = [
            Running(claim, run_of(claim, self._output.of(claim.job), self._stopping)) for claim in claimed
        ]
        with self._lock:
            if self._is_over:
                return
            if self._running:
                self._find_older(batch)
            self._running.update({running.held: running for running in batch})
        try:
            self._loop.call(self._begin, batch)  # one hand-over for all of them
        except BaseException:  # no thread to be had
            with self._lock:
                for running in batch:
                    del self._running[running.held]
            raise

    def _find_older(self, batch: Sequence[Running]) -> None:
        """A node that was taken for dead (a laptop that slept) may claim again what still runs here."""
        ids = {running.run.job_id: running for running in batch}
        for older in self._running.values():
            if newer := ids.get(older.run.job_id):
                newer.before.append(older)

    def _begin(self, batch: Sequence[Running]) -> None:
        loop = asyncio.get_running_loop()
        for running in batch:
            for older in running.before:
                older.end("superseded")
            self._tell(self._observer.started, running.run)
            running.task = loop.create_task(self._work_of(running))
            running.task.add_done_callback(partial(self._finish, running))
            if running.ending is not None:
                running.task.cancel()
        loop.call_soon(self._set_timers, batch)

    def _set_timers(self, batch: Sequence[Running]) -> None:
        """Behind the first step of their tasks: what has ended in that needs no timer."""
        loop = asyncio.get_running_loop()
        for running in batch:
            assert running.task is not None
            if running.run.seconds_left is not None and not running.task.done():
                running.timer = loop.call_later(running.run.seconds_left, running.end, "timed_out")

    async def _work_of(self, running: Running) -> Outcome:
        outcome = await self._outcome_of(running)
        is_by_signal = isinstance(outcome, Outcome) and outcome.is_interrupted
        if is_by_signal and not await running.run.is_node_stopping():
            return replace(outcome, is_interrupted=False)  # somebody killed it: a failure like any other
        return outcome

    async def _outcome_of(self, running: Running) -> Outcome:
        if older := [copy.task for copy in running.before if copy.task is not None]:
            await asyncio.wait(older)
        target = running.claimed.definition.target
        adapter = self._targets.get(target.kind)
        if adapter is None:
            return drifted(f'no target of kind "{target.kind}" on this node')
        try:
            if self._is_async_kind(target.kind, adapter):
                return await cast("Awaitable[Outcome]", adapter.run(target.spec, running.run))
            work = partial(adapter.run, target.spec, running.run)
            return await running.run.until_told(self._call_executor.hand_over(partial(_guarded, work)))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return failed_by(error)

    def _is_async_kind(self, kind: str, adapter: Target) -> bool:
        if kind not in self._is_async:
            self._is_async[kind] = inspect.iscoroutinefunction(adapter.run)
        return self._is_async[kind]

    def _finish(self, running: Running, _task: asyncio.Task[Outcome]) -> None:
        if running.timer is not None:
            running.timer.cancel()
        outcome = running.outcome()
        if running.is_left_behind:
            outcome = replace(outcome, is_still_running=True)
        if outcome.is_interrupted or outcome.status == "lost":
            self._returned.put((running, outcome.status == "lost"))
        elif running.ending != "abandoned":
            if outcome.awaits is None:  # else it has not ended
                self._tell(self._observer.ended, running.run, outcome)
            self._ended.put((running, outcome))
        running.is_over = True
        if self._is_over:  # looked at after the line above, as `abandon` looks the other way round
            with self._left:
                self._left.notify_all()
        self._wake.set()

    def _tell(self, tell: Callable[..., None], *what: object) -> None:
        """An observer only watches: one that fails (a closed terminal) must not cost a worker its place."""
        try:
            tell(*what)
        except Exception:
            log.warning("an observer failed", exc_info=True)


def _ends(ended: Sequence[Ended]) -> list[JobEnd]:
    return [JobEnd(*running.held, outcome) for running, outcome in ended]


def _guarded(work: Callable[[], object]) -> Outcome:
    """What a target that blocks comes to, on its thread: an outcome, whatever it raises."""
    try:
        outcome = work()
    except BaseException as error:
        return failed_by(error)
    assert isinstance(outcome, Outcome)
    return outcome
