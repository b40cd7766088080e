"""What a store must do with a decision, in memory: the reference for every real one.

It owns a clock that is moved by hand, keeps rows and jobs, and commits each `Decision` whole: the new state, the
new jobs, the ended ones, the events, and what changed in the shared limits and breakers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everwhen.decide.edit import create, edit
from everwhen.decide.settle import cancel_catch_up, rescue, settle
from everwhen.decide.status import pause, resume, revive
from everwhen.decide.tick import tick
from everwhen.model.changes import Decision
from everwhen.model.events import Event
from everwhen.model.job import Job
from everwhen.model.limits import Breaker, Coverage, Limit, Shared, Transition
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.schedule import Plan, Schedule, State
from tests.keeping import kept


class World:
    """Schedules, jobs and a clock."""

    def __init__(self, now: int, *, alive: tuple[tuple[int, int], ...] = (), stagger: int = 0) -> None:
        self.now = now
        self.alive = alive
        self.stagger = stagger
        self.rows: dict[str, tuple[State, Plan]] = {}
        self.jobs: dict[str, Job] = {}
        self.events: list[Event] = []
        self.limits: dict[str, Limit] = {}
        self.breakers: dict[str, Breaker] = {}
        self.transitions: list[Transition] = []

    # -- schedules --

    def add(self, *schedules: Schedule) -> None:
        for schedule in schedules:
            self.rows[schedule.state.uid] = (schedule.state, schedule.plan)
            self.jobs.update({job.job_id: job for job in schedule.outstanding})

    def create(self, plan: Plan, uid: str) -> None:
        state, events = create(plan, uid, self.now)
        self.rows[uid] = (state, plan)
        self.events.extend(events)

    def schedule(self, uid: str = "a1b2c3d4e5f6") -> Schedule:
        state, plan = self.rows[uid]
        return Schedule(state, plan, self.outstanding(uid))

    def state(self, uid: str = "a1b2c3d4e5f6") -> State:
        return self.rows[uid][0]

    def pause(self, uid: str = "a1b2c3d4e5f6") -> None:
        self._change(lambda shared: pause(self.schedule(uid), self.now, shared, by="anna"))

    def resume(self, uid: str = "a1b2c3d4e5f6") -> None:
        self._change(lambda shared: resume(self.schedule(uid), self.now, shared, by="anna"))

    def revive(self, uid: str = "a1b2c3d4e5f6") -> None:
        self._change(lambda shared: revive(self.schedule(uid), self.now, shared, by="anna"))

    def edit(self, plan: Plan, uid: str = "a1b2c3d4e5f6") -> None:
        self._change(lambda shared: edit(self.schedule(uid), plan, self.now, shared))

    def delete(self, uid: str = "a1b2c3d4e5f6") -> None:
        del self.rows[uid]

    # -- the clock --

    def go_to(self, instant: int) -> None:
        """Move the clock, and evaluate at every instant at which something is due."""
        while (due_at := self._next_due_at()) is not None and due_at <= instant:
            self.now = max(self.now, due_at)
            self.tick()
        self.now = max(self.now, instant)

    def jump_to(self, instant: int) -> list[Decision]:
        """Nobody was there in between: one evaluation at the end."""
        self.now = instant
        return self.tick()

    def tick(self) -> list[Decision]:
        """One evaluation of everything that is due or released, committed."""
        shared = self._shared()
        due = [self.schedule(uid) for uid, (state, _) in self.rows.items() if self._is_due(state)]
        decisions = tick(due, self.now, shared)
        self._commit(decisions, shared)
        return decisions

    def _next_due_at(self) -> int | None:
        instants = [
            at
            for state, _ in self.rows.values()
            for at in (state.next_run_at, state.release_at)
            if at is not None and state.status == "active"
        ]
        return min(instants, default=None)

    def _is_due(self, state: State) -> bool:
        instants = [at for at in (state.next_run_at, state.release_at) if at is not None]
        return state.status == "active" and any(at <= self.now for at in instants)

    # -- jobs --

    def outstanding(self, uid: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.uid == uid and job.is_outstanding]

    def claimable(self) -> list[Job]:
        """What a free worker could take now, in the order in which it would."""
        found = [job for job in self.jobs.values() if job.status == "queued" and self._may_run(job)]
        found.sort(key=lambda job: job.slot_at)
        return [job for place, job in enumerate(found) if not self._stands_behind(job, found[:place])]

    def start(self, job: Job | None = None) -> Job:
        """A worker takes a job: the next one, or this one. One that waited takes its places now."""
        job = self.claimable()[0] if job is None else job
        assert job in self.claimable()
        if not job.is_counted:
            self._move(job.guard_key, outstanding=1)
            self._move(job.capacity_key, outstanding=1)
        self._move(job.capacity_key, running=1)
        self._count_start(job)
        running = job._replace(
            status="running", is_counted=True, attempt=job.attempt + 1, started_at=self.now
        )
        self.jobs[job.job_id] = running
        return running

    def finish(self, job: Job, outcome: Outcome = SUCCEEDED) -> None:
        """A run ends. A job that is over already stays as it is; its worker lets go, and that is all."""
        if self.jobs[job.job_id].status != "running":
            self._let_go(self.jobs[job.job_id])
            return
        shared = self._shared()
        row = self.rows.get(job.uid)
        schedule = None if row is None else Schedule(row[0], row[1], self.outstanding(job.uid))
        settled = settle(self.jobs[job.job_id], outcome, schedule, self.now, shared)
        self.jobs[job.job_id] = settled.job._replace(
            status=outcome.status, error=outcome.error, ended_at=self.now, released_at=self.now
        )
        self._commit([settled.decision] if settled.decision else [], shared)
        self._cancel_catch_up({change.key for change in shared.transitions if change.to_state == "open"})

    def run(self, outcome: Outcome = SUCCEEDED) -> Job:
        """Take the next job and end it at once."""
        job = self.start()
        self.finish(job, outcome)
        return job

    def kill_worker(self, job: Job) -> None:
        """The lease of a running job expires: it goes back to queued, or is lost."""
        job = self.jobs[job.job_id]
        state, plan = self.rows[job.uid]
        lost = rescue(job, plan.definition.on_lost)
        if lost is not None:
            self.finish(job, lost)
            return
        self._move(job.capacity_key, running=-1)
        self.rows[job.uid] = (state._replace(running_jobs=state.running_jobs - 1), plan)
        self.jobs[job.job_id] = job._replace(status="queued", rescues=job.rescues + 1, fence=job.fence + 1)

    def _let_go(self, job: Job) -> None:
        """The worker of a killed run is free again."""
        state, plan = self.rows[job.uid]
        self._move(job.capacity_key, running=-1)
        self.rows[job.uid] = (state._replace(running_jobs=state.running_jobs - 1), plan)
        self.jobs[job.job_id] = job._replace(released_at=self.now)
        self._make_next_ready(job.uid)

    def _may_run(self, job: Job) -> bool:
        has_time = job.not_before is None or job.not_before <= self.now
        running = self.limits.get(job.capacity_key or "", Limit("")).running
        return job.is_ready and has_time and (job.capacity_limit is None or running < job.capacity_limit)

    def _stands_behind(self, job: Job, before: Sequence[Job]) -> bool:
        """Jobs of one schedule run one after another, in order of slot_at, unless they are allowed to overlap."""
        is_busy = self.rows[job.uid][0].running_jobs or any(other.uid == job.uid for other in before)
        return job.line == "own" and bool(is_busy)

    def _count_start(self, job: Job) -> None:
        state, plan = self.rows[job.uid]
        waited = job.not_before is not None and job.rescues == 0
        state = state._replace(
            running_jobs=state.running_jobs + 1,
            waiting=state.waiting - waited,
            retries_waiting=state.retries_waiting - (waited and job.origin == "retry"),
            last_run_at=self.now if job.is_own else state.last_run_at,
        )
        self.rows[job.uid] = (state, plan)

    def _move(self, key: str | None, *, outstanding: int = 0, running: int = 0) -> None:
        if key is not None:
            self.limits[key] = self.limits.get(key, Limit(key)).moved(outstanding, running)

    # -- commits --

    def _shared(self) -> Shared:
        return Shared(dict(self.limits), dict(self.breakers), Coverage(self.alive), self.stagger)

    def _change(self, decide: Callable[[Shared], Decision]) -> None:
        shared = self._shared()
        self._commit([decide(shared)], shared)

    def _commit(self, decisions: list[Decision], shared: Shared) -> None:
        for decision in decisions:
            self._commit_one(decision)
        freed = {key for key in shared.touched_limits if self._is_freed(shared.limits[key])}
        self.limits.update({key: shared.limits[key] for key in shared.touched_limits})
        self.breakers.update({key: shared.breakers[key] for key in shared.touched_breakers})
        self.transitions.extend(shared.transitions)
        self._release(freed)

    def _cancel_catch_up(self, keys: set[str]) -> None:
        """A breaker that opens takes the queued catch-up jobs of its key with it, whosever they are."""
        for uid in self.rows:
            shared = self._shared()
            self._commit([cancel_catch_up(self.schedule(uid), keys, self.now, shared)], shared)

    def _commit_one(self, decision: Decision) -> None:
        uid = decision.after.uid
        assert self.rows[uid][0] == decision.before, "a decision is committed onto the row that it saw"
        self.rows[uid] = (decision.after, decision.plan)
        for new in decision.jobs:
            job = kept(new, len(self.jobs) + 1, decision.after, decision.plan, self.now)
            assert self.jobs.setdefault(job.job_id, job) is job, "an id is given once"
        for job, reason in decision.cancelled:
            self.jobs[job.job_id] = job._replace(status="cancelled", reason=reason, ended_at=self.now)
        self.events.extend(decision.events)
        self._make_next_ready(uid)

    def _make_next_ready(self, uid: str) -> None:
        """Nothing stands before the first in line any more; those that wait for their time hold nobody back."""
        queued = [job for job in self.outstanding(uid) if job.status == "queued" and job.not_before is None]
        behind = [job for job in queued if job.line == "own" and not job.is_ready]
        if behind and len(behind) == len(queued) and not self.rows[uid][0].running_jobs:
            first = min(behind, key=lambda job: (job.slot_at, job.number))
            self.jobs[first.job_id] = first._replace(is_ready=True)

    def _is_freed(self, limit: Limit) -> bool:
        return limit.outstanding < self.limits.get(limit.key, Limit(limit.key)).outstanding

    def _release(self, keys: set[str]) -> None:
        """A place of a key was given back: the slots that wait for it are looked at again."""
        for uid, (state, plan) in self.rows.items():
            if state.held_key in keys:
                self.rows[uid] = (state._replace(release_at=self.now), plan)
