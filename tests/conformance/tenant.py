"""A runtime with one node: what the tests do to a store, through its verbs and the operations alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from everwhen.model.changes import Decision
from everwhen.model.claim import ClaimedJob
from everwhen.model.events import Event, EventType
from everwhen.model.history import Revision
from everwhen.model.instants import instant_of
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import SUCCEEDED, JobEnd, Outcome
from everwhen.model.policy import WhenClosed
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import QuietHoursPolicy, Schedule, State, Target
from everwhen.operations import jobs as job_operations
from everwhen.operations import quiet_hours
from everwhen.operations import schedules as operations
from everwhen.operations.jobs import FiringResult, trigger_schedule
from everwhen.store.opened import OpenStore, store_of
from everwhen.store.tick import TickReport
from everwhen.testing.manual import Duration, ManualClock
from everwhen.timetable.civil_time import zone
from everwhen.timetable.windows import QuietHours, QuietWindow, parse_window
from everwhen.verify.ledger import LedgerReport, check_ledger
from tests.conformance.plans_on_record import PlansOnRecord
from tests.conformance.stores import Capabilities, Site
from tests.submissions import Submission, create_schedule, create_schedules, update_schedule

START = "2026-01-05T08:00:00Z"  # a Monday
FAILED = Outcome("failed", error="no luck")
TRUE = Target("command", '{"argv": ["true"]}')
LEASE = 30_000_000
MANY = 1_000_000


class Tenant:
    """One node in a runtime; `neighbour` is another node in another runtime on the same database."""

    def __init__(
        self, site: Site, capabilities: Capabilities, clock: ManualClock, node: str = "node-1"
    ) -> None:
        self.site = site
        self.capabilities = capabilities
        self.clock = clock
        self.node = node
        self.stack = site.open(clock)
        self.runtime = store_of(self.stack.runtime)
        self._neighbours: list[Tenant] = []
        self.beat()

    def neighbour(self, node: str = "node-2") -> Tenant:
        """Return another process that shares only the database. It closes with this one."""
        self._neighbours.append(Tenant(self.site, self.capabilities, self.clock, node))
        return self._neighbours[-1]

    # -- time --

    @property
    def now(self) -> int:
        return self.clock.now()

    def wait(self, duration: Duration) -> None:
        """Let time pass without an evaluation."""
        self.clock.advance(duration)

    def beat(self) -> None:
        self.runtime.slots.heartbeat(self.now, node=self.node, version="test", is_scheduler=True)

    def tick(self, *, limit: int = 500, behind: bool = False) -> TickReport:
        """Run one evaluation of one lane."""
        return self.runtime.slots.tick(self.now, limit=limit, behind=behind)

    def step(self) -> int:
        """Evaluate both lanes until nothing is left; return the number of new jobs."""
        fired = 0
        for behind in (False, True):
            while (report := self.tick(behind=behind)).more:
                fired += report.fired
            fired += report.fired
        return fired

    def wait_and_step(self, duration: Duration) -> int:
        self.wait(duration)
        self.beat()
        return self.step()

    # -- schedules --

    def add(self, schedule_id: str, *, group: str | None = None, **fields: Any) -> State:
        return create_schedule(self.runtime, submission(schedule_id, group=group, **fields))

    def add_many(self, schedule_ids: Iterable[str], *, group: str | None = None, **fields: Any) -> None:
        """Add equal schedules, in one transaction."""
        many = [submission(schedule_id, group=group, **fields) for schedule_id in schedule_ids]
        create_schedules(self.runtime, many)

    def edit(self, schedule_id: str, *, group: str | None = None, **fields: Any) -> State:
        return update_schedule(self.runtime, submission(schedule_id, group=group, **fields))

    def pause(self, schedule_id: str) -> State:
        return operations.pause_schedule(self.runtime, schedule_id)

    def resume(self, schedule_id: str) -> State:
        return operations.resume_schedule(self.runtime, schedule_id)

    def trigger(self, schedule_id: str) -> FiringResult:
        return trigger_schedule(self.runtime, schedule_id)

    def delete(self, schedule_id: str, *, cancel_running: bool = False) -> None:
        operations.delete_schedule(self.runtime, schedule_id, cancel_running=cancel_running)

    def change(self, schedule_id: str, decide: Callable[[Schedule, int, Shared], Decision]) -> State:
        return self.runtime.catalogue.change(self.now, schedule_id, decide).after

    def move_row(self, schedule_id: str, **columns: Any) -> State:
        """Commit a constructed decision: the row gets these values, and nothing else happens."""

        def craft(schedule: Schedule, _now: int, _shared: Shared) -> Decision:
            before = schedule.state
            return Decision(before, before._replace(**columns), schedule.plan, [], [], [])

        return self.change(schedule_id, craft)

    def put_quiet_hours(self, between: str, action: WhenClosed = "defer", policy_id: str = "nights") -> None:
        hours = QuietHours(zone("UTC"), (QuietWindow(parse_window(between)),))
        put_policy(self.runtime, QuietHoursPolicy(policy_id, policy_id, hours, action))

    def pause_system(self) -> None:
        operations.pause_system(self.runtime)

    def resume_system(self) -> None:
        operations.resume_system(self.runtime)

    def state(self, schedule_id: str) -> State:
        return operations.get_schedule(self.runtime, schedule_id).state

    # -- jobs --

    def claim(self, limit: int = 1_000, queues: Sequence[str] | None = None) -> list[ClaimedJob]:
        return self.runtime.slots.claim_jobs(self.now, node=self.node, limit=limit, queues=queues)

    def settle(self, *claimed: ClaimedJob, outcome: Outcome = SUCCEEDED) -> int:
        return self.runtime.slots.settle(self.now, [end_of(one, outcome) for one in claimed])

    def run(self, outcome: Outcome = SUCCEEDED) -> list[Job]:
        """Claim everything that is ready and end it at once."""
        claimed = self.claim()
        self.settle(*claimed, outcome=outcome)
        return [one.job for one in claimed]

    def rescue(self) -> int:
        return self.runtime.slots.rescue(self.now, node=self.node, lease=LEASE)

    def cancel(self, job_id: str) -> Job:
        return job_operations.cancel_job(self.runtime, job_id)

    # -- results --

    def job(self, job_id: str) -> Job:
        found = self.runtime.ledger.job(job_id)
        assert found is not None
        return found

    def jobs(self, schedule_id: str | None = None) -> list[Job]:
        """Return the jobs, oldest first."""
        found = self.runtime.ledger.jobs(JobFilter(), limit=MANY)
        return [job for job in reversed(found) if schedule_id in (None, job.schedule_id)]

    def slots(self, schedule_id: str) -> list[str]:
        return [clock_of(job.slot_at) for job in self.jobs(schedule_id)]

    def statuses(self, schedule_id: str) -> list[str]:
        return [job.status for job in self.jobs(schedule_id)]

    def events(self, schedule_id: str | None, *types: EventType) -> list[Event]:
        """Return the events, oldest first."""
        found = self.runtime.ledger.events(EventFilter(types=types), limit=MANY)
        return [r.event for r in reversed(found) if schedule_id in (None, r.event.schedule_id)]

    def reasons(self, schedule_id: str, kind: EventType = "schedule.skipped") -> list[str | None]:
        return [event.reason for event in self.events(schedule_id, kind)]

    def everything(self) -> list[object]:
        """Return all that the store shows, to prove that something changed nothing."""
        with self.runtime.ledger.history() as record:
            histories = [
                (
                    history.uid,
                    [_known(r) for r in history.revisions],
                    history.events,
                    history.state,
                    list(history.jobs),
                )
                for history in record.histories
            ]
            return [histories, record.system, record.limits]

    def check(self) -> LedgerReport:
        with self.runtime.ledger.history() as record:
            return check_ledger(record, self.now)

    def plans_not_on_record(self) -> list[str]:
        """Return the plans that this process, or a neighbour, has cached and that are not stored."""
        theirs = [fault for neighbour in self._neighbours for fault in neighbour.plans_not_on_record()]
        return PlansOnRecord().faults(self.stack) + theirs

    def close(self) -> None:
        for neighbour in self._neighbours:
            neighbour.close()
        self.stack.close()


def _known(revision: Revision) -> tuple[object, ...]:
    return revision.revision, revision.in_force_at, revision.plan.definition, revision.plan.quiet


def put_policy(runtime: OpenStore, policy: QuietHoursPolicy) -> None:
    """Create a policy, or replace an existing one."""
    if policy.policy_id in {known.policy_id for known in runtime.catalogue.policies()}:
        quiet_hours.change_quiet_hours(runtime, policy.policy_id, lambda _: policy)
    else:
        quiet_hours.create_quiet_hours(runtime, policy)


def submission(
    schedule_id: str,
    *,
    group: str | None = None,
    source: str = "api",
    uid: str | None = None,
    target: Target = TRUE,
    bound_to: str | None = None,
    **fields: Any,
) -> Submission:
    """Return a schedule as a caller submits it; an interval has its first slot at once unless the fields differ."""
    return Submission(schedule_id, fields, target, group=group, source=source, uid=uid, bound_to=bound_to)


def end_of(claimed: ClaimedJob, outcome: Outcome = SUCCEEDED) -> JobEnd:
    return JobEnd(claimed.job.job_id, claimed.job.fence, outcome)


def at(clock: str) -> int:
    """Return an instant of the day on which every test begins."""
    return ManualClock(f"2026-01-05T{clock}Z").now()


def clock_of(instant: int) -> str:
    seconds = (instant - instant_of(ManualClock("2026-01-05T00:00:00Z").moment)) // 1_000_000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def names(claimed: Sequence[ClaimedJob]) -> list[str]:
    return [one.job.schedule_id for one in claimed]
