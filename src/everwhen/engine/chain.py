"""The chain: schedules that continue without a scheduler, because each run puts its successor into a queue.

A **link** is a message in a queue that names a schedule and an instant. A queue worker that receives a link decides
the due slots of that schedule, puts the next link into the queue, and only then runs the ready jobs, in the same
process. The database is the only source of truth: its rows decide what a link does, and they alone determine which
links should exist (`decide.hand_over`). So a link that is lost, duplicated, late or delivered twice costs time and
nothing else: it finds the slot decided and the job claimed, and ends.

*Who may do what.* Any process may put in a link, for any schedule, at any time: the link's id consists of the
expected run and the instant, and the queue accepts an id once. A delivered link is a node with a lease while it runs.

*When a worker dies* before its slot is decided, the slot stays due, and the next recovery puts in its link again
(under a new id: the queue still has a record of the first). The same holds when it dies between the decision and its
commit. When it dies after the commit, the next link is in the queue, or the next recovery puts it in. The job that
the worker ran is rescued when the lease of its node has expired: the next link of any schedule rescues it and puts in
a link for it.

*When the queue loses everything*, every schedule soon becomes overdue. `recover`, called at the start of any program,
and the watch of `everwhen up` (`engine.chain`) put the links in again.

*When the queue cannot be reached* the run continues, and its link stays alive to put in the links that it owes. A
manual run leaves the links that it owes to recovery after a few seconds.

*When no job may begin* (the system is paused, a group is full) the link puts in another link for a little later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from functools import partial
from math import inf

from everwhen.decide.hand_over import job_link, later_link, links_of, look_again_link, next_ready
from everwhen.engine.job_runner import JobRunner
from everwhen.engine.loop import FIRST_PAUSE, LONGEST_PAUSE
from everwhen.engine.ticker import end_pauses
from everwhen.errors import QueueError, UnknownScheduleError
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.queue import Link, Links
from everwhen.model.schedule import Schedule
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

EARLY = 5 * SECOND  # the queue's clock may be ahead of the database's: such a link waits for its instant
OTHER_SCHEDULES = 100  # released slots and rescued jobs of other schedules that one link handles
EVERYBODY = 100_000
STINT = 5.0  # then a link yields: a schedule with more work than time would otherwise keep its worker
PATIENCE = 600.0  # with an unreachable queue: until then its workers can do nothing else
PATIENCE_BY_HAND = 5.0  # the caller's program waits, and has other work to do

log = logging.getLogger("everwhen")


class Chain:
    """Executes links and puts links into the queue."""

    def __init__(self, runtime: Runtime, links: Links) -> None:
        self._runtime = store_of(runtime)
        self._slots, self._clock = store_of(runtime).slots, runtime.clock
        self._links = links
        self._owed: list[Link] = []

    # -- putting links in --

    def start(self, schedule_id: str) -> bool:
        """Put in the links of a schedule; return False when it needs none, or all of them exist."""
        schedule, now = self._schedule(schedule_id), self._clock.now()
        wanted = links_of(schedule, self._slots.queued_of(schedule.state.uid))
        return sum(self._links.put(link, now) for link in wanted) > 0

    def _schedule(self, schedule_id: str) -> Schedule:
        schedule = self._runtime.catalogue.get(schedule_id)
        if schedule is None:
            raise UnknownScheduleError(schedule_id)
        return schedule

    def recover(self, job_runner: JobRunner) -> int:
        """Put in the links of every active schedule that is overdue; return how many schedules had none."""
        with job_runner:
            self._tidy(job_runner)
        now = self._clock.now()
        return len({link.uid for link in self.wanted(now, EVERYBODY) if self._links.put(link, now)})

    def wanted(self, until: int, limit: int) -> list[Link]:
        """Return the links for everything that is due by `until`."""
        found = self._slots.approaching(until, limit=limit)
        slots = [link for schedule in found.schedules for link in links_of(schedule, ()) if link.at <= until]
        now = self._clock.now()
        # A link for one of these schedules also runs the jobs that are ready.
        due = {link.uid for link in slots if link.at <= now}
        return [*slots, *_one_each(job for job in found.jobs if job.uid not in due)]

    # -- what a link does --

    def execute(self, job_runner: JobRunner, schedule_id: str, uid: str | None = None, at: int = 0) -> int:
        """Decide the due slots of a schedule, put in its next link, run its ready jobs; return how many jobs ran.

        Without a uid the call does not come from a link. Then all ready jobs are run, however long that takes, and an
        unreachable queue is retried only for a few seconds.
        """
        with job_runner:
            self._tidy(job_runner)
            is_link = uid is not None
            uid = uid or self._schedule(schedule_id).state.uid
            self._await(at)
            self._slots.tick_one(self._clock.now(), uid)
            if (left := self._link(uid)) is not None:
                self._put([look_again_link(left, self._clock.now())])
            ran = self._run_ready(job_runner, uid, self._clock.monotonic() + STINT if is_link else inf)
            self._pay(PATIENCE if is_link else PATIENCE_BY_HAND)
        return ran

    def _tidy(self, job_runner: JobRunner) -> None:
        """Do the housekeeping of a scheduler, because no scheduler may be running."""
        self._slots.end_overdue(self._clock.now())
        end_pauses(self._runtime)
        if job_runner.lease.rescue():
            self._put(_one_each(self._slots.approaching(self._clock.now(), limit=OTHER_SCHEDULES).jobs))

    def _await(self, at: int) -> None:
        """Wait until `at` when it is a few seconds ahead: RQ uses its own clock, slots use the database's.

        Only for the instant that the link is for. A link that waited for later slots would wait for each slot of a
        short interval, and take it from that slot's own link.
        """
        while 0 < (left := at - self._clock.now()) <= EARLY:
            threading.Event().wait(left / SECOND)

    def _run_ready(self, job_runner: JobRunner, uid: str, until: float) -> int:
        """Run the ready jobs one after another, also those queued meanwhile; after `until` put in the next link."""
        ran = 0
        while (job := next_ready(self._slots.queued_of(uid), self._clock.now())) is not None:
            if ran and self._clock.monotonic() >= until:
                self._hand_on(job)
                break
            claim = partial(self._slots.claim_job, self._clock.now(), job_id=job.job_id)
            if job_runner.run(lambda node, claim=claim: claim(node=node)):  # type: ignore[misc]
                ran += 1
            elif self._still_waits(job):
                self._put([later_link(job, self._clock.now())])
                break
            self._link(uid)
        return ran

    def _hand_on(self, job: Job) -> None:
        """Put in a link for the job, unless a slot is due.

        The link of a due slot runs the job, too; two links would run this schedule more often than others.
        """
        now = self._clock.now()
        slots = links_of(self._runtime.catalogue.get(job.uid), ())
        if not any(link.at <= now for link in slots):
            self._put([job_link(job)])

    def _still_waits(self, job: Job) -> bool:
        """Return whether the job is still ready, and found no capacity; else it was claimed or postponed."""
        now = self._clock.now()
        return any(
            other.job_id == job.job_id and other.ready_at is not None and other.ready_at <= now
            for other in self._slots.queued_of(job.uid)
        )

    # -- putting links in during a run --

    def _link(self, uid: str) -> Schedule | None:
        """Put in the links for later; the caller runs what is ready now. Return the schedule if a slot of it is due.

        After a decision a slot that is still due may not be decided now.
        """
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
        """Put in links for slots that other schedules hold, and that freed capacity has released, at the latest for
        an instant that a node with a clock slightly ahead has reached already."""
        until = now + SECOND
        found = self._slots.approaching(until, limit=OTHER_SCHEDULES).schedules
        released = [s for s in found if s.state.release_at is not None and s.state.release_at <= until]
        self._put(link for schedule in released for link in links_of(schedule, ()) if link.at <= until)

    def _put(self, links: Iterable[Link]) -> None:
        """Put in links; those that the queue does not accept are owed: an unreachable queue must not stop the work."""
        now = self._clock.now()
        for link in links:
            try:
                self._links.put(link, now)
            except QueueError as error:
                log.error("link %s is not in the queue yet: %s", link.link_id, error)
                self._owed.append(link)

    def _pay(self, patience: float) -> None:
        """Put in the owed links; the next recovery finds those that remain."""
        deadline = self._clock.monotonic() + patience
        pause = FIRST_PAUSE
        while self._owed and self._clock.monotonic() < deadline:
            owed, self._owed = self._owed, []
            self._put(owed)
            if self._owed:
                threading.Event().wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)


def _one_each(jobs: Iterable[Job]) -> list[Link]:
    """Return one link for each schedule with ready jobs; that link runs them all."""
    links: dict[str, Link] = {}
    for job in jobs:
        links.setdefault(job.uid, job_link(job))
    return list(links.values())


# The watch over chains: it ensures that every schedule has its link in time, however a link was lost.
#
# It decides no slots. `everwhen up` runs it; chains continue without it. The watch asks for a link again only
# when the link's time has passed without effect: then the queue lost the link, or has no worker.


AHEAD = 10 * SECOND
WATCH_PATIENCE = 3 * SECOND
AT_ONCE = 1_000


class ChainWatch:
    """Looks ahead, and puts in the missing links."""

    def __init__(self, runtime: Runtime, links: Links) -> None:
        self._runtime = store_of(runtime)
        self._links = links
        self._chain = Chain(runtime, links)
        self._look_at: dict[str, int] = {}  # by link: when to ask the queue for it again

    def ping(self) -> None:
        """Raise QueueError when the queue of the links cannot be reached."""
        self._links.ping()

    def step(self) -> int:
        """Put in the missing links; return how many there were."""
        self._runtime.slots.end_overdue(self._runtime.clock.now())
        end_pauses(self._runtime)
        now = self._runtime.clock.now()
        wanted = self._chain.wanted(now + AHEAD, AT_ONCE)
        # A run begins the job that it has just fired, and a link costs a process: so an expected one is given time.
        look_at = {
            link.link_id: self._look_at.get(link.link_id, link.at + WATCH_PATIENCE if link.is_expected else 0)
            for link in wanted
        }
        put = 0
        for link in wanted:
            if look_at[link.link_id] <= now:
                put += self._links.put(link, now)
                look_at[link.link_id] = max(link.at, now) + WATCH_PATIENCE
        self._look_at = look_at
        return put
