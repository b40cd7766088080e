"""Start order, the two loops, and a stop that loses nothing (G1, G2, E7).

The scheduler loop and the worker loop are threads that sleep until they must act. A store that fails never
disarms them: they wait a little longer each time and try again.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from everwhen.decide.status import resume
from everwhen.engine.clock_watch import ClockWatch
from everwhen.engine.ticker import Ticker
from everwhen.engine.wake import Wake
from everwhen.engine.worker import Worker
from everwhen.errors import SchedulerShutdownError, StoreError
from everwhen.model.events import Event, EventType
from everwhen.ports.house import House
from everwhen.ports.observer import Observer
from everwhen.ports.target import Target
from everwhen.version import __version__

Status = Literal["stopped", "running", "stopping"]

LEASE = 30.0
OVERDUE = 60_000_000
LOOP_END = 10.0
ABANDON = 7.0  # a target has five seconds between SIGTERM and SIGKILL
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

log = logging.getLogger("everwhen")


class Service:
    """One node: a scheduler loop, a worker loop, and the heartbeat that keeps what they claimed."""

    def __init__(
        self,
        house: House,
        targets: Mapping[str, Target],
        *,
        check_interval: float = 1.0,
        max_workers: int = 8,
        lease: float = LEASE,
        changes: Callable[[], int] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.node = secrets.token_hex(8)
        self.status: Status = "stopped"
        self.started_at: int | None = None
        self._house = house
        self._targets = targets
        self._check_interval = check_interval
        self._lease = lease
        self._changes = changes
        self._scheduler_wake, self._worker_wake = Wake(), Wake()
        house.wake_scheduler = self._scheduler_wake.set
        house.wake_workers = self._worker_wake.set
        self.ticker = Ticker(house.slots, house.clock)
        self.worker = Worker(
            house.slots,
            house.clock,
            targets,
            node=self.node,
            max_workers=max_workers,
            wake=self._worker_wake,
            on_settled=self._scheduler_wake,
            observer=observer,
        )
        self._clock_watch, self._clock_lock = ClockWatch(house.clock), threading.Lock()
        self._rescues_from = 0.0
        self._started = 0.0
        self._loops: list[threading.Thread] = []
        self._stopped = threading.Event()  # no new firing, no new claim
        self._gone = threading.Event()  # and nothing left to keep alive

    # -- start and stop --

    def start(self) -> None:
        """Rescue what dead nodes left, then tick; catch-up is the loop's second lane."""
        self.node = self.worker.node = secrets.token_hex(8)  # a node is one start: its leases are its own
        self.status = "running"
        self.started_at = self._house.clock.now()
        self._started = self._house.clock.monotonic()
        self._stopped.clear()
        self._gone.clear()
        self._record("scheduler.started", {"last_heartbeat_at": self._house.slots.last_heartbeat_at()})
        self._beat()
        self._rescue()
        self._loops = [self._thread("scheduler", self._schedule), self._thread("worker", self._work)]
        self._janitor = self._thread("janitor", self._keep)

    def stop(self, *, wait_for_jobs: bool = True, timeout: float = 30.0) -> None:
        """No new firing; running jobs are awaited, and past the timeout ended."""
        if self.status == "stopped":
            return
        self.status = "stopping"
        self._stopped.set()
        self._scheduler_wake.set()
        self._worker_wake.set()
        # The loops end first, so that nothing is claimed behind the drain's back; the heartbeat goes on until
        # the last job has ended, so that nobody else takes them over.
        for loop in self._loops:
            loop.join(LOOP_END)
        left = self._drain(timeout if wait_for_jobs else 0.0)
        self.worker.close()
        self._gone.set()
        self._janitor.join(LOOP_END)
        self._record("scheduler.stopped", {"jobs_still_running": left})
        self._house.slots.farewell(self._house.clock.now(), node=self.node)
        self.status = "stopped"
        if left and wait_for_jobs:
            raise SchedulerShutdownError(
                f"Scheduler shutdown timed out after {timeout * 1_000:.0f}ms with {left} job(s) still running",
                timed_out=True,
                running_job_count=left,
            )

    def _drain(self, timeout: float) -> int:
        """Wait for running jobs; how many were still running when the time was over."""
        deadline = self._house.clock.monotonic() + timeout
        self.worker.settle()
        while self.worker.running_count and self._house.clock.monotonic() < deadline:
            self._worker_wake.wait(min(0.05, deadline - self._house.clock.monotonic()))
            self.worker.settle()
        left = self.worker.running_count
        if left:
            self.worker.abandon(ABANDON)
        return left

    def _thread(self, name: str, loop: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=loop, name=f"everwhen-{name}", daemon=True)
        thread.start()
        return thread

    def kill(self) -> None:
        """Told twice to stop: what still runs is ended at once."""
        for target in self._targets.values():
            kill = getattr(target, "kill", None)
            if kill is not None:
                kill()

    def unreadiness(self) -> str | None:
        """Why this node is not ready (G3); None when it is.

        A loop that has ended no evaluation for ten check intervals is stuck; a schedule that is overdue by more
        than a minute while nothing is being decided is left behind.
        """
        if self.status != "running":
            return f"the scheduler is {self.status}"
        clock, counts = self._house.clock, self.ticker.counts
        patience = 10 * self._check_interval
        if clock.monotonic() - max(counts.checked, self._started) > patience:
            return f"the loop has completed no evaluation for {patience:g}s"
        due_at = self._house.slots.next_wake_at()
        overdue = 0 if due_at is None else clock.now() - due_at
        if overdue > OVERDUE and clock.monotonic() - max(counts.advanced, self._started) > patience:
            return f"a schedule is overdue by {overdue // 1_000_000}s and nothing is being decided"
        return None

    # -- loops --

    def _schedule(self) -> None:
        self._loop("schedule check", self._schedule_once, self._stopped)

    def _schedule_once(self) -> None:
        self._watch_clock()
        more = self.ticker.step()
        self._worker_wake.set()
        if not more and not self._stopped.is_set():
            self._sleep(self._scheduler_wake, self.ticker.seconds_to_next(self._check_interval))

    def _work(self) -> None:
        self._loop("job claim", self._work_once, self._stopped)

    def _work_once(self) -> None:
        if self.worker.running_count:
            self.worker.cancel(self._house.slots.cancel_requests(self.node))
        if not self.worker.step() and not self._stopped.is_set():
            self._sleep(self._worker_wake, self.worker.seconds_to_next(self._check_interval))

    def _keep(self) -> None:
        self._loop("heartbeat", self._keep_once, self._gone)

    def _keep_once(self) -> None:
        self._gone.wait(self._lease / 3)
        if not self._gone.is_set():
            self._watch_clock()
            self._beat()
            self._rescue()
            self._resume()

    def _loop(self, what: str, once: Callable[[], None], ended: threading.Event) -> None:
        pause = FIRST_PAUSE
        while not ended.is_set():
            try:
                once()
                pause = FIRST_PAUSE
            except StoreError as error:
                log.error("Error during %s: %s", what, error)
                ended.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            except Exception as error:  # the loop's top: it never disarms
                log.exception("Error during %s: %s", what, error)
                ended.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _sleep(self, wake: Wake, seconds: float) -> None:
        """Sleep in short pieces only where another process may have changed the file."""
        if self._changes is None:
            wake.wait(seconds)
            return
        before = self._changes()
        left = seconds
        while left > 0 and not wake.wait(min(left, 0.1)):
            left -= 0.1
            if self._changes() != before:
                return

    def _beat(self) -> None:
        now = self._house.clock.now()
        self._house.slots.heartbeat(now, node=self.node, version=__version__, is_scheduler=True)
        self.worker.cancel(self._house.slots.cancel_requests(self.node))

    def _watch_clock(self) -> None:
        """After a step of the clock leases of others mean nothing for one whole lease (E9, R8)."""
        with self._clock_lock:  # both loops look, and one of them sees it first
            step = self._clock_watch.look()
            if step is not None:
                self._rescues_from = self._house.clock.monotonic() + self._lease
        if step is not None:
            detail = {"seconds": step.seconds, "from": step.from_at, "to": step.to_at}
            self._record("scheduler.clock_stepped", detail)
            self._beat()

    def _record(self, kind: EventType, detail: Mapping[str, object]) -> None:
        about = {"node": self.node, "version": __version__, **detail}
        self._house.slots.record([Event(kind, self._house.clock.now(), detail=about)])

    def _resume(self) -> None:
        """Pauses with an end (`until`) end by themselves."""
        for schedule_id in self._house.catalogue.due_to_resume(self._house.clock.now()):
            now = self._house.clock.now()
            self._house.catalogue.change(now, schedule_id, partial(resume, by="until"))
            self._scheduler_wake.set()

    def _rescue(self) -> None:
        if self._house.clock.monotonic() < self._rescues_from:
            return
        lease = int(self._lease * 1_000_000)
        if self._house.slots.rescue(self._house.clock.now(), node=self.node, lease=lease):
            self._worker_wake.set()
