"""A scheduler without threads: a real store, a clock that the test moves, workers that the test controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from everwhen.decide import by_hand, edit, status
from everwhen.errors import SchedulerError
from everwhen.model.changes import Decision, Insertion
from everwhen.model.events import Event
from everwhen.model.instants import SECOND, to_datetime
from everwhen.model.job import Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import JobEnd, Outcome
from everwhen.model.policy import IfRunning
from everwhen.model.queries import EventFilter, JobFilter, ScheduleFilter
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, State
from everwhen.store.opened import store_of
from everwhen.store.postgres.transaction import PostgresStore
from everwhen.store.restore import BACKED_UP_AT, go_on_from_backup
from everwhen.store.sqlite.database import Lane, SqliteDatabase
from everwhen.store.sqlite.transaction import SqliteStore
from everwhen.testing.manual import ManualClock
from everwhen.verify.ledger import LedgerReport, check_ledger
from everwhen.wiring import Stack
from tests.conformance.plans_on_record import PlansOnRecord
from tests.conformance.stores import Site, sqlite_in_memory
from tests.conformance.tenant import put_policy

MOST_TICKS = 2_000
MANY = 1_000_000


class World:
    """One database and the node on it. Every method acts at `now`; only `move` changes it, and the clock with it."""

    def __init__(self, now: int, site: Site | None = None) -> None:
        self.now = self.latest = now
        self._site = site or sqlite_in_memory()
        self.running: list[Job] = []
        self.policies: dict[str, QuietHoursPolicy] = {}
        self.names: list[str] = []
        self.created = 0
        self.is_paused = False
        self._starts = 0
        self._plans_on_record = PlansOnRecord()
        self._clock = ManualClock(to_datetime(now))
        self._open()

    def close(self) -> None:
        self.stack.close()
        self._site.close()

    def restart(self) -> None:
        """Replace the process on the same database: nothing in memory survives."""
        self.stack.close()
        self._open()

    def _open(self) -> None:
        self.stack: Stack = self._site.open(self._clock)
        runtime = store_of(self.stack.runtime)
        self.slots, self.catalogue, self.ledger = runtime.slots, runtime.catalogue, runtime.ledger
        self.upkeep = runtime.upkeep
        self._begin()

    def _begin(self) -> None:
        """Put the node of this process on record, as `engine.service` does."""
        self._starts += 1
        self.began_at = self.now
        last_heartbeat_at = self.slots.last_heartbeat_at()
        self._beat()
        self._record(Event("scheduler.started", self.now, detail={"last_heartbeat_at": last_heartbeat_at}))

    def _beat(self) -> None:
        self.slots.heartbeat(self.now, node=f"scheduler-{self._starts}", version="0", is_scheduler=True)

    # -- time --

    def move(self, duration: int) -> None:
        before = self.now
        self.now += duration
        self.latest = max(self.latest, self.now)
        self._clock.set(to_datetime(self.now))
        if duration < 0:
            detail = {"from": before, "to": self.now}
            self._record(Event("scheduler.clock_stepped", self.now, detail=detail))

    @contextmanager
    def having_waited(self, duration: int) -> Iterator[None]:
        """Run the block as a caller that read the clock first and then waited for its transaction, while slots were
        fired."""
        asked_at = self.now
        self.move(duration)
        self.tick()
        self.now, its_turn_at = asked_at, self.now
        try:
            yield
        finally:
            self.now = its_turn_at

    def tick(self, limit: int = 7) -> int:
        """Evaluate both lanes until nothing is left."""
        fired = 0
        self._beat()
        for behind in (False, True):
            for _ in range(MOST_TICKS):
                report = self.slots.tick(self.now, limit=limit, behind=behind, alive_since=self.began_at)
                fired += report.fired
                if not report.schedules:
                    break
            else:
                raise AssertionError("an evaluation finds the same schedules due again and again")
        assert not self.stuck(), self.stuck()
        return fired

    # -- schedules --

    def create(self, schedule_id: str, definition: Definition, *, is_enabled: bool = True) -> bool:
        self.created += 1
        plan = self._plan(schedule_id, definition)
        try:
            creation = edit.create(plan, f"{self.created:012x}", self.now, is_enabled=is_enabled)
            self.catalogue.create(self.now, [Insertion(creation, plan, "api")])
        except SchedulerError:
            return False
        self.names.append(schedule_id)
        return True

    def edit(self, schedule_id: str, definition: Definition) -> bool:
        plan = self._plan(schedule_id, definition)
        return self._change(schedule_id, lambda s, now, shared: edit.edit(s, plan, now, shared))

    def pause(self, schedule_id: str) -> bool:
        return self._change(schedule_id, lambda s, now, shared: status.pause(s, now, shared, by="person"))

    def resume(self, schedule_id: str) -> bool:
        return self._change(schedule_id, status.resume)

    def revive(self, schedule_id: str) -> bool:
        return self._change(schedule_id, status.revive)

    def invalidate(self, schedule_id: str) -> bool:
        return self._change(schedule_id, lambda s, now, shared: status.invalidate(s, now, shared, "gone"))

    def restore(self, schedule_id: str) -> bool:
        return self._change(schedule_id, status.restore)

    def restore_backup(self, after: int, *, catch_up: bool) -> None:
        """Treat the present state as a backup that is restored so much later; what happened in between is not known."""
        store = SqliteStore(self.stack.database) if self._is_on_sqlite else PostgresStore(self.stack.database)
        store.write(Lane.API, lambda tx: tx.put_setting(BACKED_UP_AT, str(self.now)))
        self.move(after)
        store.write(Lane.API, lambda tx: go_on_from_backup(tx, self.now, catch_up=catch_up))
        self.running.clear()
        self.restart()

    @property
    def _is_on_sqlite(self) -> bool:
        return isinstance(self.stack.database, SqliteDatabase)

    def delete(self, schedule_id: str, *, cancel_running: bool) -> None:
        self.names.remove(schedule_id)
        self.catalogue.delete(
            self.now,
            schedule_id,
            lambda s, now, shared: status.delete(s, now, shared, cancel_running=cancel_running, by="person"),
        )

    # -- by hand --

    def trigger(self, schedule_id: str, *, if_running: IfRunning) -> bool:
        return self._change(
            schedule_id, lambda s, now, shared: by_hand.trigger(s, now, shared, if_running=if_running)
        )

    def request(self, schedule_id: str) -> bool:
        return self._change(schedule_id, by_hand.fire)

    def backfill(self, schedule_id: str, span: int, *, if_running: IfRunning) -> bool:
        """Fill the newest few slots of a span that have no job."""
        state = next(state for state in self.states() if state.schedule_id == schedule_id)
        with self.ledger.history([state.uid]) as record:
            (history,) = record.histories
            taken = {job.slot_at for job in history.jobs}
            try:
                planned = by_hand.slots_of_history(history, self.now - span, self.now, most=20)
            except SchedulerError:
                return False
        slots = [slot for slot in planned if slot not in taken][-3:]
        return self._change(
            schedule_id, lambda s, now, shared: by_hand.backfill(s, slots, now, shared, if_running=if_running)
        )

    def outstanding(self) -> list[tuple[str, str]]:
        """Return uid and id of the outstanding jobs, those of deleted schedules included."""
        found = self.ledger.jobs(JobFilter(statuses=("queued", "running")), limit=MANY)
        return [(job.uid, job.job_id) for job in reversed(found)]

    def cancel(self, job: tuple[str, str]) -> None:
        uid, job_id = job
        if any(state.uid == uid for state in self.states()):
            self._change(uid, lambda s, now, shared: by_hand.cancel_job(s, job_id, now, shared))
        else:
            self.catalogue.cancel_orphan(self.now, job_id)

    # -- what schedules share --

    def put_policy(self, policy: QuietHoursPolicy) -> None:
        self.policies[policy.policy_id] = policy
        put_policy(store_of(self.stack.runtime), policy)

    def pause_system(self, is_paused: bool) -> None:
        self.catalogue.set_system_paused(self.now, is_paused)
        self.is_paused = is_paused

    def states(self) -> list[State]:
        return sorted(self.catalogue.states(ScheduleFilter(), limit=MANY))

    # -- jobs --

    def claim(self, node: str, limit: int) -> list[Job]:
        claimed = [c.job for c in self.slots.claim_jobs(self.now, node=node, limit=limit)]
        self.running.extend(claimed)
        return claimed

    def settle(self, ends: Sequence[tuple[Job, Outcome]]) -> None:
        for job, _ in ends:
            self.running.remove(job)
        self.slots.settle(self.now, [JobEnd(job.job_id, job.fence, outcome) for job, outcome in ends])

    # -- proof --

    def check(self) -> LedgerReport:
        with self.ledger.history() as record:
            return check_ledger(record, self.now, tolerance=0)  # transactions run one after another

    def plans_not_on_record(self) -> list[str]:
        """Return the plans that this process has cached and that are not stored."""
        return self._plans_on_record.faults(self.stack)

    def stuck(self) -> list[str]:
        """Return schedules that nothing will ever advance, right after an evaluation: due ones, and held ones with a
        free place.

        A place that was offered before the clock was put back is not free: the offer stands, and takes effect when the
        clock shows that instant again.
        """
        if self.is_paused:
            return []
        with self.ledger.history() as record:
            limits = {limit.key: limit.outstanding for limit in record.limits or ()}
        states = self.states()
        offered = {state.held_key for state in states if self._is_offered_later(state)}
        return [sentence for state in states if (sentence := self._stuck(state, limits, offered)) is not None]

    def _is_offered_later(self, state: State) -> bool:
        return state.release_at is not None and self.now < state.release_at <= self.latest

    def _stuck(self, state: State, limits: dict[str, int], offered: set[str | None]) -> str | None:
        if state.next_run_at is not None and state.next_run_at <= self.now:
            return f"{state.schedule_id} is due, and was not evaluated"
        if state.held_slot_at is None or state.held_key is None or state.held_key in offered:
            return None
        schedule = self.catalogue.get(state.schedule_id)
        assert schedule is not None
        definition = schedule.definition
        rule = definition.guard if state.held_reason == "outstanding_limit" else definition.capacity
        if rule is None or limits.get(state.held_key, 0) < rule.limit:
            return f"{state.schedule_id} is held by {state.held_key}, which has room"
        return None

    def audit(self) -> list[str]:
        """Return the record as text, for the reader of a failed test; seconds count from the first event."""
        events = [recorded.event for recorded in reversed(self.ledger.events(EventFilter(), limit=MANY))]
        jobs = list(reversed(self.ledger.jobs(JobFilter(), limit=MANY)))
        zero = min([event.at for event in events], default=0)
        return [
            *(_words("event", event._asdict(), zero) for event in events),
            *(_words("job", job._asdict(), zero) for job in jobs),
            *(_words("row", state._asdict(), zero) for state in self.states()),
        ]

    # -- inside --

    def _plan(self, schedule_id: str, definition: Definition) -> Plan:
        quiet = self.policies.get(definition.quiet_hours_id) if definition.quiet_hours_id else None
        return Plan(schedule_id, definition, quiet)

    def _change(self, schedule_id: str, decide: Callable[[Schedule, int, Shared], Decision]) -> bool:
        """Change a schedule; return False when it was refused and nothing changed."""
        try:
            self.catalogue.change(self.now, schedule_id, decide)
        except SchedulerError:
            return False
        return True

    def _record(self, event: Event) -> None:
        self.slots.record([event])


def _words(kind: str, columns: Mapping[str, object], zero: int) -> str:
    reported = [_word(name, value, zero) for name, value in columns.items() if value not in (None, {}, 0, "")]
    return " ".join([kind, *reported])


def _word(name: str, value: object, zero: int) -> str:
    is_instant = isinstance(value, int) and (name == "at" or name.endswith("_at") or name == "not_before")
    if is_instant and isinstance(value, int):
        return f"{name}=+{(value - zero) / SECOND:g}"
    return f"{name}={value}"
