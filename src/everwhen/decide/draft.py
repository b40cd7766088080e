"""The decision about one schedule while it is being made: new state, jobs, events.

Each method records its decision everywhere that must agree: on the row, in the ledger, in the shared limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from everwhen.decide import breaker as breakers
from everwhen.decide import budgets, spacing
from everwhen.decide.overlap import is_ready, line_of
from everwhen.decide.slots import interval_of
from everwhen.model import row_changes
from everwhen.model.changes import Decision
from everwhen.model.events import NOTHING, Event, EventType
from everwhen.model.instants import HOUR, MINUTE
from everwhen.model.job import Job, NewJob, Origin, job_id
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome
from everwhen.model.policy import Budget
from everwhen.model.reasons import CancelReason, HoldReason, SkipReason
from everwhen.model.schedule import Schedule, Status

GATHERED_AT_MOST = 1_000


class EndedHold(NamedTuple):
    """What held a slot, since when, and the opening that it waited for, if that passed while nobody decided it."""

    reason: str
    held_at: int | None = None
    opening_at: int | None = None


class Draft:
    """The unfinished decision about one schedule at one instant."""

    __slots__ = (
        "before",
        "cancelled",
        "events",
        "jobs",
        "now",
        "outstanding",
        "pause_until",
        "plan",
        "shared",
        "state",
    )

    def __init__(self, schedule: Schedule, now: int, shared: Shared) -> None:
        self.before = self.state = schedule.state
        self.plan = schedule.plan
        self.outstanding = schedule.outstanding
        self.now = now
        self.shared = shared
        self.pause_until: int | None = None  # a budget that pauses is spent until then
        self.jobs: list[NewJob] = []
        self.events: list[Event] = []
        self.cancelled: list[tuple[Job, CancelReason]] = []

    def decision(self, refusal: SkipReason | None = None) -> Decision:
        """Return the decision; `refusal`: why a requested firing got no job."""
        changes = (self.jobs, self.events, self.cancelled)
        return Decision(self.before, self.state, self.plan, *changes, refusal)

    # -- what can happen to a slot --

    def fire(
        self,
        slot_at: int,
        due_at: int,
        origin: Origin = "schedule",
        *,
        not_before: int | None = None,
        is_probe: bool = False,
        stands_for: int = 1,
        behind: NewJob | None = None,
        is_on_time: bool = False,
    ) -> NewJob:
        """Add a job for the slot, and take the places and the budget that it needs.

        `behind`: the job queues behind that one, in the same line and with the same not_before. `is_on_time`: it is a
        slot of the calendar that fires at its time.
        """
        self.end_gathering()
        definition, state = self.plan.definition, self.state
        number = state.fire_count + 1
        line = line_of(origin, definition.if_running)
        if behind is not None:
            line, not_before = behind.line, behind.not_before
        new_id = job_id(state.uid, number, 0)
        job = NewJob(
            new_id,
            number,
            0,
            origin,
            slot_at,
            due_at=due_at,
            not_before=not_before,
            is_ready=is_ready(state, line, not_before),
            is_counted=not_before is None,
            is_probe=is_probe,
            stands_for=stands_for,
            line=line,
            cost_reserved=self.charge(new_id, is_catch_up=origin == "catch_up"),
        )
        self.jobs.append(job)
        fires_at = self.now if not_before is None else not_before
        grid = self._grid if is_on_time else None
        spacing.note_firing(self.shared, state.uid, definition.budgets, fires_at, grid=grid)
        self.state = row_changes.fire(state, self.now, slot_at)
        if not_before is None:
            self.take_place()
        else:  # a job that waits takes no place until it is claimed
            self.state = row_changes.defer(self.state)
        if is_probe and definition.breaker is not None:
            breakers.begin_probe(self.shared, definition.breaker, job.job_id, self.now)
            self.record("breaker.half_opened", job_id=job.job_id, detail={"key": definition.breaker.key})
        return job

    def charge(
        self, job_id: str, *, is_catch_up: bool = False, counted: tuple[Budget, ...] | None = None
    ) -> str | None:
        """Count an attempt against the budgets of the schedule, or some of them; return what its job has reserved."""
        counted = self.plan.definition.budgets if counted is None else counted
        if not counted:
            return None
        attempt = budgets.attempt_in(self.state, job_id)
        return budgets.charge(self.shared, attempt, counted, self.now, is_catch_up=is_catch_up)

    def refused(self, is_catch_up: bool = False) -> budgets.Refusal | None:
        """Return the limit that one more attempt does not fit into."""
        counted = self.plan.definition.budgets
        if not counted:
            return None
        return budgets.refusal(self.shared, self.state.uid, counted, self.now, is_catch_up=is_catch_up)

    def is_too_soon(self, *, is_on_time: bool = False) -> bool:
        """Return whether it is too soon after the last firing that the same token caused (`min_interval`)."""
        counted = self.plan.definition.budgets
        if not spacing.spaced(counted):
            return False
        grid = self._grid if is_on_time else None
        return spacing.free_at(self.shared, self.state.uid, counted, self.now, grid=grid) is not None

    @property
    def _grid(self) -> str | None:
        definition = self.plan.definition
        return (
            spacing.grid_of(definition, self.state.anchor_at) if spacing.spaced(definition.budgets) else None
        )

    def skip_for_budget(
        self, slot_at: int, refused: budgets.Refusal, *, held: EndedHold | None = None
    ) -> None:
        """End the slot without a job because a budget is spent; with `on_reached: pause` the schedule pauses."""
        budgets.refuse(self.shared, budgets.attempt_in(self.state), refused, self.now)
        self.skip(slot_at, "budget", held=held)
        if refused.budget.on_reached == "pause":
            self.pause_until = refused.refill_at

    def take_place(self) -> None:
        for limit in (self.plan.definition.guard, self.plan.definition.capacity):
            if limit is not None:
                self.shared.move(limit.key, outstanding=1)

    def skip(self, slot_at: int, reason: SkipReason, *, held: EndedHold | None = None) -> None:
        """End the slot without a job. Equal skips in a row are gathered where slots are close.

        `held`: what held it before. All skips of a run share one reason, and one reason of their holds. A skip with an
        opening that has passed stands by itself, because that opening is its own.
        """
        state = self.state
        self.state = row_changes.reach(state, slot_at)
        held_reason = None if held is None else held.reason
        is_alone = held is not None and held.opening_at is not None
        if (state.skip_reason, state.skip_held) == (reason, held_reason) and not is_alone:
            self._gather(slot_at)
            return
        self.end_gathering()
        if not is_alone and self._is_frequent(slot_at):
            self.state = self.state._replace(skip_reason=reason, skip_held=held_reason)
        self.record("schedule.skipped", slot_at=slot_at, reason=reason, detail=detail_of(held))

    def range_over(self, kind: EventType, first: int, last: int, count: int, reason: str) -> None:
        """End many slots with one event: their number, the first, the last."""
        self.end_gathering()
        self.state = row_changes.reach(self.state, last)
        detail = {"first": first, "last": last} if count > 1 else NOTHING
        self.record(kind, slot_at=first, reason=reason, slot_count=count, detail=detail)

    def hold(
        self, slot_at: int, due_at: int, reason: HoldReason, key: str | None, release_at: int | None
    ) -> None:
        """Hold the slot on the row; it is decided again at release_at. None: a change of its key sets it later."""
        self.state = self.state._replace(
            held_slot_at=slot_at,
            held_due_at=due_at,
            held_reason=reason,
            held_since=self.state.held_since or self.now,
            held_key=key,
            release_at=release_at,
        )

    def end_hold(self) -> EndedHold | None:
        """Empty the columns of the hold, and return what held the slot."""
        state = self.state
        self.state = state._replace(
            held_slot_at=None,
            held_due_at=None,
            held_reason=None,
            held_since=None,
            held_key=None,
            release_at=None,
        )
        if state.held_slot_at is None or state.held_reason is None:
            return None
        opening_at = state.release_at if state.held_key is None else None
        if opening_at is not None:
            grace = self.plan.grace_of(state.held_slot_at, state.next_slot_at)
            opening_at = opening_at if self.now - opening_at > grace else None
        return EndedHold(state.held_reason, state.held_since, opening_at)

    def end_held(self, reason: SkipReason) -> None:
        """End the held slot without a job, if there is one."""
        slot_at = self.state.held_slot_at
        if slot_at is not None:
            self.skip(slot_at, reason, held=self.end_hold())

    def cancel_own(self, reason: CancelReason, *, running: bool = False) -> None:
        """Cancel queued own jobs and waiting retries, and with `running` the running ones."""
        for job in self.outstanding:
            if job.is_own and (running or job.status == "queued"):
                self.cancel(job, reason)

    def cancel(self, job: Job, reason: CancelReason, *, actor: str | None = None) -> None:
        """End a job without an outcome: it counts neither as success nor as failure.

        A running job keeps its worker until the worker releases it, and counts as running until then.
        """
        is_waiting = job.status == "queued" and job.not_before is not None and not job.fence
        if job.origin != "backfill":
            self.state = row_changes.cancel(self.state, is_waiting, is_waiting and job.origin == "retry")
        if job.is_own and job.status == "running":
            self.state = row_changes.end_slot(self.state, self.now)
        give_places_back(job, self.shared)
        if job.cost_reserved is not None:
            self._end_reservation(job)
        self.end_retries(job)
        self.count_outcome(job, Outcome("cancelled"))
        self.cancelled.append((job, reason))
        self.record("job.cancelled", slot_at=job.slot_at, reason=reason, job_id=job.job_id, actor=actor)

    def _end_reservation(self, job: Job) -> None:
        """Give back what a queued job has reserved; a running one counts as its estimate."""
        if job.status == "queued":
            budgets.release(self.shared, job)
        else:
            budgets.settle(self.shared, job, None, self.plan.definition, self.now)

    def end_retries(self, job: Job) -> None:
        """Give up a slot whose retry is cancelled: with `continue`, the next slot counts its retries from zero."""
        if job.retry and not self.plan.definition.stops_when_exhausted:
            self.state = self.state._replace(current_retry=0)

    def count_outcome(self, job: Job, outcome: Outcome) -> None:
        """Count the outcome for the breaker of the job; opening or closing it is recorded as an event too."""
        if job.breaker_key is None:
            return
        rule = self.plan.definition.breaker
        threshold = rule.threshold if rule is not None and rule.key == job.breaker_key else None
        change = breakers.count_outcome(self.shared, job, outcome, self.now, threshold)
        if change is not None:
            kind: EventType = "breaker.opened" if change.to_state == "open" else "breaker.closed"
            self.record(kind, reason=change.reason, job_id=job.job_id, detail={"key": change.key})

    def become(
        self,
        status: Status,
        kind: EventType,
        reason: str | None = None,
        *,
        job_id: str | None = None,
        **detail: object,
    ) -> None:
        """Change the status; only an active schedule has a next slot. `job_id`: the job whose end changes it."""
        self.end_gathering()
        self.state = self.state._replace(status=status, status_reason=reason, paused_by=None, resume_at=None)
        if status != "active":
            self.state = self.state._replace(next_slot_at=None, next_run_at=None, expect_at=None)
        self.record(kind, reason=reason, job_id=job_id, detail=detail)

    # -- the ledger --

    def record(
        self,
        kind: EventType,
        *,
        slot_at: int | None = None,
        reason: str | None = None,
        slot_count: int = 1,
        job_id: str | None = None,
        actor: str | None = None,
        detail: Mapping[str, object] = NOTHING,
    ) -> None:
        state = self.state
        self.events.append(
            Event(
                kind,
                self.now,
                state.schedule_id,
                state.uid,
                state.owner,
                slot_at=slot_at,
                reason=reason,
                slot_count=slot_count,
                job_id=job_id,
                actor=actor,
                detail=detail,
            )
        )

    def end_gathering(self) -> None:
        """End the run of equal skips, and write the gathered ones as one event."""
        if self.state.skip_reason is not None:
            self._write_gathered()
            self.state = self.state._replace(skip_reason=None, skip_held=None)

    def _gather(self, slot_at: int) -> None:
        state = self.state
        first = slot_at if state.skip_first_at is None else state.skip_first_at
        self.state = state._replace(
            skip_first_at=first, skip_last_at=slot_at, skip_count=state.skip_count + 1
        )
        if state.skip_count + 1 >= GATHERED_AT_MOST or slot_at - first >= HOUR:
            self._write_gathered()

    def _write_gathered(self) -> None:
        state = self.state
        if state.skip_count:
            first, last, reason = state.skip_first_at, state.skip_last_at, state.skip_reason
            assert first is not None and last is not None and reason is not None
            held = None if state.skip_held is None else EndedHold(state.skip_held)
            # With both ends also for one slot: the instant of the event is not that of its decision.
            detail = {**detail_of(held), "first": first, "last": last}
            self.record(
                "schedule.skipped", slot_at=first, reason=reason, slot_count=state.skip_count, detail=detail
            )
        self.state = self.state._replace(skip_first_at=None, skip_last_at=None, skip_count=0)

    def _is_frequent(self, slot_at: int) -> bool:
        """Return whether slots are less than a minute apart."""
        if self.plan.definition.is_chain:
            return interval_of(self.plan) < MINUTE
        following = self.plan.calendar(self.state.anchor_at).next_after(slot_at)
        return following is not None and following - slot_at < MINUTE


def detail_of(held: EndedHold | None) -> Mapping[str, object]:
    """Return what the entry of a slot says of the hold that it ends."""
    if held is None:
        return NOTHING
    instants = {"held_at": held.held_at, "opening_at": held.opening_at}
    return {"held": held.reason, **{name: at for name, at in instants.items() if at is not None}}


def give_places_back(job: Job, shared: Shared) -> None:
    """Give back the places of guard and capacity of a job that is over, if it took any."""
    if job.is_counted:
        shared.move(job.guard_key, outstanding=-1)
        shared.move(job.capacity_key, outstanding=-1)
