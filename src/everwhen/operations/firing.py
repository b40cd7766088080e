"""Firing on request: a user's trigger, and the webhook or chat that a schedule waits for. The ticker fires slots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from everwhen.decide import by_hand
from everwhen.decide.charge import charge, makers_budgets
from everwhen.errors import RepeatedRequestError
from everwhen.model.changes import Change, Remember
from everwhen.model.decision import Decision
from everwhen.model.policy import Budget, IfRunning
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.model.token import ANSWERS_KEPT, Answer
from everwhen.operations.schedules import Permit, anybody
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of


@dataclass(frozen=True, slots=True)
class Firing:
    """The result of a request: the id of its job, or the reason why there is none."""

    job_id: str | None
    skip_reason: SkipReason | None = None
    is_repeated: bool = False  # the request is a repetition, and this is its first result

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
    budget: Budget | None = None,
) -> Firing:
    """Run a schedule now, in addition to its slots: the schedule and its counters do not change (X3).

    `budget` is that of the caller's token; FiringLimitError when it is exhausted.
    """
    budgets = budgets_of(budget)

    def trigger(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        decision = by_hand.trigger(schedule, now, shared, payload=payload, if_running=if_running, actor=actor)
        charge(shared, budgets, len(decision.jobs), now)
        return decision

    return _ask(runtime, schedule_id, trigger, limits=keys_of(budgets))


def budgets_of(budget: Budget | None) -> tuple[Budget, ...]:
    return () if budget is None else (budget,)


def keys_of(budgets: Sequence[Budget]) -> list[str]:
    """Return the keys that a transaction locks to count against budgets."""
    return [budget.key for budget in budgets]


class Once(NamedTuple):
    """The key of a request that fires once, however often it arrives, and for how many microseconds that holds."""

    key: str
    kept: int


def fire_schedule(
    runtime: Runtime,
    schedule_id: str,
    *,
    payload: Mapping[str, Any] | None = None,
    permit: Permit = anybody,
    once: Once | None = None,
    budget: Budget | None = None,
) -> Firing:
    """Fire a webhook or chat schedule: the result is an own job, or a skip that is on record.

    The transaction that fires also stores `once`: when the same request arrives again, at any process and also after
    a restart, nothing fires, and the result is that of the first time. The firing counts for `budget`, that of the
    caller's token, and for the limits of the token that created the schedule, whichever token calls.
    """
    budgets = budgets_of(budget)

    def fire(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        decision = by_hand.fire(schedule, now, shared, payload=payload)
        charge(shared, (*makers_budgets(schedule.definition), *budgets), len(decision.jobs), now)
        return decision

    if once is not None:
        return _ask_once(runtime, schedule_id, fire, once)
    return _ask(runtime, schedule_id, fire, limits=keys_of(budgets))


def _ask(
    runtime: Runtime,
    schedule_id: str,
    request: Change,
    remember: Remember | None = None,
    *,
    limits: Sequence[str] = (),
) -> Firing:
    decision = store_of(runtime).catalogue.change(
        runtime.clock.now(), schedule_id, request, remember=remember, limits=limits
    )
    runtime.wake_scheduler()
    runtime.wake_workers()
    return _firing(decision)


def _ask_once(runtime: Runtime, schedule_id: str, request: Change, once: Once) -> Firing:
    asked: list[Answer] = []

    def remember(decision: Decision) -> Answer:
        firing = _firing(decision)
        answer = json.dumps([firing.job_id, firing.skip_reason])
        asked.append(Answer(f"hook:{decision.after.uid}", once.key, "", answer, once.kept))
        return asked[-1]

    try:
        return _ask(runtime, schedule_id, request, remember)
    except RepeatedRequestError:
        known = store_of(runtime).tokens.answer(
            asked[-1].token_id, asked[-1].key, since=runtime.clock.now() - ANSWERS_KEPT
        )
        if known is None:  # it expired just now
            raise
        job_id, skip_reason = json.loads(known.answer)
        return Firing(job_id, skip_reason, is_repeated=True)


def _firing(decision: Decision) -> Firing:
    return Firing(decision.jobs[-1].job_id if decision.jobs else None, decision.refusal)
