"""The life cycle of a node: its start order, its loops, and a stop that loses nothing.

A node schedules, works, or does both; each is a loop on its own thread, next to the heartbeat that renews the lease
of the claimed jobs, and the janitor. Their own modules define what they do; this module defines when they begin and
end. When a queue delivers the jobs, a dispatcher replaces the worker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from everwhen.engine.chain import ChainWatch
from everwhen.engine.delivery import Deliveries
from everwhen.engine.dispatcher import Dispatcher
from everwhen.engine.janitor import Janitor
from everwhen.engine.lease import LEASE, Greet, Greeting, Lease
from everwhen.engine.loop import Loop, Wake, WakeableSleep
from everwhen.engine.notifier import Notifier
from everwhen.engine.slow_runs import SlowWatch
from everwhen.engine.ticker import Ticker, end_pauses
from everwhen.engine.watches import (
    ClockStep,
    ClockWatch,
    CutOffWatch,
    Downtime,
    ExpectWatch,
    FeedWatch,
    OverdueWatch,
    SkewWatch,
    StallWatch,
)
from everwhen.engine.webhooks import WebhookSender
from everwhen.engine.worker import Worker
from everwhen.errors import QueueError, SchedulerShutdownError, StoreError
from everwhen.model.changes import Decision
from everwhen.model.events import Event, EventType
from everwhen.model.instants import SECOND
from everwhen.model.message import Subscriber
from everwhen.model.node import Role, WhenCutOff
from everwhen.model.retention import Retention
from everwhen.model.token import APPROVAL_TTL
from everwhen.operations.requests import execute_requests
from everwhen.operations.system import describe_fault
from everwhen.runtime import Changes, Runtime
from everwhen.store.opened import store_of
from everwhen.target import Observer, Target
from everwhen.version import __version__

Status = Literal["stopped", "running", "stopping"]

OVERDUE = 60_000_000
STUCK = 180.0  # seconds; a database that hangs fails a step after 75
LOOP_END, SHORTEST_END = 10.0, 1.0
ASK_FOR_CANCELS = 0.05
KILL_PATIENCE = 3.0
ABANDON = 7.0  # a target has five seconds between SIGTERM and SIGKILL

log = logging.getLogger("everwhen")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How a node behaves. The role `up` is both: a scheduler loop and a worker loop."""

    role: Role = "up"
    queues: Sequence[str] | None = None  # whose jobs it claims; None: all
    check_interval: float = 1.0
    max_workers: int = 8
    max_workers_per_owner: int | None = None  # one less than max_workers
    lease: float = LEASE
    retention: Retention = field(default_factory=Retention)
    approval_ttl: float = APPROVAL_TTL
    name: str = ""  # of the service, in the names of its nodes
    when_cut_off: WhenCutOff = "continue"
    observer: Observer | None = None
    on_beat: Callable[[], object] | None = None  # called after each heartbeat
    on_decided: Callable[[Sequence[Decision]], None] | None = None


def _tell_nobody(_reason: str | None) -> None:
    return None


