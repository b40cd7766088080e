"""The job runner: runs jobs that a queue delivered, one after another, in a process that belongs to the queue.

RQ and Celery start processes, pass them a message, and end them at will. The message contains the name of a job; the
job itself, its order and its outcome stay in the database. So a job runner is a node like any other while it has a
job: it draws an id, holds a lease, sends heartbeats, looks for cancel requests, and settles under the fence of its
claim. The only difference is that it selects no job itself: the caller passes in the claim.

*Who may do what.* As for every node (`engine.lease`): a job belongs to its runner while the lease lasts.

*When it dies* (kill -9, a lost machine) it leaves no notice; its lease expires, and a scheduler rescues the job. When
it has to end early (an exception out of the block: the queue's own time limit, a cold stop) it ends its job and gives
up its lease, so that the job is rescued at once.

*When the database is unreachable* at the end of a job, the job runner stays and retries: the outcome exists nowhere
else.

*Nodes do not accumulate.* A process that lives for one job leaves no row behind, unless a job is still recorded as
its own: the rescue needs the row to find that job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from everwhen.engine.lease import LEASE, Greet, Greeting, Lease
from everwhen.engine.loop import FIRST_PAUSE, LONGEST_PAUSE, Loop, Wake
from everwhen.engine.worker import Worker
from everwhen.errors import StoreError
from everwhen.model.claim import ClaimedJob
from everwhen.model.node import WhenCutOff
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.target import Observer, Target

LOOK_FOR_CANCELS = 0.5
LOOK_AGAIN = 1.0
UNFIT_FOR = 45.0
ABANDON = 7.0  # a target has five seconds between SIGTERM and SIGKILL
LOOP_END = 10.0

Claim = Callable[[str], ClaimedJob | None]  # for a node id

log = logging.getLogger("everwhen")


class JobRunner:
    """A node for as long as its `with` block lasts; entering it again makes another node."""

    def __init__(
        self,
        runtime: Runtime,
        targets: Mapping[str, Target],
        *,
        lease: float = LEASE,
        observer: Observer | None = None,
        name: str = "",
        greet: Greet | None = None,
        when_cut_off: WhenCutOff = "continue",
    ) -> None:
        self._wake = Wake()
        self._clock = runtime.clock
        self.lease = Lease(runtime, role="worker", seconds=lease, service=name)
        self._worker = Worker(
            store_of(runtime).slots,
            runtime.clock,
            targets,
            node=self.node,
            max_workers=1,
            wake=self._wake,
            observer=observer,
        )
        self._greeting = Greeting(self.lease, self._worker, greet, when_cut_off=when_cut_off)
        self._gone = threading.Event()
        self._loops: list[Loop] = []
        self._is_sure = True  # that every job claimed here also runs here

    @property
    def node(self) -> str:
        return self.lease.node

    def __enter__(self) -> Self:
        self.lease.begin()  # before any claim: a job is found through the row of its node
        self._worker.begin(self.node)
        self._is_sure = True
        self._gone.clear()
        keeper = Loop("job-runner", "heartbeat", self._keep_once, self._gone)
        keeper.start()
        self._loops = [keeper, self._greeting.start(self._gone)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self._worker.abandon(ABANDON)
        finally:
            self._worker.close()
            self._leave()

    def run(self, claim: Claim) -> bool:
        """Run the claimed job until it is settled; return False when there was nothing to claim.

        When work of a job continues after its end, this waits until that work has returned.
        """
        if not self._begun(claim):
            return False
        pause = FIRST_PAUSE
        while self._worker.running_count:
            self._wake.wait(LOOK_AGAIN)
            try:
                self._worker.settle()
                pause = FIRST_PAUSE
            except StoreError as error:
                log.error("Error during settlement: %s", error)
                self._gone.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        self._await_fitness()
        return True

    def _await_fitness(self) -> None:
        """Keep the queue from giving this process another message while the host lets it begin no job.

        Not for longer than the queue grants a job beyond its own timeout.
        """
        fitness, clock = self._worker.fitness, self._clock
        until = clock.monotonic() + UNFIT_FOR
        while fitness.unfit is not None and clock.monotonic() < until:
            fitness.step(0)
            self._gone.wait(fitness.seconds_to_next(LOOK_AGAIN))

    def _begun(self, claim: Claim) -> bool:
        """Claim and begin a job. When that fails, put it back without counting a rescue: the claim may be committed."""
        try:
            claimed = claim(self.node)
            if claimed is not None:
                self._worker.take([claimed])
        except BaseException:
            self._is_sure = False
            self._worker.look_for_orphans()
            try:
                self._worker.put_orphans_back()
            except StoreError as error:  # the lease is given up, or expires
                log.warning("what was claimed and never began is left to the others: %s", error)
            raise
        return claimed is not None

    def _leave(self) -> None:
        self._gone.set()
        for loop in self._loops:
            loop.join(LOOP_END)
        try:
            # A commit without an answer may still arrive: then the row has to exist.
            self.lease.give_up(is_passing=self._is_sure)
        except StoreError as error:  # the lease expires by itself
            log.error("the sign-off is not on record: %s", error)

    def _keep_once(self) -> None:
        due = max(self.lease.beat_every - self.lease.age, 0.0)
        if self._gone.wait(min(due, LOOK_FOR_CANCELS)):
            return
        if due <= LOOK_FOR_CANCELS:
            self.lease.beat()
        self._worker.cancel()
