"""One evaluation: take due rows, decide, write (E1, E2)."""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.decide.tick import is_still_due, tick
from everwhen.model.instants import SECOND
from everwhen.model.schedule import Schedule
from everwhen.model.shared import Shared
from everwhen.ports.slots import TickReport
from everwhen.stores.flows.commit import commit_decisions, hand_on_places, write_shared
from everwhen.stores.flows.load import (
    add_shared,
    coverage,
    hold,
    schedules_of,
    system_paused_at,
    without_busy,
)
from everwhen.stores.flows.say import say_fired
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Due, Glimpse, Transaction

PAGES = 8


def evaluate(
    tx: Transaction, plans: PlanCache, due: Due, *, stagger: int, next_catch_up_at: int = 0
) -> TickReport:
    """Decide a batch of due and released slots."""
    if system_paused_at(tx) is not None:
        return TickReport()
    shared = Shared()
    for page in range(PAGES):
        due = due._replace(page=page)
        glanced = tx.glance_due(due)
        schedules = _take(tx, plans, due, glanced, shared)
        if schedules or not glanced:
            break  # else others are at all of these, or at their keys, and this one goes on to the next
    if not schedules:
        return TickReport()
    now = due.now
    shared.stagger = stagger
    shared.stagger_offset = max(next_catch_up_at - now, 0)
    if (
        min(schedule.state.next_run_at or now for schedule in schedules) < now - SECOND
    ):  # something may be missed
        shared.coverage = coverage(tx, now)
    decisions = tick(schedules, now, shared)
    commit_decisions(tx, decisions, now)
    write_shared(tx, shared, now)
    hand_on_places(tx, decisions, shared, now)
    say_fired(tx, plans, decisions, now)
    fired = sum([len(decision.jobs) for decision in decisions])
    seen = max(len(schedules), len(glanced))
    more = seen >= due.limit or any(is_still_due(decision, now) for decision in decisions)
    return TickReport(len(schedules), fired, more, fired > 0, now + shared.stagger_offset)


def _take(
    tx: Transaction, plans: PlanCache, due: Due, glanced: Sequence[Glimpse], shared: Shared
) -> Sequence[Schedule]:
    """Those that nobody else has, with their keys. One key in other hands holds up its own schedules, and no more."""
    hold(tx, plans, glanced, shared, wait=False)
    states = tx.due(due)
    if not states:
        return ()
    schedules = schedules_of(tx, plans, states)
    add_shared(tx, shared, schedules, [job for s in schedules for job in s.outstanding], wait=False)
    return without_busy(shared, schedules)
