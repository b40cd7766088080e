"""A scheduler without threads and without sleeping: the same store and the same decisions, stepped by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial, update_wrapper
from typing import Any, TypeVar

from everwhen.config.submission import GENERAL, PlainBodies, SubmissionRules, read_new
from everwhen.engine.call_executor import LoopThread
from everwhen.engine.listeners import ListenerGroup
from everwhen.engine.running import run_of
from everwhen.engine.ticker import end_pauses, ticker_of
from everwhen.engine.watches import ClockWatch, ExpectWatch
from everwhen.model.claim import ClaimedJob
from everwhen.model.declare import Declared
from everwhen.model.events import Event
from everwhen.model.fields import FIELDS
from everwhen.model.instants import instant_of, to_datetime
from everwhen.model.job import Job
from everwhen.model.kinds import Record
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.policy import IfRunning
from everwhen.model.reasons import ScheduleCheckResult
from everwhen.model.schedule import State
from everwhen.operations import jobs as job_operations
from everwhen.operations import schedules as operations
from everwhen.operations import stepping
from everwhen.operations.jobs import Backfill, FiringResult, fire_schedule, trigger_schedule
from everwhen.operations.maintenance import prove
from everwhen.operations.quiet_hours import policy_ids
from everwhen.operations.system import next_wake_at
from everwhen.operations.upcoming import UpcomingSlot, upcoming
from everwhen.operations.why import Explanation, why
from everwhen.runtime import Runtime
from everwhen.scheduler.async_scheduler import AsyncScheduler
from everwhen.scheduler.declaring import plain
from everwhen.scheduler.listeners import SchedulerEvent
from everwhen.scheduler.scheduler import Scheduler
from everwhen.target_registry import open_target_registry
from everwhen.timetable.civil_time import zone
from everwhen.timetable.interval import parse_interval
from everwhen.timetable.trigger import parse_exact_instant
from everwhen.verify.ledger import LedgerReport
from everwhen.wiring import Stack, open_stack

T = TypeVar("T")
Duration = str | timedelta | int
MOST_STEPS = 1_000_000
ALL = 1_000_000
IN_MEMORY = "sqlite://"
# Tests may also say what a section of a file says: what fires an agent, and the command of a plugin.
_BODIES = PlainBodies(Record({**GENERAL, "type": FIELDS["type"], "command": FIELDS["command"]}))


class ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self, start: datetime | str = "2026-01-05T00:00:00Z") -> None:
        self._now = _instant(start)
        self._elapsed = 0.0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    @property
    def moment(self) -> datetime:
        """Return the current instant as a datetime."""
        return to_datetime(self._now)

    def advance(self, duration: Duration) -> None:
        """Let time pass: wall clock and monotonic clock advance."""
        length = _microseconds(duration)
        self._now += length
        self._elapsed += length / 1_000_000

    def step(self, duration: Duration) -> None:
        """Set the wall clock forwards or back, without any time passing."""
        self._now += _microseconds(duration)

    def set(self, moment: datetime | str) -> None:
        """Let time pass until a moment; a moment in the past sets the wall clock back."""
        instant = _instant(moment)
        self._elapsed += max(instant - self._now, 0) / 1_000_000
        self._now = instant


@dataclass(frozen=True, slots=True)
class ManualJob:
    """A job, with its slot as a datetime, for the assertions of a test."""

    job: Job

    def __getattr__(self, name: str) -> Any:
        return getattr(self.job, name)

    @property
    def slot(self) -> datetime:
        """Return the slot that the job runs, in UTC."""
        return to_datetime(self.job.slot_at)


def manual_scheduler(
    start: datetime | str = "2026-01-05T00:00:00Z",
    *,
    of: Scheduler | AsyncScheduler | None = None,
    database: str = IN_MEMORY,
    timezone: str | None = None,
    **keys: Any,
) -> ManualScheduler:
    """Return a scheduler on SQLite in memory (or the given database), with a clock of its own.

    `of` is the scheduler of a program: its schedules are declared here, its functions are called when their slots
    are due, and its listeners are called. It is not started, and its database is not touched: what its
    functions and listeners call on it, such as `trigger`, reaches this database until `close`.
    """
    where = timezone or (of.timezone if of is not None else "UTC")
    manual = ManualScheduler(ManualClock(start), database=database, timezone=where, **keys)
    if of is not None:
        manual.take_on(of)
    return manual


class ManualScheduler:
    """One node, stepped by the test. Jobs take no time and succeed, unless `outcome` returns something else.

    The functions of a program passed to `take_on` are really called, unless `outcome` is given.
    """

    def __init__(
        self,
        clock: ManualClock,
        *,
        database: str = IN_MEMORY,
        timezone: str = "UTC",
        outcome: Callable[[ClaimedJob], Outcome] | None = None,
        **keys: Any,
    ) -> None:
        self.clock = clock
        self.outcome = outcome or self._outcome
        self._programs: list[Program] = []
        self.node = "manual-1"
        self._has_slept = False
        self._keys = {"timezone": timezone, **keys}
        self._url = database
        self.stack: Stack = open_stack(database, clock=clock, **self._keys)
        self._ticker = ticker_of(self.runtime)
        self._clock_watch = ClockWatch(clock)
        self.beat()

    @property
    def runtime(self) -> Runtime:
        """Return the open database, for the functions of `operations`."""
        return self.stack.runtime

    def take_on(self, scheduler: Scheduler | AsyncScheduler) -> None:
        """Declare the schedules of a program, as its start would; schedules that it no longer declares are removed."""
        own = scheduler.scheduler if isinstance(scheduler, AsyncScheduler) else scheduler
        for program in self._programs:
            if program.scheduler.name == own.name:
                program.close()
                self._programs.remove(program)
                break
        self._programs.append(Program(own, self.runtime, self.node))

    def close(self) -> None:
        """Close the database."""
        for program in self._programs:
            program.close()
        self.stack.close()

    def _outcome(self, claimed: ClaimedJob) -> Outcome:
        for program in self._programs:
            if program.runs(claimed):
                return program.run(claimed)
        return SUCCEEDED

    # -- operations --

    def add(self, schedule_id: str, **keys: Any) -> State:
        """Create a schedule; every key of a configuration file may be given, and is checked as in a file.

        It runs a command that succeeds, unless it has a `run`. Beside the keys: `target` stands for `run`, `group` is
        the schedule's group, `budgets` are those of groups and owners, `source` and `uid` are those
        of the schedule, and `may_be_past` permits a last slot that is past.
        """
        may_be_past, source = keys.pop("may_be_past", False), keys.pop("source", "api")
        uid = keys.pop("uid", None)
        declared = [self._declared(schedule_id, source, keys)]
        (state,) = operations.create_declared(
            self.runtime, declared, source=source, may_be_past=may_be_past, uid=uid
        )
        return state

    def edit(self, schedule_id: str, **keys: Any) -> State:
        """Replace a schedule's definition; the keys are those of `add`."""
        may_be_past, source = keys.pop("may_be_past", False), keys.pop("source", "api")
        definition = self._declared(schedule_id, source, keys).definition
        return operations.replace_definition(self.runtime, schedule_id, definition, may_be_past=may_be_past)

    def _declared(self, schedule_id: str, source: str, keys: dict[str, Any]) -> Declared:
        target, group, budgets = (keys.pop(key, None) for key in ("target", "group", "budgets"))
        rules = SubmissionRules(
            self.clock.now(),
            local_zone=lambda: str(self.runtime.timezone),
            timezone=self.runtime.timezone,
            quiet_hours=frozenset(policy_ids(self.runtime)),
            budgets=budgets or {},
            bodies=_BODIES,
        )
        fields = {key: value if isinstance(value, dict) else plain(value) for key, value in keys.items()}
        if target is None:
            fields.setdefault("run", {"command": ["true"]})
        one = read_new(fields, schedule_id, rules, may_be_past=True, target=target, group=group)
        marked = operations.marked(one.definition.target, source)
        return replace(one, definition=replace(one.definition, target=marked))

    def pause(
        self, schedule_id: str, *, note: str | None = None, until: datetime | str | int | None = None
    ) -> State:
        """Pause a schedule; a pause with `until` ends when the clock reaches it."""
        ends_at = None if until is None else _instant(until)
        return operations.pause_schedule(self.runtime, schedule_id, note=note, until=ends_at)

    def resume(self, schedule_id: str) -> State:
        return operations.resume_schedule(self.runtime, schedule_id)

    def revive(self, schedule_id: str) -> State:
        return operations.revive_schedule(self.runtime, schedule_id)

    def delete(self, schedule_id: str, *, cancel_running: bool = False) -> None:
        operations.delete_schedule(self.runtime, schedule_id, cancel_running=cancel_running)

    def trigger(
        self, schedule_id: str, payload: dict[str, Any] | None = None, if_running: IfRunning = "queue"
    ) -> FiringResult:
        return trigger_schedule(self.runtime, schedule_id, payload=payload, if_running=if_running)

    def fire(self, schedule_id: str, payload: dict[str, Any] | None = None) -> FiringResult:
        """Send the request that fires a webhook or chat schedule."""
        return fire_schedule(self.runtime, schedule_id, payload=payload)

    def backfill(
        self,
        schedule_id: str,
        start: datetime | str,
        end: datetime | str,
        *,
        if_running: IfRunning = "queue",
        dry_run: bool = False,
    ) -> Backfill:
        """Create jobs for the slots with start ≤ slot < end that have none."""
        first, last = to_datetime(_instant(start)), to_datetime(_instant(end))
        return job_operations.backfill(
            self.runtime, schedule_id, first, last, if_running=if_running, dry_run=dry_run
        )

    def cancel_job(self, job_id: str) -> Job:
        return job_operations.cancel_job(self.runtime, job_id)

    def pause_system(self) -> None:
        """Pause the system: nothing fires or is claimed until `resume_system`."""
        operations.pause_system(self.runtime)

    def resume_system(self) -> None:
        operations.resume_system(self.runtime)

    # -- queries --

    def check_schedule(self, schedule_id: str) -> ScheduleCheckResult:
        return operations.check(self.runtime, schedule_id)

    def why(self, schedule_id: str, at: datetime | str | int | None = None) -> Explanation:
        """Explain what happened to the slot nearest to an instant (default: the last one)."""
        return why(self.runtime, schedule_id, None if at is None else _instant(at))

    def upcoming(self, schedule_id: str, count: int = 10) -> list[UpcomingSlot]:
        return upcoming(self.runtime, schedule_id, count)

    # -- time --

    def advance(self, duration: Duration, *, work: bool = True) -> None:
        """Let time pass, stopping at every instant at which something is due."""
        self.run_until(self.clock.now() + _microseconds(duration), work=work)

    def run_until(self, moment: datetime | str | int, *, work: bool = True) -> None:
        target = _instant(moment)
        self.step(work=work)
        for _ in range(MOST_STEPS):
            wake_at = self._next_event(work)
            if wake_at is None or wake_at > target:
                break
            self._move(wake_at)
            self.step(work=work)
        self._move(target)
        self.step(work=work)

    def sleep(self, duration: Duration) -> None:
        """Simulate downtime: time passes and nothing is evaluated; then another node continues.

        With `beat` before the next step it is a stall: the same node was alive.
        """
        self.clock.advance(duration)
        self._has_slept = True

    def step(self, *, work: bool = True) -> None:
        """Evaluate the slots that are due, run the jobs that are ready, and call the listeners."""
        self._watch_clock()
        end_pauses(self.runtime)
        for _ in range(MOST_STEPS):
            self.tick()
            has_worked = work and self.work() > 0
            if not has_worked:
                self._note_silences()
            if not has_worked and not self._tell():  # what listeners do may make something due
                return

    def _tell(self) -> bool:
        """Call the listeners with what was committed; return whether one was called."""
        return sum(program.tell() for program in self._programs) > 0

    def tick(self) -> None:
        """Decide every slot that is due."""
        if self._has_slept:
            self._begin_node()  # so that no later heartbeat covers the downtime in the record
        while self._ticker.step():
            pass

    def work(self, limit: int = 1_000) -> int:
        """Run the jobs that are ready; they take no time. Return how many ran."""
        claimed = self.claim(limit)
        for job in claimed:
            self.settle(job, self.outcome(job))
        return len(claimed)

    def claim(self, limit: int = 1_000) -> list[ClaimedJob]:
        claim = partial(stepping.claim_ready, self.runtime, node=self.node)
        found = claim(limit=limit)
        for program in self._programs:
            if limit > len(found):
                found += claim(limit=limit - len(found), queues=program.queues)
        return found

    def settle(self, claimed: ClaimedJob, outcome: Outcome = SUCCEEDED) -> int:
        return stepping.settle_job(self.runtime, claimed, outcome)

    def rescue(self, lease: Duration = "30s") -> int:
        """Take over the jobs of nodes without a heartbeat for a lease, including those from before a restart."""
        return stepping.rescue_jobs(self.runtime, node=self.node, lease=_microseconds(lease))

    def beat(self) -> None:
        """Write the heartbeat of this node."""
        self._has_slept = False
        stepping.send_heartbeat(self.runtime, node=self.node, version="test")

    def restart(self) -> None:
        """Simulate a new process on the same database: everything in memory is lost."""
        self._begin_node()
        # A database in memory would be lost, so its connection is kept.
        kept = {"database": self.stack.database} if self._url == IN_MEMORY else {}
        for program in self._programs:
            program.close()
        if not kept:
            self.stack.close()
        self.stack = open_stack(self._url, clock=self.clock, **kept, **self._keys)
        self._ticker = ticker_of(self.runtime)
        self._programs = [Program(program.scheduler, self.runtime, self.node) for program in self._programs]
        self._note_silences()  # before the first heartbeat: what nobody could do was not expected
        self.beat()

    def _begin_node(self) -> None:
        self.node = f"manual-{int(self.node.rpartition('-')[2]) + 1}"
        self._has_slept = False

    def _note_silences(self) -> None:
        ExpectWatch(self.runtime, lease=0).step(self.node)  # a node from before a restart has ended

    def _watch_clock(self) -> None:
        step = self._clock_watch.look()
        if step is not None:
            event = Event("scheduler.clock_stepped", self.clock.now(), detail=step.detail)
            stepping.record_event(self.runtime, event)

    def _move(self, instant: int) -> None:
        self.beat()
        if instant > self.clock.now():
            self.clock.advance(timedelta(microseconds=instant - self.clock.now()))
            self.beat()

    def _next_event(self, work: bool) -> int | None:
        datetimes = [next_wake_at(self.runtime), stepping.next_expected_at(self.runtime)]
        datetimes += [program.next_attempt_at for program in self._programs]
        if work:
            queues = [None, *(program.queues for program in self._programs)]
            datetimes += [stepping.next_ready_at(self.runtime, each) for each in queues]
        to_come = [at for at in datetimes if at is not None and at > self.clock.now()]
        return min(to_come, default=None)

    # -- results --

    def state(self, schedule_id: str) -> State:
        return operations.get_schedule(self.runtime, schedule_id).state

    def jobs(self, schedule_id: str | None = None) -> list[ManualJob]:
        """Return the jobs, oldest first."""
        found = stepping.all_jobs(self.runtime)
        return [ManualJob(job) for job in found if schedule_id in (None, job.schedule_id)]

    def events(self, schedule_id: str | None = None, *types: str) -> list[Event]:
        """Return the audit events, oldest first."""
        return [
            event
            for event in stepping.all_events(self.runtime)
            if schedule_id in (None, event.schedule_id) and (not types or event.type in types)
        ]

    def check(self) -> LedgerReport:
        """Check that every slot has exactly one ledger entry."""
        return prove(self.runtime)


