"""The slots port on SQLite: one writer, whole transactions, batches.

Every verb reads, decides and writes inside one transaction on the process's writer connection, under the file
lock. Between two processes there is therefore no race to lose: what one has claimed the other never sees due.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from everwhen.decide import rescue as rescues
from everwhen.decide.claim import claim
from everwhen.decide.draft import Draft
from everwhen.decide.settle import Settlement, settle
from everwhen.decide.tick import continue_chain, tick
from everwhen.model.breaker import Breaker, Transition
from everwhen.model.claim import ClaimedJob
from everwhen.model.events import Event
from everwhen.model.instants import DAY, SECOND
from everwhen.model.job import Job
from everwhen.model.limits import Limit
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Plan, Schedule, State
from everwhen.model.shared import Coverage, Shared, keys_of
from everwhen.ports.slots import JobEnd, TickReport
from everwhen.stores import statements as sql
from everwhen.stores.plans import PlanCache
from everwhen.stores.sqlite_commit import commit_decisions, move_states, write_events, write_shared
from everwhen.stores.sqlite_database import Lane, SqliteDatabase

LATELY = 10 * SECOND
_PORTION = 1_000


class SqliteSlots:
    """Ticks, claims, settlements and rescues on one SQLite file."""

    def __init__(
        self, database: SqliteDatabase, plans: PlanCache, *, lately: int = LATELY, stagger: int = 0
    ) -> None:
        self._database = database
        self._plans = plans
        self._lately = lately
        self._stagger = stagger

    # -- tick --

    def tick(self, now: int, *, limit: int, behind: bool = False) -> TickReport:
        if not self._anything_due(now, behind):
            return TickReport()
        return self._database.write(Lane.TICK, lambda c: self._tick(c, now, limit, behind))

    def _anything_due(self, now: int, behind: bool) -> bool:
        # A read is a hundredth of a write; most wake-ups find nothing.
        wake_at = self.next_wake_at()
        return wake_at is not None and wake_at <= (now - self._lately if behind else now)

    def _tick(self, connection: sqlite3.Connection, now: int, limit: int, behind: bool) -> TickReport:
        if is_system_paused(connection):
            return TickReport()
        rows = self._due_rows(connection, now, limit, behind)
        if not rows:
            return TickReport()
        states = [State._make(row) for row in rows]
        schedules = self.schedules_of(connection, states)
        shared = load_shared(connection, schedules, [job for s in schedules for job in s.outstanding])
        shared.stagger = self._stagger
        if min(state.next_run_at or now for state in states) < now - SECOND:  # something may be missed
            shared.coverage = _coverage(connection, now)
        decisions = tick(schedules, now, shared)
        commit_decisions(connection, decisions, shared, now)
        fired = sum(len(decision.jobs) for decision in decisions)
        return TickReport(len(rows), fired, more=len(rows) >= limit, woke_workers=fired > 0)

    def _due_rows(
        self, connection: sqlite3.Connection, now: int, limit: int, behind: bool
    ) -> list[tuple[object, ...]]:
        values = {"now": now, "floor": now - self._lately, "limit": limit}
        if behind:
            return connection.execute(sql.DUE_BEHIND, values).fetchall()
        released = connection.execute(sql.RELEASED, values).fetchall()
        values["limit"] -= len(released)
        return released + connection.execute(sql.DUE_LATELY, values).fetchall()

    def next_wake_at(self) -> int | None:
        return self._earliest(sql.NEXT_WAKE)

    # -- loading --

    def schedules_of(self, connection: sqlite3.Connection, states: Sequence[State]) -> list[Schedule]:
        """Rows with their plans, and with their outstanding jobs where the decision looks at them."""
        plans = self._plans.load(connection, [(state.uid, state.revision) for state in states])
        return [self._schedule(connection, state, plans[state.uid, state.revision]) for state in states]

    def _schedule(self, connection: sqlite3.Connection, state: State, plan: Plan) -> Schedule:
        if state.outstanding and plan.definition.if_running == "cancel":
            return Schedule(state, plan, outstanding_jobs(connection, state.uid))
        return Schedule(state, plan)

    # -- claim --

    def claim_jobs(
        self, now: int, *, node: str, limit: int, queues: Sequence[str] | None = None
    ) -> list[ClaimedJob]:
        ready_at = self.next_ready_at()
        if ready_at is None or ready_at > now:
            return []
        return self._database.write(Lane.CLAIM, lambda c: self._claim(c, now, node, limit, queues))

    def _claim(
        self,
        connection: sqlite3.Connection,
        now: int,
        node: str,
        limit: int,
        queues: Sequence[str] | None,
    ) -> list[ClaimedJob]:
        if is_system_paused(connection):
            return []
        wanted = None if queues is None else json.dumps(list(queues))
        for look in (limit + 10, 4 * limit + 100):  # further only where some of the nearest may not be taken
            values = {"now": now, "limit": look, "queues": wanted}
            jobs = [Job._make(row) for row in connection.execute(sql.READY_JOBS, values)]
            states = load_states(connection, {job.uid for job in jobs})
            before = dict(states)
            shared = load_shared(connection, (), jobs)
            plans = self._plans.load(connection, [(job.uid, job.revision) for job in jobs])
            taken, postponed = claim(jobs, plans, states, shared, node=node, limit=limit, now=now)
            if len(taken) == limit or len(jobs) < look:
                break
        started = [(now, c.job.deadline_at, node, c.job.is_probe, c.job.row_id) for c in taken]
        connection.executemany(sql.START_JOB, started)
        probes = [t for t in shared.transitions if t.to_state == "half_open"]
        write_events(connection, [_half_opened(t) for t in probes])
        connection.executemany(sql.POSTPONE_JOB, [(until, job.row_id) for job, until in postponed])
        uids = {c.job.uid for c in taken} & states.keys()
        move_states(connection, [(before[uid], states[uid]) for uid in uids])
        write_shared(connection, shared, now)
        return taken

    def next_ready_at(self) -> int | None:
        return self._earliest(sql.NEXT_READY)

    def _earliest(self, statement: str) -> int | None:
        with self._database.read() as connection:
            if is_system_paused(connection):  # a loop that was told of a due slot would not sleep at all
                return None
            found: int | None = connection.execute(statement).fetchone()[0]
            return found

    # -- settle --

    def settle(self, now: int, ends: Sequence[JobEnd]) -> int:
        if not ends:
            return 0
        return self._database.write(Lane.SETTLE, lambda c: self._settle(c, now, ends))

    def _settle(self, connection: sqlite3.Connection, now: int, ends: Sequence[JobEnd]) -> int:
        jobs = load_jobs(connection, [end.job_id for end in ends])
        current: dict[str, tuple[Job, Outcome]] = {}
        for end in ends:
            job = jobs.get(end.job_id)
            if job is not None and _is_held_by(job, end.fence):
                current.setdefault(end.job_id, (job, end.outcome))  # the first word about a job is the last
        self.end_jobs(connection, list(current.values()), now)
        return len(current)

    def end_jobs(
        self, connection: sqlite3.Connection, ended: Sequence[tuple[Job, Outcome]], now: int
    ) -> None:
        """Settle jobs inside a transaction: each sees the ones before it."""
        states = load_states(connection, {job.uid for job, _ in ended})
        schedules = {s.state.uid: s for s in self.schedules_of(connection, list(states.values()))}
        shared = load_shared(connection, schedules.values(), [job for job, _ in ended])
        opened: set[str] = set()
        pending: list[Settlement] = []
        for job, outcome in ended:
            if job.status == "cancelled":  # it was over already; now its worker has let go of it
                self._write_settlements(connection, pending, now)
                _let_go(connection, job, schedules, shared, now)
                continue
            schedule = schedules.get(job.uid)
            if schedule is not None and _needs_jobs(schedule, job):
                self._write_settlements(connection, pending, now)  # each sees the ones before it
                schedule = _with_jobs(connection, schedule, job)
            if schedule is not None and schedule.outstanding:  # of older revisions, with keys of their own
                load_more(connection, shared, [], schedule.outstanding)
            settlement = settle(job, outcome, schedule, now, shared)
            pending.append(settlement)
            if settlement.decision is not None:
                schedules[job.uid] = Schedule(settlement.decision.after, settlement.decision.plan)
        self._write_settlements(connection, pending, now)
        opened |= {t.key for t in shared.transitions if t.to_state == "open"}
        for key in opened:
            self._cancel_catch_up(connection, key, schedules, shared, now)
        write_shared(connection, shared, now)

    def _write_settlements(self, connection: sqlite3.Connection, pending: list[Settlement], now: int) -> None:
        """Write what was settled since the last time, and forget it."""
        if not pending:
            return
        connection.executemany(
            sql.END_JOB, [(o.status, now, now, o.error, o.result, job.row_id) for job, o, _ in pending]
        )
        decisions = [decision for _, _, decision in pending if decision is not None]
        commit_decisions(connection, decisions, Shared(), now)
        for job, _, decision in pending:
            beside = job.origin == "backfill"
            # Where nothing is outstanding nobody stands in line.
            if beside or (job.is_serial if decision is None else decision.after.outstanding):
                connection.execute(sql.READY_SUCCESSOR, {"now": now, "uid": job.uid, "beside": beside})
        pending.clear()

    def _cancel_catch_up(
        self,
        connection: sqlite3.Connection,
        key: str,
        schedules: dict[str, Schedule],
        shared: Shared,
        now: int,
    ) -> None:
        """A breaker that opens takes the queued catch-up jobs of its key with it (R6)."""
        # idx_jobs_outstanding, whole: what is outstanding is little beside what was.
        query = f"""SELECT {sql.JOB} FROM jobs WHERE status IN ('queued', 'running') AND status = 'queued'
            AND breaker_key = ? AND origin = 'catch_up'"""
        jobs = [Job._make(row) for row in connection.execute(query, (key,))]
        missing = {job.uid for job in jobs} - set(schedules)
        for schedule in self.schedules_of(connection, list(load_states(connection, missing).values())):
            schedules[schedule.state.uid] = schedule
        load_more(connection, shared, list(schedules.values()), jobs)
        for uid in dict.fromkeys(job.uid for job in jobs):
            if uid not in schedules:
                continue
            draft = Draft(schedules[uid], now, shared)
            for job in jobs:
                if job.uid == uid:
                    draft.cancel(job, "circuit_open")
                    _continue_chain(draft, job)
            decision = draft.decision()
            commit_decisions(connection, [decision], Shared(), now)
            schedules[uid] = Schedule(decision.after, decision.plan)

    # -- leases --

    def rescue(self, now: int, *, node: str, lease: int) -> int:
        return self._database.write(Lane.SETTLE, lambda c: self._rescue(c, now, node, lease))

    def _rescue(self, connection: sqlite3.Connection, now: int, node: str, lease: int) -> int:
        values = {"node": node, "before": now - lease}
        jobs = [Job._make(row) for row in connection.execute(sql.JOBS_OF_DEAD_NODES, values)]
        plans = self._plans.load(connection, [(job.uid, job.revision) for job in jobs])
        write_events(connection, [_about(job, "job.lost", now) for job in jobs if job.status == "running"])
        lost: list[tuple[Job, Outcome]] = []
        for job in jobs:
            outcome = rescues.rescue(job, plans[job.uid, job.revision].definition.on_lost)
            if job.status != "running" or outcome is not None:
                lost.append((job, outcome or Outcome("lost")))
            else:
                self._requeue(connection, job, now)
        self.end_jobs(connection, lost, now)
        return len(jobs)

    def _requeue(self, connection: sqlite3.Connection, job: Job, now: int) -> None:
        """Same id, new fencing token; it keeps its place in the limits but runs nowhere."""
        connection.execute(sql.REQUEUE_JOB, {"now": now, "row_id": job.row_id})
        connection.execute("UPDATE schedules SET running_jobs = running_jobs - 1 WHERE uid = ?", (job.uid,))
        if job.capacity_key is not None:
            connection.execute("UPDATE limits SET running = running - 1 WHERE key = ?", (job.capacity_key,))
        write_events(connection, [_about(job, "job.rescued", now)])

    def cancel_requests(self, node: str) -> list[str]:
        with self._database.read() as connection:
            return [row[0] for row in connection.execute(sql.CANCEL_REQUESTS, {"node": node})]

    def heartbeat(self, now: int, *, node: str, version: str, is_scheduler: bool) -> None:
        values = {"node": node, "version": version, "scheduler": is_scheduler, "now": now}
        self._database.write(Lane.SETTLE, lambda c: c.execute(sql.HEARTBEAT, values))

    def record(self, events: Sequence[Event]) -> None:
        self._database.write(Lane.SETTLE, lambda c: write_events(c, events))

    def last_heartbeat_at(self) -> int | None:
        with self._database.read() as connection:
            found: int | None = connection.execute(sql.LAST_HEARTBEAT).fetchone()[0]
            return found

    def farewell(self, now: int, *, node: str) -> None:
        self._database.write(Lane.SETTLE, lambda c: c.execute(sql.FAREWELL, {"now": now, "node": node}))


def _is_held_by(job: Job, fence: int) -> bool:
    """Whether that claim still holds; a rescued job has a new fence, and the old worker's word counts no more."""
    return job.fence == fence and job.node is not None and job.released_at is None


