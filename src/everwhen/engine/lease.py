"""The lease: which node may claim that a job is still being run, and which may take the job over.

A **node** is one start of one process, with a random id: a restarted process is another node, and is never mistaken
for its dead predecessor. A job belongs to the node that runs it while the node's lease lasts. A heartbeat renews the
lease at every third of its length: one write for the node, however many jobs it runs. So a heartbeat may fail or be
late twice before it has consequences.

*Who may do what.* Only the node itself renews its lease. Any other node may end it: once the heartbeat is older than
a whole lease, one transaction puts the node's jobs back into the queue (same id, one attempt more) and records that
(`node.lost`, `job.lost`, `job.rescued`). A node never rescues the jobs that it runs itself: it has better
information. A job that it claimed without getting the answer it does not run, and puts back
(docs/decisions/unanswered-claims.md).

*When either side dies.* A node that dies leaves no notice; its lease expires and another node rescues its jobs, if
need be the next one to start. A rescuer that dies has either committed its rescue or changed nothing.

*When a node was only slow* (a stopped process, a laptop that slept) its jobs may have been rescued meanwhile, and
begin twice: that is what "at least once" means. Its guardian has ended their processes by then (`engine.lease`);
functions in threads continue. But each job is settled once: every claim and every rescue raises the job's fence, and
a settlement with an older fence changes nothing.

*When the clock is set* all recorded heartbeats look too old, or lie in the future, although no node is at fault. For
one whole lease, measured by the monotonic clock, a node that noticed the step rescues no jobs. By then every live
node has sent three heartbeats by the new clock, so a node whose heartbeat is still implausible is dead, also one
whose heartbeat lies in the future. A clock that was set back while no node ran is noticed at start, by heartbeats in
the future.

*When the database was unreachable* for longer than a lease, no node could send a heartbeat, and every node looks dead
to the first that reconnects. So a node whose own heartbeat had become too old rescues no jobs for one whole lease
either.

A clock that was set forward just before a start looks like time that passed while no node ran: a live node may lose
its jobs to the starting node, if that one starts before the other's next heartbeat. The fence settles them once.

*A clean stop* gives up the lease: jobs that are still running can be rescued at once.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable

from everwhen.engine.loop import Loop
from everwhen.engine.watches import SMALLEST_STEP, ClockStep
from everwhen.engine.worker import Worker
from everwhen.model.node import Role, WhenCutOff
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of
from everwhen.version import __version__

LEASE = 30.0
BEATS = 3  # per lease

log = logging.getLogger("everwhen")


class Lease:
    """The lease of one node: renewed, lost, given up; and the evaluation of the leases of other nodes."""

    def __init__(
        self, runtime: Runtime, *, role: Role = "up", seconds: float = LEASE, service: str = ""
    ) -> None:
        self._service = service
        self.node = self._draw()
        store = store_of(runtime)
        self._slots, self._upkeep, self._clock = store.slots, store.upkeep, runtime.clock
        self._role = role
        self.seconds = seconds
        self._beaten = runtime.clock.monotonic()
        self._rescues_from = 0.0
        self.began_at: int | None = None  # the first heartbeat

    @property
    def beat_every(self) -> float:
        return self.seconds / BEATS

    @property
    def is_fresh(self) -> bool:
        """Return whether the last recorded heartbeat is young enough, so that no other node takes our jobs."""
        return self.age <= self.seconds

    @property
    def age(self) -> float:
        """Seconds since the last recorded heartbeat."""
        return self._clock.monotonic() - self._beaten

    def begin(self) -> ClockStep | None:
        """Become a new node. Return the clock step since the last heartbeat of any node, if the clock was set back."""
        self.node = self._draw()
        self._beaten = self._clock.monotonic()
        now = self._clock.now()
        last = max((node.heartbeat_at for node in self._upkeep.nodes()), default=now)
        seconds = (now - last) / 1_000_000
        step = ClockStep(seconds, last, now) if seconds <= -SMALLEST_STEP else None
        if step is not None:
            self.distrust_clocks()
        self.began_at = self._clock.now()
        self.beat(self.began_at)
        return step

    def _draw(self) -> str:
        """Draw the id of one start: the name of its service, if it has one, and a random part."""
        drawn = secrets.token_hex(8)
        return f"{self._service}-{drawn}" if self._service else drawn

    def beat(self, now: int | None = None) -> None:
        began = self._clock.monotonic()
        was_fresh = self.is_fresh
        self._slots.heartbeat(
            self._clock.now() if now is None else now,
            node=self.node,
            version=__version__,
            is_scheduler=self._role != "worker",
            is_worker=self._role != "scheduler",
        )
        self._beaten = began
        if not was_fresh:  # the same cause may have kept other nodes from sending heartbeats, too
            self.distrust_clocks()

    def distrust_clocks(self) -> None:
        """Ignore leases of others for one whole lease: the clock was set, or no node could send heartbeats."""
        self._rescues_from = self._clock.monotonic() + self.seconds

    def rescue(self, now: int | None = None) -> int:
        """Take over the jobs of nodes whose lease has expired; return how many there were.

        `now` is the instant of the last clock check without a step: a clock that is set after that check, and before
        leases are evaluated, must not make live nodes look dead.
        """
        if self._clock.monotonic() < self._rescues_from:
            return 0
        lease = int(self.seconds * 1_000_000)
        now = self._clock.now() if now is None else now
        for lost in self._upkeep.note_lost(now, node=self.node, lease=lease):
            log.warning("node %s (%s) is lost: no heartbeat for %gs", lost.node, lost.role, self.seconds)
        return self._slots.rescue(now, node=self.node, lease=lease)

    def give_up(self, *, is_passing: bool = False) -> None:
        self._slots.sign_off_node(self._clock.now(), node=self.node, is_passing=is_passing)


# A node's greetings to the guardian of its processes, on a thread that never blocks.
#
# The guardian ends the running processes when the lease has expired without a greeting: by then other nodes
# run a frozen node's jobs. So a greeting states how long the recorded lease lasts. A live node that cannot
# reach the database is a different case: the outage may affect all nodes, and then none of them takes its
# jobs. Such a node continues, unless it is configured to prefer limits to work (`when_cut_off: stop`): then
# it ends its jobs itself, and the guardian ends what is left of them.
#
# Heartbeats wait for the database, for longer than a lease if it hangs. Greetings must not, so they have
# their own thread.


OFTEN = 3  # greetings per heartbeat
LONGEST_MARGIN = 5.0  # from SIGTERM to SIGKILL
LATE = 1.5  # heartbeats; an older lease is not being renewed

Greet = Callable[[float, float], None]  # seconds until the lease ends, and the margin before its end


class Greeting:
    """Sends greetings while the node is alive; for one node at a time."""

    def __init__(
        self,
        lease: Lease,
        worker: Worker,
        greet: Greet | None,
        *,
        when_cut_off: WhenCutOff = "continue",
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._lease = lease
        self._worker = worker
        self._greet = greet
        self._when_cut_off = when_cut_off
        self._is_alive = is_alive
        self._margin = min(LONGEST_MARGIN, lease.seconds / 3)

    def start(self, gone: threading.Event) -> Loop:
        """Send greetings until `gone` is set, the first before any job runs; return the loop that sends them."""

        def step_after_pause() -> None:
            if not gone.wait(self._lease.beat_every / OFTEN) and self._is_alive():
                self.step()

        self.step()
        loop = Loop("greeting", "greeting", step_after_pause, gone)
        loop.start()
        return loop

    def step(self) -> None:
        left = self._lease.seconds - self._lease.age
        if self._lease.age > LATE * self._lease.beat_every:
            if self._when_cut_off == "continue":
                left = self._lease.seconds
            elif left <= self._margin:
                self._worker.cut_off()
        if self._greet is not None:
            self._greet(left, self._margin)
