"""A scheduler without threads: the real store in memory, a clock moved by hand, workers that do as they are told."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from everwhen.decide import by_hand, edit, status
from everwhen.decide.check_ledger import LedgerReport, check_ledger
from everwhen.errors import SchedulerError
from everwhen.model.decision import Decision
from everwhen.model.events import Event
from everwhen.model.instants import SECOND
from everwhen.model.job import Job
from everwhen.model.outcome import Outcome
from everwhen.model.policy import IfRunning
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, Schedule, State
from everwhen.model.shared import Shared
from everwhen.ports.catalogue import NewSchedule
from everwhen.ports.slots import JobEnd
from everwhen.stores.catalogue import StoredCatalogue
from everwhen.stores.flows.load import system_paused_at
from everwhen.stores.migrate import migrate
from everwhen.stores.migrations.sqlite import MIGRATIONS
from everwhen.stores.plans import PlanCache
from everwhen.stores.slots import StoredSlots
from everwhen.stores.sqlite_database import open_sqlite
from everwhen.stores.sqlite_ledger import SqliteLedger
from everwhen.stores.sqlite_transaction import SqliteStore, SqliteTransaction
from everwhen.stores.sqlite_upkeep import SqlitePremises
from everwhen.stores.upkeep import StoredUpkeep

MOST_TICKS = 2_000


class World:
    """One database and what works on it. Every verb is at `now`; only `move` moves it."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.database = open_sqlite("sqlite://")
        migrate(self.database, MIGRATIONS, applied_at=now)
        self.running: list[Job] = []
        self.policies: dict[str, QuietHoursPolicy] = {}
        self.names: list[str] = []
        self.created = 0
        self.restart()

    def close(self) -> None:
        self.database.close()

    def restart(self) -> None:
        """Another process on the same database: nothing in memory survives."""
        plans = PlanCache()
        store = SqliteStore(self.database)
        self.slots = StoredSlots(store, plans)
        self.catalogue = StoredCatalogue(store, plans)
        self.ledger = SqliteLedger(self.database, plans)
        self.upkeep = StoredUpkeep(store, SqlitePremises(self.database))

    # -- time --

    def move(self, duration: int) -> None:
        before = self.now
        self.now += duration
        if duration < 0:
            detail = {"from": before, "to": self.now}
            self._record(Event("scheduler.clock_stepped", self.now, detail=detail))

    def tick(self, limit: int = 7) -> int:
        """Evaluate both lanes until nothing is left."""
        fired = 0
        for behind in (False, True):
            for _ in range(MOST_TICKS):
                report = self.slots.tick(self.now, limit=limit, behind=behind)
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
            self.catalogue.create(self.now, [NewSchedule(creation, plan, "api")])
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

    def delete(self, schedule_id: str, *, cancel_running: bool) -> None:
        self.names.remove(schedule_id)
        self.catalogue.delete(
            self.now,
            schedule_id,
            lambda s, now, shared: status.end(s, now, shared, cancel_running=cancel_running, by="person"),
        )

    # -- by hand --

    def trigger(self, schedule_id: str, *, if_running: IfRunning) -> bool:
        return self._change(
            schedule_id, lambda s, now, shared: by_hand.trigger(s, now, shared, if_running=if_running)
        )

    def request(self, schedule_id: str) -> bool:
        return self._change(schedule_id, by_hand.fire)

    def backfill(self, schedule_id: str, span: int, *, if_running: IfRunning) -> bool:
        """Fill the newest few of a span whose slots have no job."""
        state = next(state for state in self.states() if state.schedule_id == schedule_id)
        with self.ledger.history([state.uid]) as history:
            (life,) = history.lives
            taken = {job.slot_at for job in life.jobs}
            try:
                planned = by_hand.slots_of_life(life, self.now - span, self.now, most=20)
            except SchedulerError:
                return False
        slots = [slot for slot in planned if slot not in taken][-3:]
        return self._change(
            schedule_id, lambda s, now, shared: by_hand.backfill(s, slots, now, shared, if_running=if_running)
        )

    def outstanding(self) -> list[tuple[str, str]]:
        """The outstanding jobs, of deleted schedules too: uid and id."""
        with self.database.read() as connection:
            query = "SELECT uid, job_id FROM jobs WHERE status IN ('queued', 'running') ORDER BY row_id"
            return [tuple(row) for row in connection.execute(query)]

    def cancel(self, job: tuple[str, str]) -> None:
        uid, job_id = job
        if any(state.uid == uid for state in self.states()):
            self._change(uid, lambda s, now, shared: by_hand.cancel_job(s, job_id, now, shared))
        else:
            self.catalogue.cancel_orphan(self.now, job_id)

    # -- what schedules share --

    def put_policy(self, policy: QuietHoursPolicy) -> None:
        self.policies[policy.policy_id] = policy
        self.catalogue.put_policy(self.now, policy)

    def pause_system(self, is_paused: bool) -> None:
        self.catalogue.set_system_paused(self.now, is_paused)

    def states(self) -> list[State]:
        with self.database.read() as connection:
            columns = ", ".join(State._fields)
            rows = connection.execute(f"SELECT {columns} FROM schedules ORDER BY row_id").fetchall()
        return [State._make(row) for row in rows]

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
        with self.ledger.history() as history:
            return check_ledger(history, self.now)

    def stuck(self) -> list[str]:
        """Schedules that nothing will ever move, right after an evaluation: due ones, and held ones with room."""
        with self.database.read() as connection:
            if system_paused_at(SqliteTransaction(connection)) is not None:
                return []
            limits = dict(connection.execute("SELECT key, outstanding FROM limits"))
        return [sentence for state in self.states() if (sentence := self._stuck(state, limits)) is not None]

    def _stuck(self, state: State, limits: dict[str, int]) -> str | None:
        if state.next_run_at is not None and state.next_run_at <= self.now:
            return f"{state.schedule_id} is due, and was not evaluated"
        if state.held_slot_at is None or state.held_key is None:
            return None
        schedule = self.catalogue.get(state.schedule_id)
        assert schedule is not None
        definition = schedule.definition
        rule = definition.guard if state.held_reason == "outstanding_limit" else definition.capacity
        if rule is None or limits.get(state.held_key, 0) < rule.limit:
            return f"{state.schedule_id} is held by {state.held_key}, which has room"
        return None

    def audit(self) -> list[str]:
        """The record in words, for the reader of a failed test; seconds count from the first event."""
        with self.database.read() as connection:
            zero: int = connection.execute("SELECT min(at) FROM audit_events").fetchone()[0] or 0
            events = connection.execute("SELECT * FROM audit_events ORDER BY id")
            found = [_words("event", events, zero)]
            jobs = connection.execute(
                """SELECT job_id, origin, status, slot_at, due_at, not_before, is_ready, attempt, created_at, ended_at,
                released_at, guard_key, capacity_key FROM jobs ORDER BY row_id"""
            )
            found.append(_words("job", jobs, zero))
            rows = connection.execute(
                """SELECT uid, schedule_id, revision, status, anchor_at, next_slot_at, next_run_at, held_slot_at,
                held_reason, held_key, release_at, outstanding, running_jobs, waiting, retries_waiting, last_slot_at,
                skip_reason, skip_count FROM schedules"""
            )
            found.append(_words("row", rows, zero))
        return [line for lines in found for line in lines]

    # -- inside --

    def _plan(self, schedule_id: str, definition: Definition) -> Plan:
        quiet = self.policies.get(definition.quiet_hours_id) if definition.quiet_hours_id else None
        return Plan(schedule_id, definition, quiet)

    def _change(self, schedule_id: str, decide: Callable[[Schedule, int, Shared], Decision]) -> bool:
        """False: refused, and nothing changed."""
        try:
            self.catalogue.change(self.now, schedule_id, decide)
        except SchedulerError:
            return False
        return True

    def _record(self, event: Event) -> None:
        self.slots.record([event])


def _words(kind: str, rows: sqlite3.Cursor, zero: int) -> list[str]:
    names = [column[0] for column in rows.description]
    return [
        " ".join(
            [kind, *(_word(n, v, zero) for n, v in zip(names, row, strict=True) if v not in (None, "{}", 0))]
        )
        for row in rows
    ]


def _word(name: str, value: object, zero: int) -> str:
    is_instant = isinstance(value, int) and (name == "at" or name.endswith("_at") or name == "not_before")
    if is_instant and isinstance(value, int):
        return f"{name}=+{(value - zero) / SECOND:g}"
    return f"{name}={value}"