def _instant(moment: datetime | str | int) -> int:
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        second, fraction = parse_exact_instant(moment, zone("UTC"))
        return second * 1_000_000 + fraction
    return instant_of(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _microseconds(duration: Duration) -> int:
    if isinstance(duration, int):
        return duration * 1_000_000
    if isinstance(duration, str):
        sign = -1 if duration.startswith("-") else 1
        duration = sign * parse_interval(duration.removeprefix("-"))
    return duration // timedelta(microseconds=1)


class Program:
    """The scheduler of a program. A test really calls its functions; commands, requests and so on only succeed."""

    def __init__(self, scheduler: Scheduler, runtime: Runtime, node: str) -> None:
        self.scheduler = scheduler
        self.queues = scheduler.queues
        self._target_registry = open_target_registry(
            runtime, functions=scheduler.functions, on_trigger=scheduler.on_trigger, max_workers=1
        )
        self._listeners = ListenerGroup(runtime, program=scheduler.name, node=lambda: node, look_every=0.0)
        self._loop = LoopThread("everwhen-listeners")  # only while a coroutine hears something
        self._listening = 0
        self._heard = 0
        scheduler.lend(runtime)
        self._listen()
        scheduler.declare_on(runtime)

    @property
    def next_attempt_at(self) -> int | None:
        """Return the instant at which a listener with a name gets again what it has refused."""
        return self._listeners.next_attempt_at

    def tell(self) -> bool:
        """Call the listeners with what was committed; return whether one was called."""
        before = self._heard
        self._listen()
        try:
            while self._listeners.step(lambda: False):
                pass
        finally:
            self._loop.close()
        return self._heard > before

    def close(self) -> None:
        """End its threads and give up its cursors; the program's scheduler has its own database again."""
        python: Any = self._target_registry.targets["python"]
        _run_on_thread(python.close())
        self._listeners.release()
        self.scheduler.lend(None)

    def _listen(self) -> None:
        """Take on the listeners that were declared since the last time."""
        declared = self.scheduler.listeners[self._listening :]
        for one in declared:
            self._listeners.add(replace(one, function=self._counted(one.function)).on_loop(self._loop))
        if declared:
            self._listening += len(declared)
            self._listeners.begin()

    def _counted(self, listener: Callable[[SchedulerEvent], object]) -> Callable[[SchedulerEvent], object]:
        def hear(event: SchedulerEvent) -> object:
            self._heard += 1
            return listener(event)

        return update_wrapper(hear, listener)

    def runs(self, claimed: ClaimedJob) -> bool:
        """Return whether the program itself runs the job."""
        kind = claimed.definition.target.kind
        is_ours = claimed.definition.queue in self.queues
        return is_ours and (kind == "python" or (kind == "agent" and self._target_registry.has_host))

    def run(self, claimed: ClaimedJob) -> Outcome:
        """Run the function and return its outcome."""
        target = claimed.definition.target
        work = self._target_registry.targets[target.kind].run(target.spec, run_of(claimed))
        assert isinstance(work, Awaitable)
        return _run_on_thread(work)


def _run_on_thread(work: Awaitable[T]) -> T:
    """Wait for a coroutine on a thread, because the test may itself run on an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _awaited(work)).result()


async def _awaited(work: Awaitable[T]) -> T:
    return await work
