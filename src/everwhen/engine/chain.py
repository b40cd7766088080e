"""The chain: schedules that go on without a scheduler, because each run puts its successor into a queue (P1, P2).

A **link** is a message in a queue that names a schedule and an instant. A worker of the queue that gets one decides
the slots of that schedule that are due, puts the next link into the queue, and only then runs what there is to run, in
line. The database stays the only truth: what a link finds there decides what it does, and which links there should be
follows from it alone (`decide.links`). So a link that is lost, doubled, late or handed out twice costs time and nothing
else: it finds a slot decided, a job taken, and goes.

*Who may do what.* Anybody may put a link in, for any schedule, at any time: its id is made of the run that is expected
and of the instant, and the queue takes an id once. A link that was handed out is a node with a lease while it lasts.

*When a worker dies* before its slot is decided, the slot stays due, and whoever recovers puts its link in again
(under a further id: the queue still has a record of the first). When it dies between the decision and its commit,
likewise. When it dies after that, the next link is in the queue, or will be by the next recovery; the job that it ran
is rescued when the lease of its node has run out, by whichever link of whichever schedule comes next, which puts one
in for it.

*When the queue loses everything*, every schedule is past its time before long: `recover`, at the start of any program
or by the watch of `everwhen up` (`engine.chain_watch`), puts the links in again.

*When the queue cannot be reached* the run goes on, and its link stays to put in what it owes. A run by hand leaves
what it owes to recovery after a few seconds.

*When nothing may begin* (the system is paused, a group is full) the link puts one in for a little later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from math import inf

from everwhen.decide.links import job_link, later_link, links_of, look_again_link, next_ready
from everwhen.engine.job_runner import JobRunner
from everwhen.engine.loop import FIRST_PAUSE, LONGEST_PAUSE
from everwhen.engine.pauses import end_pauses
from everwhen.errors import QueueError, UnknownScheduleError
from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.link import Link
from everwhen.model.schedule import Schedule
from everwhen.ports.links import Links
from everwhen.ports.runtime import Runtime

EARLY = 5 * SECOND  # a clock may be ahead of the database's: such a link waits for its instant
STRANGERS = 100  # released slots and rescued jobs of others that one link cares for
EVERYBODY = 100_000
STINT = 5.0  # then a link makes room for others: a schedule with more work than time would keep its worker
PATIENCE = 600.0  # with a queue that cannot be reached: until then its workers can do nothing else
PATIENCE_BY_HAND = 5.0  # somebody's program waits, which has more to do

log = logging.getLogger("everwhen")


class Chain:
    """What links do, and what puts them into the queue."""

    def __init__(self, runtime: Runtime, links: Links) -> None:
        self._runtime = runtime
        self._slots, self._clock = runtime.slots, runtime.clock
        self._links = links
        self._owed: list[Link] = []

    # -- putting links in --

    def start(self, schedule_id: str) -> bool:
        """Put in the links of a schedule; False when it needs none, or they are there."""
        schedule = self._runtime.catalogue.get(schedule_id)
        if schedule is None:
            raise UnknownScheduleError(schedule_id)
        now = self._clock.now()
        wanted = links_of(schedule, self._slots.queued_of(schedule.state.uid))
        return sum(self._links.put(link, now) for link in wanted) > 0

    def recover(self, job_runner: JobRunner) -> int:
        """Put in the links of every active schedule that is past its time; of how many there were none."""
        with job_runner:
            self._tidy(job_runner)
        now = self._clock.now()
        return len({link.uid for link in self.wanted(now, EVERYBODY) if self._links.put(link, now)})

    def wanted(self, until: int, limit: int) -> list[Link]:
        """The links for what somebody has to look after by then."""
        found = self._slots.approaching(until, limit=limit)
        slots = [link for schedule in found.schedules for link in links_of(schedule, ()) if link.at <= until]
        now = self._clock.now()
        due = {
            link.uid for link in slots if link.at <= now
        }  # whoever comes for these runs what is ready, too
        return [*slots, *_one_each(job for job in found.jobs if job.uid not in due)]

    # -- what a link does --

    def execute(self, job_runner: JobRunner, schedule_id: str, uid: str | None = None, at: int = 0) -> int:
        """Decide what is due of a schedule, put its next link in, run what is ready; how many jobs that were.

        Without a uid nobody handed out a link: then all of it is run, however long it takes, and a queue that is away
        is waited for only a little.
        """
        with job_runner:
            self._tidy(job_runner)
            is_link = uid is not None
            uid = uid or self._uid_of(schedule_id)
            self._await(at)
            self._decide(uid)
            ran = self._run_ready(job_runner, uid, self._clock.monotonic() + STINT if is_link else inf)
            self._pay(PATIENCE if is_link else PATIENCE_BY_HAND)
        return ran

    def _uid_of(self, schedule_id: str) -> str:
        schedule = self._runtime.catalogue.get(schedule_id)
        if schedule is None:
            raise UnknownScheduleError(schedule_id)
        return schedule.state.uid

    def _tidy(self, job_runner: JobRunner) -> None:
        """What a scheduler would see to: nobody else may be there."""
        self._slots.end_overdue(self._clock.now())
        end_pauses(self._runtime)
        if job_runner.lease.rescue():
            self._put(_one_each(self._slots.approaching(self._clock.now(), limit=STRANGERS).jobs))

    def _decide(self, uid: str) -> None:
        self._slots.tick_one(self._clock.now(), uid)
        if (left := self._link(uid)) is not None:
            self._put([look_again_link(left, self._clock.now())])

    def _await(self, at: int) -> None:
        """RQ goes by its own clock, slots by the database's. Only for the instant that the link is for: one that comes
        for something else would have to wait for each slot of a short interval, and take it from its own link."""
        while 0 < (left := at - self._clock.now()) <= EARLY:
            threading.Event().wait(left / SECOND)

    def _run_ready(self, job_runner: JobRunner, uid: str, until: float) -> int:
        """One after the other, those that others put into line meanwhile among them; after `until` the next link."""
        ran = 0
        while (job := next_ready(self._slots.queued_of(uid), self._clock.now())) is not None:
            if ran and self._clock.monotonic() >= until:
                self._hand_on(job)
                break
            if job_runner.carry(lambda node, job=job: self._claimed(job, node)):  # type: ignore[misc]
                ran += 1
            elif self._still_waits(job):
                self._put([later_link(job, self._clock.now())])
                break
            self._link(uid)
        return ran

    def _hand_on(self, job: Job) -> None:
        """The next slot may be due already: then its link runs this one. Two would come more often than others do."""
        now = self._clock.now()
        slots = links_of(self._runtime.catalogue.get(job.uid), ())
        if not any(link.at <= now for link in slots):
            self._put([job_link(job)])

    def _claimed(self, job: Job, node: str) -> ClaimedJob | None:
        return self._slots.claim_job(self._clock.now(), node=node, job_id=job.job_id)

    def _still_waits(self, job: Job) -> bool:
        """It found no place; else another has taken it, or it was put off."""
        now = self._clock.now()
        return any(
            other.job_id == job.job_id and other.ready_at is not None and other.ready_at <= now
            for other in self._slots.queued_of(job.uid)
        )

    # -- links on the way --

    def _link(self, uid: str) -> Schedule | None:
        """Put in the links for what comes later; what is ready now is run by whoever asks. The schedule, where a slot
        of it is due: after a decision that means that nobody may decide it now."""
        now = self._clock.now()
        schedule = self._runtime.catalogue.get(uid)
        wanted = links_of(schedule, self._slots.queued_of(uid))
        self._put(link for link in wanted if link.at > now)
        if schedule is None:
            return None
        if schedule.definition.guard is not None or schedule.definition.capacity is not None:
            self._link_released(now)
        return schedule if any(link.is_slot and link.at <= now for link in wanted) else None

    def _link_released(self, now: int) -> None:
        """A place that came free released a slot that another schedule holds."""
        found = self._slots.approaching(now, limit=STRANGERS).schedules
        released = [s for s in found if s.state.release_at is not None and s.state.release_at <= now]
        self._put(link for schedule in released for link in links_of(schedule, ()) if link.at <= now)

    def _put(self, links: Iterable[Link]) -> None:
        """A queue that cannot be reached must not keep the work from being done."""
        now = self._clock.now()
        for link in links:
            try:
                self._links.put(link, now)
            except QueueError as error:
                log.error("link %s is not in the queue yet: %s", link.link_id, error)
                self._owed.append(link)

    def _pay(self, patience: float) -> None:
        """Put in what could not be put in before; what is owed still is found by the next recovery."""
        deadline = self._clock.monotonic() + patience
        pause = FIRST_PAUSE
        while self._owed and self._clock.monotonic() < deadline:
            owed, self._owed = self._owed, []
            self._put(owed)
            if self._owed:
                threading.Event().wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)


def _one_each(jobs: Iterable[Job]) -> list[Link]:
    """One link for each schedule with jobs that are ready; whoever comes runs them all."""
    links: dict[str, Link] = {}
    for job in jobs:
        links.setdefault(job.uid, job_link(job))
    return list(links.values())
