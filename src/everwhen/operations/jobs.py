"""Jobs: show and cancel them, report their outcome, and backfill missing ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from everwhen.decide import approval, by_hand
from everwhen.decide.budgets import attempt_in, charge_caller, makers_budgets, warning_of
from everwhen.errors import (
    BackfillError,
    LimitError,
    OutcomeError,
    PreconditionError,
    RepeatedRequestError,
    UnknownJobError,
    UnknownScheduleError,
    shown,
)
from everwhen.model.changes import A_PERSON, Cause, Change, Decision, Remember
from everwhen.model.cost import cost_of
from everwhen.model.instants import instant_of
from everwhen.model.job import EXTERNAL, Job
from everwhen.model.limits import Shared
from everwhen.model.outcome import Outcome, OutputPiece
from everwhen.model.policy import Budget, IfRunning
from everwhen.model.queries import JobFilter
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import Schedule
from everwhen.model.token import ANSWERS_KEPT, StoredResponse
from everwhen.operations.schedules import Permit, anybody, get_schedule
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOST_BACKFILLED = 1_000
MOST_LOOKED_AT = 100_000


def cancel_job(runtime: Runtime, job_id: str, *, actor: str | None = None) -> Job:
    """Cancel a job: a queued one ends at once, a running one as soon as its worker has killed it."""
    store = store_of(runtime)
    job = get_job(runtime, job_id)
    now = runtime.clock.now()
    try:
        store.catalogue.change(
            now, job.uid, lambda s, now, shared: by_hand.cancel_job(s, job_id, now, shared, actor=actor)
        )
    except UnknownScheduleError:  # deleted, but its run continues
        store.catalogue.cancel_orphan(now, job_id)
    runtime.wake_workers()
    return get_job(runtime, job_id)


def report_outcome(
    runtime: Runtime,
    job_id: str,
    token: str,
    *,
    status: str,
    result: str | None = None,
    error: str | None = None,
    retry: bool = True,
    cost: Any = None,
) -> Job:
    """Report how work ended that was accepted with a 202; the token of the request is valid for one report."""
    if status not in ("succeeded", "failed"):
        raise OutcomeError(f"status {shown(status)!r} is neither succeeded nor failed")
    spent = None if cost is None else cost_of(cost)
    if status == "succeeded":
        outcome = Outcome("succeeded", result=result, cost=spent)
    else:
        outcome = Outcome(
            "failed", error=error or "reported as failed", result=result, is_final=not retry, cost=spent
        )
    job = get_job(runtime, job_id)
    token_hash = sha256(token.encode(errors="replace")).hexdigest()
    if not store_of(runtime).slots.report(runtime.clock.now(), job_id, token_hash, outcome):
        if job.status == "running" and job.node != EXTERNAL:
            raise OutcomeError(
                f'job "{shown(job_id)}" does not wait for an outcome yet; try again in a second'
            )
        raise UnknownJobError(job_id)  # ended, or another token: the caller does not learn which
    runtime.wake_scheduler()
    runtime.wake_workers()
    return get_job(runtime, job_id)


def get_output(runtime: Runtime, job_id: str) -> list[OutputPiece]:
    """Return what is kept of a job's output, in pieces: the first and the last of each stream of each attempt."""
    get_job(runtime, job_id)
    return store_of(runtime).ledger.output(job_id)


def get_job(runtime: Runtime, job_id: str) -> Job:
    job = store_of(runtime).ledger.job(job_id)
    if job is None:
        raise UnknownJobError(job_id)
    return job


@dataclass(frozen=True, slots=True)
class Backfill:
    """The slots that a backfill filled (or would fill), or the reason why it filled none."""

    slots: tuple[int, ...]
    skip_reason: SkipReason | None = None
    warnings: tuple[str, ...] = ()