class Service:
    """One node, in one role."""

    status: Status = "stopped"
    started_at: int | None = None
    _started = _asked_for_cancels = 0.0
    _keeper: Loop | None = None
    _greeter: Loop | None = None
    _downtime: Downtime | None = None  # until it is logged
    _has_left = False  # after the second request to stop: everything that can be recorded is

    def __init__(
        self,
        runtime: Runtime,
        targets: Mapping[str, Target],
        options: ServiceOptions | None = None,
        *,
        changes: Changes | None = None,
        deliveries: Deliveries | None = None,
        heal: Callable[[], object] | None = None,
        tidy: Callable[[], object] | None = None,
        dispatcher: Dispatcher | None = None,
        chain_watch: ChainWatch | None = None,
        greet: Greet | None = None,
        notifier: Notifier | None = None,
        webhooks: WebhookSender | None = None,
    ) -> None:
        """Build the node. `heal` reactivates schedules that could not run, and can now.

        `chain_watch` watches over schedules that continue by themselves. `tidy` is called by the janitor, in addition
        to retention.
        """
        self.options = options = options or ServiceOptions()
        self._store = store = store_of(runtime)
        self._targets, self._deliveries, self._dispatcher = targets, deliveries, dispatcher
        self._chain_watch, self._heal, self._tidy, self._notifier = chain_watch, heal, tidy, notifier
        self._scheduler_wake, self._worker_wake, self._request_wake = Wake(), Wake(), Wake()
        self._scheduler_sleep = WakeableSleep(self._scheduler_wake, changes)
        self._worker_sleep = WakeableSleep(self._worker_wake, changes)
        runtime.wake_scheduler = self._scheduler_wake.set
        runtime.wake_requests = self._request_wake.set
        runtime.wake_workers = self._worker_wake.set if chain_watch is None else self._scheduler_wake.set
        self.lease = Lease(runtime, role=options.role, seconds=options.lease, service=options.name)
        self.worker = self._new_worker()
        self.ticker = Ticker(
            store.slots,
            store.clock,
            on_decided=options.on_decided,
            workers=self.worker if self.is_worker else None,
        )
        self._webhooks = webhooks
        if notifier is not None:
            notifier.node = lambda: self.node
        if webhooks is not None:
            webhooks.node = lambda: self.node
        self._greeting = Greeting(
            self.lease, self.worker, greet, when_cut_off=options.when_cut_off, is_alive=self._has_its_loops
        )
        self._clock_watch, self._clock_lock = ClockWatch(store.clock), threading.Lock()
        self._skew_watch, self._overdue_watch = SkewWatch(), OverdueWatch(runtime)
        self._expect_watch = ExpectWatch(runtime, lease=int(options.lease * SECOND))
        self._slow_watch = SlowWatch(runtime)
        self._feed_watch = FeedWatch(runtime)
        self._stall_watch = StallWatch(store.clock, self._record)
        self._cut_off_watch = CutOffWatch(notifier.tell_alone if notifier is not None else _tell_nobody)
        self._steps: list[ClockStep] = []  # of the clock, noticed and not recorded yet
        self._loops: list[Loop] = []
        self._stopped = threading.Event()  # fires and claims nothing more
        self._gone = threading.Event()  # and has nothing left to keep alive
        self._janitor = self._new_janitor()

    @property
    def node(self) -> str:
        return self.lease.node

    @property
    def is_scheduler(self) -> bool:
        return self.options.role != "worker"

    @property
    def is_worker(self) -> bool:
        return self.options.role != "scheduler"

    # -- start and stop --

    def start(self, reconcile: Callable[[], object] | None = None) -> None:
        """Rescue jobs of dead nodes, reconcile declared schedules, then tick; catch-up is the loop's second lane."""
        self.prepare(reconcile)
        self.begin()

    def prepare(self, reconcile: Callable[[], object] | None = None) -> None:
        """Do everything before the first tick; the caller can then open the services that jobs call.

        When reconciling raises, the node is gone again as after a clean stop.
        """
        self._stopped.clear()
        self._gone.clear()
        self._has_left = False
        self._loops = []
        self._enter()
        try:
            self.lease.rescue(self.watch_clock())
            self._begin_to_watch()
            if reconcile is not None:
                reconcile()
            has_others_work = self._dispatcher is not None or self._chain_watch is not None
            if self._heal is not None and (self.is_worker or has_others_work):
                self._heal()
            if self._deliveries is not None and self.is_scheduler:
                self._deliveries.start(self.node)
            if self._notifier is not None and self.is_scheduler:
                self._notifier.begin()  # again: pings are declared by now
        except BaseException:
            self._leave(0)
            raise

    def _begin_to_watch(self) -> None:
        """Create the cursors of subscribers and of the notifier before anything is declared: another scheduler may
        fire it at once."""
        if self._deliveries is not None and self.is_scheduler:
            self._deliveries.subscribe()
        if self._notifier is not None and self.is_scheduler:
            self._notifier.begin()

    def begin(self) -> None:
        """Start to decide slots and run jobs; return at once."""
        self._loops = list(self._new_loops())
        for loop in self._loops:
            loop.start()

    def stop(self, *, wait_for_jobs: bool = True, timeout: float = 30.0) -> None:
        """Fire nothing more, wait for running jobs, end them after the timeout, whether the database answers or not."""
        if self.status == "stopped":
            return
        patience = timeout if wait_for_jobs and not self._has_left else 0.0
        deadline = self._store.clock.monotonic() + patience
        self.prepare_to_stop()
        # The loops end first, so that nothing is claimed during the drain; the heartbeat continues until the last job
        # has ended, so that no other node takes the jobs over.
        loops_until = self._store.clock.monotonic() + min(max(patience, SHORTEST_END), LOOP_END)
        for loop in self._loops:
            loop.join(max(loops_until - self._store.clock.monotonic(), 0.0))
        left = 0
        try:
            left = self._end_jobs(deadline)
        finally:
            if self._deliveries is not None:
                self._deliveries.stop()
            self._release_notifier()
            if self._dispatcher is not None:
                self._dispatcher.close()
            self.worker.close()
            self._leave(left)
        if left and wait_for_jobs:
            raise SchedulerShutdownError(
                f"Scheduler shutdown timed out after {timeout * 1_000:.0f}ms with {left} job(s) still running",
                timed_out=True,
                running_job_count=left,
            )

    def _release_notifier(self) -> None:
        if not self.is_scheduler:
            return
        for one in (self._notifier, self._webhooks):
            try:
                if one is not None:
                    one.release()
            except StoreError as error:  # its hold expires by itself
                log.error("the cursor of %s is not given up: %s", type(one).__name__, error)

    def prepare_to_stop(self) -> None:
        """Fire and claim nothing more, from this moment on; from any thread, before `stop`."""
        if self.status == "stopped":
            return
        self.status = "stopping"
        self.worker.prepare_to_stop()
        self._stopped.set()
        self._scheduler_wake.set()
        self._worker_wake.set()
        self._request_wake.set()
        if self._notifier is not None:
            self._notifier.wake.set()
        if self._webhooks is not None:
            self._webhooks.wake.set()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Deliver messages to one more subscriber, if this node delivers any."""
        if self._deliveries is not None:
            self._deliveries.add(subscriber)

    def kill(self) -> None:
        """End the running jobs at once and give them back, after a second request to stop; from any thread.

        This does not wait for a database that does not answer: then the lease expires by itself.
        """
        self.prepare_to_stop()
        for target in self._targets.values():
            kill = getattr(target, "kill", None)
            if kill is not None:
                kill()
        if self.status == "stopped":
            return
        self._gone.set()
        leaving = threading.Thread(target=self._leave_at_once, name="everwhen-leave", daemon=True)
        leaving.start()
        leaving.join(KILL_PATIENCE)
        self._has_left = True

    def _leave_at_once(self) -> None:
        left = self.worker.unsettled_count
        try:
            self.worker.leave_at_once()
            self._sign_off(left)
        except StoreError as error:
            log.error("what was running is not given back, its lease runs out by itself: %s", error)

    def _enter(self) -> None:
        self.status = "running"
        self.started_at = self._store.clock.now()
        self._started = self._store.clock.monotonic()
        self._clock_watch = ClockWatch(self._store.clock)  # from here on no step goes unnoticed
        last_heartbeat_at = self._store.slots.last_heartbeat_at()
        self._downtime = Downtime(self._store, last_heartbeat_at) if self.is_scheduler else None
        if self.is_scheduler:
            self._expect_watch.step(
                self.node
            )  # before its own first heartbeat, and before anybody changes schedules
        step = self.lease.begin()
        self.ticker.alive_since = self.lease.began_at
        self.worker.begin(self.node)
        self._janitor = self._new_janitor()
        if self.is_scheduler:
            self._record("scheduler.started", {"last_heartbeat_at": last_heartbeat_at})
        self._steps = [] if step is None else [step]
        self._keeper = Loop("lease", "heartbeat", self._keep_once, self._gone)
        self._keeper.start()
        if self.is_worker:
            self._greeter = self._greeting.start(self._gone)

    def _has_its_loops(self) -> bool:
        """Return whether all expected loops are alive: a stopping node has only its heartbeat left."""
        loops = [] if self._stopped.is_set() else self._loops
        return self._keeper is not None and all(loop.is_alive for loop in (self._keeper, *loops))

    def _leave(self, left: int) -> None:
        self._stopped.set()
        self._gone.set()
        if self._keeper is not None:
            self._keeper.join(SHORTEST_END if self._has_left else LOOP_END)
        if self._greeter is not None:
            self._greeter.join(SHORTEST_END)
        try:
            if not self._has_left:
                self._sign_off(left)
        except StoreError as error:  # the lease expires by itself
            log.error("the sign-off is not on record: %s", error)
        self.status = "stopped"

    def _sign_off(self, left: int) -> None:
        if self.is_scheduler:
            self._record("scheduler.stopped", {"jobs_still_running": left})
        self.worker.sign_off()
        self.lease.give_up()

    def _end_jobs(self, deadline: float) -> int:
        """Wait for running jobs; return how many were still running after the deadline, and were ended."""
        left = 0
        try:
            left = self.worker.drain(max(deadline - self._store.clock.monotonic(), 0.0))
        finally:
            self.worker.abandon(ABANDON)
        return left

    # -- readiness --

    def unreadiness(self) -> str | None:
        """Return why this node is not ready; None when it is."""
        if self.status != "running":
            return f"the {'scheduler' if self.is_scheduler else 'worker'} is {self.status}"
        try:
            broker = self._dispatcher or self._chain_watch
            reason = self._stall() if self.is_scheduler else self._staleness()
            if reason is None and broker is not None:
                broker.ping()  # it has to answer, also when there is nothing to hand over
            unfit = self.worker.fitness.unfit if self.is_worker else None
            return str(unfit) if reason is None and unfit is not None else reason
        except (StoreError, QueueError) as error:
            return describe_fault(error)

    def is_stuck(self) -> bool:
        """Return whether a loop has ended or does not end a step, which nothing but a restart cures.

        Steps that fail are none: the loop tries again when the database is back.
        """
        if self.status != "running" or not self._loops:
            return False
        patience = STUCK + self.options.check_interval
        return not self._has_its_loops() or time.monotonic() - self._loops[0].stepped > patience

    def _stall(self) -> str | None:
        """Return why the scheduler stalls; None when it does not.

        A loop that has completed no evaluation for ten check intervals is stuck. A schedule that is overdue by more
        than a minute while nothing is being decided is left behind.
        """
        clock, counts = self._store.clock, self.ticker.counts
        patience = 10 * self.options.check_interval
        if clock.monotonic() - max(counts.checked, self._started) > patience:
            return f"the loop has completed no evaluation for {patience:g}s{self._cause()}"
        due_at = self._store.slots.next_wake_at()
        overdue = 0 if due_at is None else clock.now() - due_at
        if overdue > OVERDUE and clock.monotonic() - max(counts.advanced, self._started) > patience:
            return f"a schedule is overdue by {overdue // 1_000_000}s and nothing is being decided{self._cause()}"
        # A loop that has nothing to write does not notice a database that cannot be written; the heartbeat does.
        return self._old_heartbeat() if self._cause() else None

    def _why_stalled(self) -> str | None:
        if self._stopped.is_set():
            return None
        try:
            return self._stall()
        except StoreError as error:
            return describe_fault(error)

    def _staleness(self) -> str | None:
        """Return why a worker is not ready: with a heartbeat older than its lease, other nodes may take its jobs."""
        reason = self._old_heartbeat()  # first: a database that does not answer blocks the caller
        if reason is None:
            self._store.slots.next_ready_at()  # whether the database answers
        return reason

    def _old_heartbeat(self) -> str | None:
        text = (
            f"the last heartbeat is {self.lease.age:.0f}s old: other nodes may take its jobs{self._cause()}"
        )
        return None if self.lease.is_fresh else text

    def _cause(self) -> str:
        """Describe the error that fails a loop, without hosts and files; empty when no loop fails."""
        loops = self._loops if self._keeper is None else [*self._loops, self._keeper]
        error = next((loop.error for loop in loops if loop.error is not None), None)
        return "" if error is None else f" ({describe_fault(error)})"

    # -- loops --

    def _new_loops(self) -> Sequence[Loop]:
        loops: list[Loop] = []
        if self.is_scheduler:
            step = self._schedule_once if self._chain_watch is None else self._watch_once
            loops.append(Loop("scheduler", "schedule check", step, self._stopped))
            loops.append(Loop("janitor", "retention", self._janitor.step, self._stopped))
            if self._store.requests.is_supported:
                loops.append(Loop("requests", "requests", self._execute_requests_once, self._stopped))
            if self._notifier is not None:
                loops.append(Loop("notifier", "notification", self._notifier.serve, self._stopped))
            if self._webhooks is not None:
                loops.append(Loop("webhooks", "webhook delivery", self._webhooks.serve, self._stopped))
        if self.is_worker:
            loops.append(Loop("worker", "job claim", self._work_once, self._stopped))
        elif self._dispatcher is not None:
            loops.append(Loop("dispatcher", "hand-over", self._dispatch_once, self._stopped))
        return loops

    def _new_worker(self) -> Worker:
        return Worker(
            self._store.slots,
            self._store.clock,
            self._targets,
            node=self.node,
            queues=self.options.queues,
            max_workers=self.options.max_workers,
            max_workers_per_owner=self.options.max_workers_per_owner,
            wake=self._worker_wake,
            on_settled=self._scheduler_wake,
            observer=self.options.observer,
        )

    def _new_janitor(self) -> Janitor:
        upkeep, clock = self._store.upkeep, self._store.clock
        return Janitor(upkeep, clock, self.options.retention, self._stopped, tidy=self._tidy)

    def _schedule_once(self) -> None:
        self._scheduler_sleep.begin()
        self.watch_clock()
        end_pauses(self._store)
        advanced = self.ticker.counts.advanced
        more = self.ticker.step(self._stopped.is_set)
        if self.ticker.left_to_workers:
            self._worker_wake.set()
        if self._deliveries is not None and self.ticker.counts.advanced != advanced:
            self._deliveries.wake()
        if not more and self._downtime is not None:
            self._downtime.tell(self.node)
            self._downtime = None
        if not more and not self._stopped.is_set():
            self._scheduler_sleep.sleep(self.ticker.seconds_to_next(self.options.check_interval))

    def _watch_once(self) -> None:
        """Replace a tick: the links decide the slots, in whichever process they run."""
        assert self._chain_watch is not None
        self._scheduler_sleep.begin()
        self.watch_clock()
        self._chain_watch.step()
        self.ticker.note_check()
        if self._deliveries is not None:
            self._deliveries.wake()
        if not self._stopped.is_set():
            self._scheduler_sleep.sleep(self.options.check_interval)

    def _execute_requests_once(self) -> None:
        """Execute the requests of programs; on a separate thread, because a change may wait for a locked row."""
        executed = execute_requests(self._store, self._stopped.is_set)
        if not executed and not self._stopped.is_set():
            self._request_wake.wait(self.options.check_interval)

    def _work_once(self) -> None:
        self._worker_sleep.begin()
        if not self.lease.is_fresh:  # else other nodes would take its jobs as soon as it claims them
            self.lease.beat(self.watch_clock())
        is_busy, now = self.worker.step(), self._store.clock.monotonic()
        # Cancel requests are passed on before every sleep; a worker that never sleeps looks a few times a second.
        if not is_busy or now - self._asked_for_cancels > ASK_FOR_CANCELS:
            self._asked_for_cancels = now
            self.worker.cancel()
        if not is_busy and not self._stopped.is_set():
            self._worker_sleep.sleep(self.worker.seconds_to_next(self.options.check_interval))

    def _dispatch_once(self) -> None:
        assert self._dispatcher is not None
        self._worker_sleep.begin()
        self.worker.end_overdue()  # of jobs whose outcome is reported, whichever node began them
        if not self._dispatcher.step() and not self._stopped.is_set():
            self._worker_sleep.sleep(self._dispatcher.seconds_to_next(self.options.check_interval))

    def _keep_once(self) -> None:
        if self._gone.wait(self.lease.beat_every):
            return
        if self.is_scheduler:
            reason = self._why_stalled()
            self._stall_watch.look(reason)
            self._cut_off_watch.look(reason, is_cut_off=not self.lease.is_fresh)
        now = self.watch_clock()
        if self.is_scheduler:
            self._expect_watch.step(self.node)
        self.lease.beat(now)
        self._stall_watch.tell()
        if self.is_scheduler and self._chain_watch is None:
            self._overdue_watch.step(self.node)
            self._slow_watch.step(self.node)
        if self.is_scheduler:
            self._feed_watch.step(self.node)
        self._skew_watch.look(self._store.clock_skew())
        self.worker.cancel()
        if self.lease.rescue(now):
            self._worker_wake.set()
            if self._chain_watch is not None:
                self._scheduler_wake.set()
        if self.is_worker and not self._stopped.is_set():
            self.worker.look_for_orphans()
        if self.options.on_beat is not None and not self._stopped.is_set():
            self.options.on_beat()

    # -- clock --

    def watch_clock(self) -> int:
        """Check whether the clock was set since the last check, and act on it; return the instant of the check.

        A step is kept until it is recorded: if it were lost with a failing database, the skipped slots would be
        recorded as late, without an explanation.
        """
        with self._clock_lock:  # two loops check, and neither continues before the step is recorded
            step, now = self._clock_watch.look(), self._clock_watch.now
            if step is not None:
                self._steps.append(step)
                self.lease.distrust_clocks()
                self._janitor.distrust_clocks()
            if self._steps:
                self._record_steps()
                self.lease.beat(now)
        return now

    def _record_steps(self) -> None:
        """Record the steps, by schedulers only: a worker decides no slots."""
        while self._steps:
            step = self._steps[0]
            if self.is_scheduler:
                self._expect_watch.skip(step.from_at, step.to_at)
                self._record("scheduler.clock_stepped", step.detail)
            log.warning("the clock was set by %+.0f s", step.seconds)
            del self._steps[0]

    def _record(self, kind: EventType, detail: Mapping[str, object]) -> None:
        about = {"node": self.node, "version": __version__, **detail}
        self._store.slots.record([Event(kind, self._store.clock.now(), detail=about)])