def _continue_chain(draft: Draft, job: Job) -> None:
    """The slot of a chain is over with its job, and the next is counted from here (T3)."""
    state = draft.state
    waits = state.status == "active" and state.next_slot_at is None and state.held_slot_at is None
    if draft.plan.definition.is_chain and waits:
        continue_chain(draft, max(job.slot_at, state.last_slot_at or 0), draft.now)


def _needs_jobs(schedule: Schedule, job: Job) -> bool:
    """The end of a run may end its schedule, and with it the queued jobs: then they are needed."""
    return job.is_own and schedule.state.outstanding >= 2


def _with_jobs(connection: sqlite3.Connection, schedule: Schedule, job: Job) -> Schedule:
    others = [other for other in outstanding_jobs(connection, job.uid) if other.row_id != job.row_id]
    return Schedule(schedule.state, schedule.plan, others)


# -- claims --


def _let_go(
    connection: sqlite3.Connection, job: Job, schedules: dict[str, Schedule], shared: Shared, now: int
) -> None:
    """The worker of a cancelled job has ended: only now does it stop counting as running."""
    connection.execute(sql.RELEASE_JOB, (now, job.row_id))
    shared.move(job.capacity_key, running=-1)
    schedule = schedules.get(job.uid)
    if schedule is not None:
        state = schedule.state._replace(running_jobs=schedule.state.running_jobs - 1)
        connection.execute(sql.UPDATE_STATE, (*state[3:], state.row_id))
        schedules[job.uid] = Schedule(state, schedule.plan)
    beside = job.origin == "backfill"
    connection.execute(sql.READY_SUCCESSOR, {"now": now, "uid": job.uid, "beside": beside})