def backfill(
    runtime: Runtime,
    schedule_id: str,
    start: datetime,
    end: datetime,
    *,
    if_running: IfRunning = "queue",
    dry_run: bool = False,
    permit: Permit = anybody,
    cause: Cause = A_PERSON,
) -> Backfill:
    """Create jobs for the slots of a past span that have none; the schedule and its counters do not change.

    `cause` bounds what the caller may cause.
    """
    schedule = get_schedule(runtime, schedule_id)
    permit(schedule)
    if start >= end:
        raise BackfillError("the span is empty: its end is not after its start; is the order right?")
    first, last = instant_of(start), min(instant_of(end), runtime.clock.now())
    slots = tuple(_slots_between(runtime, schedule.state.uid, first, last))
    if len(slots) > MOST_BACKFILLED:
        raise BackfillError(
            f"the span has {len(slots):,} slots, and at most {MOST_BACKFILLED:,} are filled at once; use a shorter span"
        )
    if dry_run or not slots:
        return Backfill(slots)
    charge = _Charge(cause)

    def fill(schedule: Schedule, free: Sequence[int], now: int, shared: Shared) -> Decision:
        permit(schedule)
        decision = by_hand.backfill(schedule, free, now, shared, if_running=if_running)
        return charge.count(decision, now, shared)

    decision = store_of(runtime).catalogue.backfill(
        runtime.clock.now(), schedule_id, slots, fill, budget=cause.budget, terms=cause.terms
    )
    runtime.wake_workers()
    return Backfill(tuple(job.slot_at for job in decision.jobs), decision.refusal, charge.warnings)


def _slots_between(runtime: Runtime, uid: str, first: int, last: int) -> list[int]:
    """Return the slots of the revisions in force then, without those that have a job."""
    store = store_of(runtime)
    with store.ledger.history([uid]) as record:
        (history,) = record.histories
        planned = by_hand.slots_of_history(history, first, last, most=MOST_LOOKED_AT)
    wanted = JobFilter(uid=uid, origins=("schedule", "catch_up", "backfill"), since=first, until=last)
    taken = {job.slot_at for job in store.ledger.jobs(wanted, limit=1_000_000)}
    return [slot for slot in planned if slot not in taken]


@dataclass(frozen=True, slots=True)
class FiringResult:
    """The result of a request: the id of its job, or the reason why there is none; and budgets that it exceeds."""

    job_id: str | None
    skip_reason: SkipReason | None = None
    is_repeated: bool = False  # the request is a repetition, and this is its first result
    warnings: tuple[str, ...] = ()

    @property
    def is_skipped(self) -> bool:
        return self.job_id is None


def trigger_schedule(
    runtime: Runtime,
    schedule_id: str,
    *,
    payload: Mapping[str, Any] | None = None,
    if_running: IfRunning = "queue",
    actor: str | None = None,
    permit: Permit = anybody,
    cause: Cause = A_PERSON,
    once: IdempotencyKey | None = None,
    expected: int | None = None,
) -> FiringResult:
    """Run a schedule now, in addition to its slots: the schedule and its counters do not change.

    `cause` bounds what the caller may cause; FiringLimitError beyond it. With `once` the same request fires
    once; its key is the caller's. `expected` is the revision that was read; PreconditionError when another one would
    run.
    """
    trigger = partial(by_hand.trigger, payload=payload, if_running=if_running, actor=actor)
    ask = partial(request_job, runtime, schedule_id, trigger, permit=permit, cause=cause, expected=expected)
    return ask() if once is None else _asked_once(runtime, schedule_id, ask, once, f"trigger:{actor}")


class IdempotencyKey(NamedTuple):
    """The key of a request that fires once, however often it arrives, and for how many microseconds that holds."""

    key: str
    kept: int


