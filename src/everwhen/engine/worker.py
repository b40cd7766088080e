"""Claimed jobs, run side by side and settled together.

A job belongs to the node that claimed it, by lease and fencing token; what it reports counts only while both
still hold. Threads run targets; the claims and the settlements of many jobs share one transaction each.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from everwhen.engine.crew import Crew
from everwhen.engine.wake import Wake
from everwhen.model.claim import ClaimedJob
from everwhen.model.outcome import Outcome
from everwhen.ports.clock import Clock
from everwhen.ports.observer import Nobody, Observer
from everwhen.ports.slots import JobEnd, Slots
from everwhen.ports.target import Run, Target

SETTLED_AT_ONCE = 500

log = logging.getLogger("everwhen")


@dataclass(slots=True)
class Running:
    """A job that this node runs now."""

    claimed: ClaimedJob
    run: Run
    ended: threading.Event = field(default_factory=threading.Event)


class Worker:
    """Runs jobs of one node, at most `max_workers` at a time."""

    def __init__(
        self,
        slots: Slots,
        clock: Clock,
        targets: Mapping[str, Target],
        *,
        node: str,
        max_workers: int = 8,
        wake: Wake | None = None,
        on_settled: Wake | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._targets = targets
        self.node = node
        self._max_workers = max_workers
        self._wake = wake or Wake()
        self._on_settled = on_settled
        self._observer = observer or Nobody()
        self._ended: queue.SimpleQueue[JobEnd] = queue.SimpleQueue()
        self._running: dict[str, Running] = {}
        self._lock = threading.Lock()
        self._crew = Crew(max_workers)

    @property
    def running_count(self) -> int:
        return len(self._running)

    def step(self) -> bool:
        """Settle what has ended, then take what is ready; True when something was done."""
        settled = self.settle()
        room = self._max_workers - len(self._running)
        claimed = self._slots.claim_jobs(self._clock.now(), node=self.node, limit=room) if room > 0 else []
        for job in claimed:
            self._start(job)
        return bool(settled or claimed)

    def settle(self) -> int:
        ends: list[JobEnd] = []
        while len(ends) < SETTLED_AT_ONCE:
            try:
                ends.append(self._ended.get_nowait())
            except queue.Empty:
                break
        if not ends:
            return 0
        self._slots.settle(self._clock.now(), ends)
        with self._lock:
            for end in ends:
                self._running.pop(end.job_id, None)
        if self._on_settled is not None:
            self._on_settled.set()
        return len(ends)

    def seconds_to_next(self, at_most: float) -> float:
        ready_at = self._slots.next_ready_at()
        if ready_at is None or len(self._running) >= self._max_workers:
            return at_most
        return min(max((ready_at - self._clock.now()) / 1_000_000, 0.01), at_most)

    def cancel(self, job_ids: list[str] | None = None) -> None:
        """Tell running jobs to stop: those that were cancelled, or all."""
        for job_id, running in list(self._running.items()):
            if job_ids is None or job_id in job_ids:
                running.run.cancelled.set()

    def abandon(self, seconds: float) -> None:
        """End what runs without settling it: the lease is given up, and another node runs it again."""
        self.cancel()
        deadline = self._clock.monotonic() + seconds
        for running in list(self._running.values()):
            running.ended.wait(max(deadline - self._clock.monotonic(), 0.0))

    def _start(self, claimed: ClaimedJob) -> None:
        running = Running(claimed, _run_of(claimed))
        with self._lock:
            self._running[claimed.job.job_id] = running
        self._crew.hand_over(lambda: self._execute(running))

    def _execute(self, running: Running) -> None:
        job = running.claimed.job
        self._tell(lambda: self._observer.started(running.run))
        outcome = self._outcome_of(running)
        self._tell(lambda: self._observer.ended(running.run, outcome))
        self._ended.put(JobEnd(job.job_id, job.fence, outcome))
        running.ended.set()
        self._wake.set()

    def _tell(self, tell: Callable[[], None]) -> None:
        """An observer only watches: one that fails (a closed terminal) must not cost a worker its place."""
        try:
            tell()
        except Exception:
            log.warning("an observer failed", exc_info=True)

    def _outcome_of(self, running: Running) -> Outcome:
        target = running.claimed.definition.target
        try:
            adapter = self._targets.get(target.kind)
            if adapter is None:
                return Outcome(
                    "failed", error=f'no target of kind "{target.kind}" on this node', is_final=True
                )
            return adapter.run(target.spec, running.run)
        except Exception:  # the worker boundary: whatever a target does, it is an outcome
            return Outcome("failed", error=traceback.format_exc(limit=5))


def _run_of(claimed: ClaimedJob) -> Run:
    job, definition = claimed.job, claimed.definition
    seconds = None if definition.timeout is None else definition.timeout / 1_000_000
    return Run(
        job_id=job.job_id,
        schedule_id=job.schedule_id,
        schedule_name=claimed.schedule_name or job.schedule_id,
        slot_at=job.slot_at,
        attempt=job.attempt,
        origin=job.origin,
        repeat_number=claimed.repeat_number,
        payload=json.loads(job.payload or definition.payload),
        deadline_at=job.deadline_at,
        seconds_left=seconds,
    )