# -- loading --


def load_states(connection: sqlite3.Connection, uids: Iterable[str]) -> dict[str, State]:
    query = f"SELECT {sql.STATE} FROM schedules WHERE uid IN"
    return {state.uid: state for state in map(State._make, _rows_of(connection, query, list(uids)))}


def load_jobs(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Job]:
    query = f"SELECT {sql.JOB} FROM jobs WHERE job_id IN"
    return {job.job_id: job for job in map(Job._make, _rows_of(connection, query, ids))}


def _rows_of(connection: sqlite3.Connection, query: str, keys: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """The rows of many keys, in portions: SQLite takes a bounded number of parameters."""
    for start in range(0, len(keys), _PORTION):
        portion = keys[start : start + _PORTION]
        yield from connection.execute(f"{query} ({', '.join('?' * len(portion))})", portion)


def outstanding_jobs(connection: sqlite3.Connection, uid: str) -> list[Job]:
    # idx_jobs_outstanding
    query = f"SELECT {sql.JOB} FROM jobs WHERE uid = ? AND status IN ('queued', 'running') ORDER BY slot_at"
    return [Job._make(row) for row in connection.execute(query, (uid,))]


def load_shared(
    connection: sqlite3.Connection, schedules: Iterable[Schedule], jobs: Iterable[Job] = ()
) -> Shared:
    """The limits and breakers that deciding these schedules and jobs needs."""
    limits: set[str] = set()
    breakers: set[str] = set()
    for plan in {id(s.plan): s.plan for s in schedules}.values():
        definition = plan.definition
        if definition.guard or definition.capacity or definition.breaker or definition.budgets:
            more_limits, more_breakers = keys_of(definition)
            limits |= more_limits
            breakers |= more_breakers
    for job in jobs:
        limits |= {key for key in (job.guard_key, job.capacity_key) if key is not None}
        breakers |= {job.breaker_key} if job.breaker_key is not None else set()
    return Shared(limits=load_limits(connection, limits), breakers=load_breakers(connection, breakers))


def load_more(
    connection: sqlite3.Connection, shared: Shared, schedules: Sequence[Schedule], jobs: Sequence[Job]
) -> None:
    """Add what these need and the working copy lacks."""
    more = load_shared(connection, schedules, jobs)
    shared.limits = more.limits | shared.limits
    shared.breakers = more.breakers | shared.breakers


def load_limits(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Limit]:
    wanted = sorted(keys)
    query = f"SELECT {', '.join(Limit._fields)} FROM limits WHERE key IN"
    found = {limit.key: limit for limit in map(Limit._make, _rows_of(connection, query, wanted))}
    return {key: found.get(key) or Limit(key) for key in wanted}


def load_breakers(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Breaker]:
    query = f"SELECT {', '.join(Breaker._fields)} FROM circuit_breakers WHERE key IN"
    rows = _rows_of(connection, query, sorted(keys))
    return {breaker.key: breaker for breaker in map(Breaker._make, rows)}


def _coverage(connection: sqlite3.Connection, now: int) -> Coverage:
    rows = connection.execute(sql.COVERAGE, {"since": now - 400 * DAY}).fetchall()
    merged: list[tuple[int, int]] = []
    for start, end in rows:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    steps = connection.execute(sql.CLOCK_STEPS, {"since": now - 400 * DAY}).fetchall()
    return Coverage(tuple(merged)).without([(start, end) for start, end in steps])


def system_paused_at(connection: sqlite3.Connection) -> int | None:
    """Since when the system switch is on; None when it is off."""
    row = connection.execute("SELECT value FROM settings WHERE key = 'system_paused'").fetchone()
    return int(row[0]) if row is not None and row[0] else None


def is_system_paused(connection: sqlite3.Connection) -> bool:
    return system_paused_at(connection) is not None


def _half_opened(transition: Transition) -> Event:
    """A retry that is the probe says so, as a slot does."""
    detail = {"key": transition.key}
    return Event("breaker.half_opened", transition.at, job_id=transition.job_id, detail=detail)


def _about(job: Job, kind: str, now: int) -> Event:
    return Event(kind, now, job.schedule_id, job.uid, slot_at=job.slot_at, job_id=job.job_id)  # type: ignore[arg-type]
