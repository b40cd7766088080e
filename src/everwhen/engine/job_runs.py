"""The runs of claimed jobs: at most so many at a time, each ended once, by itself or by somebody else.

A job that is a plain call runs on a thread from its beginning to its end, and that thread goes on with the next claimed
job: a hand-over between threads costs more than a short function. Everything else is a task of one event loop. A call
that has to end is left behind on its thread, which keeps its worker occupied until it returns.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic
from typing import Literal, Protocol, cast

from everwhen.clock import Clock
from everwhen.engine.call_executor import CallExecutor, LoopThread
from everwhen.engine.running import Ending, Running, failed_by
from everwhen.model.host_fault import HostFault, NotBegunError, host_fault_of
from everwhen.model.outcome import Outcome, drifted, not_begun
from everwhen.target import Observer, StopFlag, Target

# Why a job is given back and not settled: interrupted because the node stops, lost with its lease, claimed ahead and
# not begun in time, or not begun because of its host.
Return = Literal["interrupted", "lost", "ahead"] | HostFault
Call = Callable[[], Outcome]
HandOver = Callable[[Callable[[], None]], Future[None]]

MOST_UNBEGUN = 20  # times that the host lets one job not begin
MOST_COUNTED = 10_000
CANCELLED = Outcome("cancelled", error="cancelled")
NOT_ENDED = Outcome("failed", error="")  # what a call that goes on has reported

log = logging.getLogger("everwhen")


class Reports(Protocol):
    """Where runs report that they are over; from any thread."""

    def ended(self, running: Running, outcome: Outcome, /) -> None: ...

    def returned(self, running: Running, why: Return, /) -> None: ...

    def abandoned(self, running: Running, /) -> None: ...


class JobRuns:
    """Runs claimed jobs on at most `max_workers` workers; all methods are for any thread."""

    def __init__(
        self,
        clock: Clock,
        targets: Mapping[str, Target],
        *,
        max_workers: int,
        observer: Observer,
        reports: Reports,
    ) -> None:
        self._clock = clock
        self._targets = targets
        self._max_workers = max_workers
        self._observer = observer
        self._reports = reports
        self._lock = threading.Lock()
        self._waiting: deque[Running] = deque()  # claimed, and not begun
        self._occupied = 0  # workers
        self._deadlines: dict[Running, float] = {}  # of calls
        self._alarm_at = inf
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = LoopThread("everwhen-targets")
        self._threads = CallExecutor(max_workers)
        self._is_async: dict[str, bool] = {}  # by kind of target
        self._not_begun: Counter[str] = Counter()  # how often the host let a job not begin
        self.stopping = StopFlag()  # nothing begins any more

    @property
    def waiting(self) -> set[Running]:
        """Return the jobs that have not begun."""
        with self._lock:
            return set(self._waiting)

    @property
    def earliest_begin_by(self) -> float:
        """Return when the first of the jobs that wait has to be given back."""
        with self._lock:
            return self._waiting[0].begin_by if self._waiting else inf

    def begin(self, batch: Sequence[Running], *, begin_by: float = inf) -> None:
        """Begin as many jobs as there are free workers; the others begin as workers become free, or are given back."""
        with self._lock:
            for running in batch:
                running.begin_by = begin_by
            self._waiting.extend(batch)
            next_ones = self._take_next()
        self._dispatch(next_ones)

    def give_back(self, now: float = inf) -> None:
        """Give back the jobs that should have begun by now, and have not."""
        with self._lock:
            late = [running for running in self._waiting if running.begin_by <= now]
            if late:
                self._waiting = deque(running for running in self._waiting if running.begin_by > now)
        for running in late:
            self._reports.returned(running, "ahead")

    def end(self, running: Running, ending: Ending) -> None:
        """End a run, unless it is over; one that has not begun never begins. The first reason counts."""
        with self._lock:
            if running in self._waiting:
                self._waiting.remove(running)
                has_begun = False
            elif running.ending is not None or running.has_returned:
                return
            elif running.task is not None:
                self._loop.call(running.end, ending)
                return
            else:
                running.ending = ending
                has_begun = running.is_call
                if has_begun:
                    self._deadlines.pop(running, None)
                    running.call_end = Future()
                    running.run.still_running.append(running.call_end)
                else:  # its task is about to begin, and is cancelled at once
                    running.run.cancelled.set()
                    return
        if has_begun:
            running.run.cancelled.set()
            self._conclude(running, running.outcome_of(NOT_ENDED))
        elif ending == "cancelled":
            self._reports.ended(running, CANCELLED)
        else:
            self._reports.returned(running, "ahead")

    def await_work(self, running: Running, then: Callable[[], None]) -> None:
        """Free the worker of a run that is over when the last of its remaining work has returned."""
        left = next((work for work in running.run.still_running if not work.done()), None)
        if left is not None:
            left.add_done_callback(lambda _left: self.await_work(running, then))
            return
        then()
        self._free_worker()

    def _free_worker(self) -> None:
        """Give the worker of a job that is over to the next one."""
        with self._lock:
            self._occupied -= 1
            next_ones = self._take_next()
        self._dispatch(next_ones)

    def close(self) -> None:
        """End the loop and close what the targets keep open on it; no job runs any more."""
        closers = [getattr(target, "close", None) for target in self._targets.values()]
        self._loop.finish([close for close in closers if close is not None])
        self._threads.close()
        with self._lock:
            self._alarm, self._alarm_at = None, inf  # it was of that loop

    def _take_next(self) -> list[Running]:
        """Give each free worker the next of the claimed jobs, and return these; the caller has the lock."""
        free = 0 if self.stopping.is_set() else self._max_workers - self._occupied
        next_ones = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
        self._occupied += len(next_ones)
        return next_ones

    def _dispatch(
        self, next_ones: Sequence[Running], *, keeps_one: bool = False
    ) -> tuple[Running, Call] | None:
        """Begin runs; `keeps_one`: return the first call, which the caller runs on its own thread."""
        kept: tuple[Running, Call] | None = None
        tasks: list[Running] = []
        for running in next_ones:
            running.begin(self._clock.now())
            for older in running.before:
                self.end(older, "superseded")
            found = self._call_of(running)
            if found is None or not self._watch(running):
                tasks.append(running)
                continue
            call, hand_over = found
            self._notify(self._observer.started, running.run)
            if keeps_one and kept is None:
                kept = running, call
            else:
                self._hand_over(running, call, hand_over)
        if tasks:
            self._hand_to_loop(tasks)
        return kept

    # -- calls --

    def _call_of(self, running: Running) -> tuple[Call, HandOver] | None:
        """Return the run as a call and who has threads for it; None when it is a task."""
        target = running.claimed.definition.target
        adapter = self._targets.get(target.kind)
        if adapter is None:
            return None
        if not self._has_async_run(target.kind, adapter):
            return partial(_call, partial(adapter.run, target.spec, running.run)), self._threads.hand_over
        call_of = getattr(adapter, "call_of", None)
        call = None if call_of is None else call_of(target.spec, running.run)
        return None if call is None else (call, adapter.hand_over)  # type: ignore[attr-defined]

    def _has_async_run(self, kind: str, adapter: Target) -> bool:
        if kind not in self._is_async:
            self._is_async[kind] = inspect.iscoroutinefunction(adapter.run)
        return self._is_async[kind]

    def _watch(self, running: Running) -> bool:
        """Have a call end at its deadline; return False when it was ended before it began."""
        with self._lock:
            if running.ending is not None:
                return False
            running.is_call = True
            if running.run.seconds_left is None:
                return True
            self._deadlines[running] = at = monotonic() + running.run.seconds_left
            if at >= self._alarm_at:
                return True
            self._alarm_at = at
        try:
            self._loop.call(self._sound_alarm)
        except (OSError, RuntimeError, MemoryError):
            self._alarm_at = inf  # the host lets no loop start: the next call sets the alarm
        return True

    def _sound_alarm(self) -> None:
        """End the calls that are past their deadline, and set the next alarm; on the event loop."""
        now = monotonic()
        with self._lock:
            late = [running for running, at in self._deadlines.items() if at <= now]
            later = [at for at in self._deadlines.values() if at > now]
            self._alarm_at = min(later, default=inf)
            if self._alarm is not None:
                self._alarm.cancel()
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self._alarm_at - now, self._sound_alarm) if later else None
        for running in late:
            self.end(running, "timed_out")

    def _hand_over(self, running: Running, call: Call, hand_over: HandOver) -> None:
        try:
            hand_over(partial(self._run_calls, running, call))
        except BaseException as error:
            fault = host_fault_of(error)  # no thread can be started
            if fault is None:
                raise
            with self._lock:
                self._deadlines.pop(running, None)
            self._conclude(running, not_begun(fault, error))
            self._free_worker()

    def _run_calls(self, running: Running, call: Call) -> None:
        """Run a call, and then further ones as long as claimed jobs wait; on a thread."""
        following: tuple[Running, Call] | None = running, call
        while following is not None:
            running, call = following
            following = self._end_call(running, call())

    def _end_call(self, running: Running, outcome: Outcome) -> tuple[Running, Call] | None:
        """Report the end of a call, unless it was left behind; return the next one."""
        with self._lock:
            is_left_behind = running.ending is not None
            running.has_returned = True
            self._deadlines.pop(running, None)
        if is_left_behind:
            assert running.call_end is not None
            running.call_end.set_result(None)
            return None
        if outcome.is_interrupted:
            outcome = outcome._replace(is_interrupted=self.stopping.is_set())
        self._conclude(running, outcome)
        with self._lock:
            self._occupied -= 1
            next_ones = self._take_next()
        return self._dispatch(next_ones, keeps_one=True)

    # -- tasks --

    def _hand_to_loop(self, tasks: Sequence[Running]) -> None:
        try:
            self._loop.call(self._begin_tasks, tasks)  # one hand-over for all of them
        except BaseException as error:
            with self._lock:
                self._occupied -= len(tasks)
            fault = host_fault_of(error)  # no thread can be started
            if fault is None:
                raise
            for running in tasks:
                self._reports.returned(running, fault)

    def _begin_tasks(self, batch: Sequence[Running]) -> None:
        loop = asyncio.get_running_loop()
        for running in batch:
            self._notify(self._observer.started, running.run)
            task = loop.create_task(self._work_of(running))
            task.add_done_callback(partial(self._finish_task, running))
            with self._lock:
                running.task = task
                is_ended = running.ending is not None
            if is_ended:
                task.cancel()
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
            return await cast("Awaitable[Outcome]", adapter.run(target.spec, running.run))
        except NotBegunError as error:
            return not_begun(error.fault, error)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return failed_by(error)

    def _finish_task(self, running: Running, _task: asyncio.Task[Outcome]) -> None:
        if running.timer is not None:
            running.timer.cancel()
        is_left_behind = running.is_left_behind
        self._conclude(running, running.outcome())
        if not is_left_behind:
            self._free_worker()

    # -- ends --

    def _conclude(self, running: Running, outcome: Outcome) -> None:
        """Report a run that is over; work of it may go on."""
        if outcome.host_fault is not None and self._may_try_again(running):
            self._reports.returned(running, outcome.host_fault)
        elif outcome.is_interrupted or outcome.status == "lost":
            self._reports.returned(running, "lost" if outcome.status == "lost" else "interrupted")
        elif running.ending == "abandoned":
            self._reports.abandoned(running)
        else:
            if running.is_left_behind:
                outcome = outcome._replace(is_still_running=True)
            if outcome.awaits is None:  # else it has not ended
                self._notify(self._observer.ended, running.run, outcome)
            self._reports.ended(running, outcome)
            return
        if running.is_left_behind:
            self.await_work(running, lambda: None)

    def _may_try_again(self, running: Running) -> bool:
        """Count a job that did not begin; False for one that meets such a fault however often the host has recovered:
        then the fault is its own."""
        with self._lock:
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


def _call(work: Callable[[], object]) -> Outcome:
    """Call a blocking target on its thread, and return an outcome whatever it raises."""
    try:
        outcome = work()
    except NotBegunError as error:
        return not_begun(error.fault, error)
    except BaseException as error:
        return failed_by(error)
    if isinstance(outcome, Outcome):
        return outcome
    return Outcome(
        "failed", error=f"the target returned {type(outcome).__name__}, not an outcome", is_final=True
    )