def fire_schedule(
    runtime: Runtime,
    schedule_id: str,
    *,
    payload: Mapping[str, Any] | None = None,
    permit: Permit = anybody,
    once: IdempotencyKey | None = None,
    cause: Cause = A_PERSON,
) -> FiringResult:
    """Fire a webhook or chat schedule: the result is an own job, or a skip that is on record.

    The transaction that fires also stores `once`: when the same request arrives again, at any process and also after
    a restart, nothing fires, and the result is that of the first time. The firing counts for the caller (`cause`), and
    for the limits of the token that created the schedule, whichever token calls.
    """
    fire = partial(by_hand.fire, payload=payload)
    ask = partial(request_job, runtime, schedule_id, fire, permit=permit, cause=cause, of_makers=True)
    return ask() if once is None else _asked_once(runtime, schedule_id, ask, once, "hook")


def _asked_once(
    runtime: Runtime, schedule_id: str, ask: Callable[..., FiringResult], once: IdempotencyKey, who: str
) -> FiringResult:
    """Fire, and remember the result with it; the same request again gets that result, and fires nothing.

    That is also so when the request would be refused by now: because of another revision, or of a limit that its own
    job has used up.
    """

    def remember(decision: Decision) -> StoredResponse:
        firing = _firing(decision)
        answer = json.dumps([firing.job_id, firing.skip_reason])
        return StoredResponse(f"{who}:{decision.after.uid}", once.key, "", answer, once.kept)

    try:
        return ask(remember=remember)
    except (RepeatedRequestError, PreconditionError, LimitError):
        asked = f"{who}:{get_schedule(runtime, schedule_id).state.uid}"
        kept_from = runtime.clock.now() - ANSWERS_KEPT
        known = store_of(runtime).tokens.answer(asked, once.key, since=kept_from)
        if known is None:  # it expired just now, or was never answered
            raise
        job_id, skip_reason = json.loads(known.answer)
        return FiringResult(job_id, skip_reason, is_repeated=True)


def request_job(
    runtime: Runtime,
    schedule_id: str,
    request: Change,
    permit: Permit,
    cause: Cause,
    *,
    of_makers: bool = False,
    remember: Remember | None = None,
    expected: int | None = None,
) -> FiringResult:
    """Request a job; it counts for who causes it, and with `of_makers` for the tokens of the schedule.

    `expected` is the revision that it has to run.
    """
    charge = _Charge(cause)

    def charged(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        if expected is not None and schedule.state.revision != expected:
            raise PreconditionError(expected, schedule.state.revision)
        makers = makers_budgets(schedule.definition) if of_makers else ()
        return charge.count(request(schedule, now, shared), now, shared, makers)

    decision = store_of(runtime).catalogue.change(
        runtime.clock.now(),
        schedule_id,
        charged,
        remember=remember,
        budget=cause.budget,
        terms=cause.terms,
    )
    runtime.wake_scheduler()
    runtime.wake_workers()
    return replace(_firing(decision), warnings=charge.warnings)


@dataclass(slots=True)
class _Charge:
    """The jobs of a request, counted for who causes them; `warnings`: what they exceed and what was not approved, known
    when they are counted."""

    cause: Cause
    warnings: tuple[str, ...] = ()

    def count(self, decision: Decision, now: int, shared: Shared, makers: Sequence[Budget] = ()) -> Decision:
        """Return the decision, whose jobs reserve what they need; raise LimitError when they do not fit."""
        attempt, definition = attempt_in(decision.after), decision.plan.definition
        own = () if self.cause.budget is None else (self.cause.budget,)
        jobs = charge_caller(
            shared,
            attempt,
            decision.jobs,
            definition,
            (*makers, *own),
            now=now,
            is_agent=self.cause.is_agent,
        )
        found = (
            warning_of(shared, decision.after.uid, definition, now),
            approval.warning_of(decision.after),
        )
        self.warnings = tuple(warning for warning in found if warning is not None) if jobs else ()
        return decision._replace(jobs=jobs)


def _firing(decision: Decision) -> FiringResult:
    return FiringResult(decision.jobs[-1].job_id if decision.jobs else None, decision.refusal)
