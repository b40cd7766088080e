"""The lease: who may say that a job is still being run, and who may take it over (R8).

A **node** is one start of one process, with an id drawn at random: a process that is started again is another
node, and never mistaken for its dead predecessor. What a node runs is its own while its lease lasts. The lease
is renewed by a heartbeat every third of it: one write for the node, however many jobs it runs, so a heartbeat may
fail or come late twice before anybody draws conclusions.

*Who may do what.* Only the node itself renews its lease. Any other node may end it: once the heartbeat is older
than a whole lease, one transaction puts the node's jobs back into the queue (same id, one attempt more) and says
so (`node.lost`, `job.lost`, `job.rescued`). A node never rescues what it runs itself: it knows better. What it
claimed without getting the answer it does not run, and puts back (docs/decisions/unanswered-claims.md).

*When either side dies.* A node that dies says nothing; its lease runs out and another rescues, if need be the next
one to start. A rescuer that dies has committed its rescue, or it has done nothing.

*When a node was only slow* (a stopped process, a laptop that slept) its jobs may have been rescued meanwhile, and
begin twice: that is what "at least once" means. Its guardian has ended their processes by then (`engine.greeting`);
functions in threads go on. But they are settled once. Every claim and every rescue raises the
job's fence, and a settlement that shows an older fence changes nothing.

*When the clock is set* all heartbeats on record look too old, or lie in the future, through nobody's fault. For one
whole lease, measured by the monotonic clock, a node that noticed rescues nobody: by then every node that lives has
beaten three times by the new clock, and whatever still looks strange is dead, a heartbeat in the future included. A
clock that was put back while nobody ran is noticed at start, by heartbeats that have not happened yet.

*When the database was away* for longer than a lease, nobody could beat, and everybody looks dead to whoever is back
first. So a node whose own heartbeat had grown too old rescues nobody for one whole lease either.

A clock that was put forward just before a start looks like time that passed while nobody ran: a node that is alive may
lose its jobs to the one that starts, if it does so before the other's next heartbeat. The fence settles them once.

*A clean stop* gives the lease up: what is still running is up for rescue at once.
"""

from __future__ import annotations

import logging
import secrets

from everwhen.engine.clock_watch import SMALLEST_STEP, ClockStep
from everwhen.model.node import Role
from everwhen.ports.runtime import Runtime
from everwhen.version import __version__

LEASE = 30.0
BEATS = 3  # in a lease

log = logging.getLogger("everwhen")


class Lease:
    """The lease of one node: beaten, lost, given up; and the judgement about those of others."""

    def __init__(
        self, runtime: Runtime, *, role: Role = "up", seconds: float = LEASE, service: str = ""
    ) -> None:
        self._service = service
        self.node = self._draw()
        self._slots, self._upkeep, self._clock = runtime.slots, runtime.upkeep, runtime.clock
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
        """Whether the last heartbeat is on record and young enough: nobody will take our jobs."""
        return self.age <= self.seconds

    @property
    def age(self) -> float:
        """Seconds since the last heartbeat that is on record."""
        return self._clock.monotonic() - self._beaten

    def begin(self) -> ClockStep | None:
        """Another start, another node. The step of the clock since anybody was last alive, if it was put back."""
        self.node = self._draw()
        self._beaten = self._clock.monotonic()
        step = self._step_before_start()
        if step is not None:
            self.distrust_clocks()
        self.began_at = self._clock.now()
        self.beat(self.began_at)
        return step

    def _draw(self) -> str:
        """The id of one start: the name of its service, where it has one, and what no other start has."""
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
        if not was_fresh:  # what kept us from beating may have kept the others, too
            self.distrust_clocks()

    def distrust_clocks(self) -> None:
        """The clock was set, or nobody could beat: leases of others mean nothing for one whole lease (E9)."""
        self._rescues_from = self._clock.monotonic() + self.seconds

    def rescue(self, now: int | None = None) -> int:
        """Take over the jobs of nodes whose lease has expired; how many there were.

        `now` is the instant by which the clock was last found in order: one that is set after that look, and before
        leases are judged, must not make the living look dead.
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

    def _step_before_start(self) -> ClockStep | None:
        now = self._clock.now()
        last = max((node.heartbeat_at for node in self._upkeep.nodes()), default=now)
        seconds = (now - last) / 1_000_000
        return ClockStep(seconds, last, now) if seconds <= -SMALLEST_STEP else None
