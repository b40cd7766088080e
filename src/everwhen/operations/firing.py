"""Firing by request: a person's trigger, and the webhook or chat that a schedule waits for. Never the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everwhen.decide import by_hand
from everwhen.model.decision import Decision
from everwhen.model.policy import IfRunning
from everwhen.model.reasons import SkipReason
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.operations.schedules import Permit, anybody
from everwhen.ports.catalogue import Change
from everwhen.ports.house import House


@dataclass(frozen=True, slots=True)
class Firing:
    """What came of a request: the id of its job, or the reason why there is none."""

    job_id: str | None
    skip_reason: SkipReason | None = None

    @property
    def is_skipped(self) -> bool:
        return self.job_id is None


def trigger_schedule(
    house: House,
    schedule_id: str,
    *,
    payload: Mapping[str, Any] | None = None,
    if_running: IfRunning = "queue",
    permit: Permit = anybody,
) -> Firing:
    """Run it now, beside its slots: the schedule and its counters do not move (X3)."""

    def trigger(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        return by_hand.trigger(schedule, now, shared, payload=payload, if_running=if_running)

    return _ask(house, schedule_id, trigger)


def fire_schedule(
    house: House, schedule_id: str, *, payload: Mapping[str, Any] | None = None, permit: Permit = anybody
) -> Firing:
    """Fire a webhook or chat schedule: an own job, or a skip that is on record."""

    def fire(schedule: Schedule, now: int, shared: Shared) -> Decision:
        permit(schedule)
        return by_hand.fire(schedule, now, shared, payload=payload)

    return _ask(house, schedule_id, fire)


def _ask(house: House, schedule_id: str, request: Change) -> Firing:
    decision = house.catalogue.change(house.clock.now(), schedule_id, request)
    house.wake_scheduler()
    house.wake_workers()
    return Firing(decision.jobs[-1].job_id if decision.jobs else None, decision.refusal)
