"""One evaluation: take due rows, decide, write (E1, E2)."""

from __future__ import annotations

from everwhen.decide.tick import is_still_due, tick
from everwhen.model.instants import SECOND
from everwhen.ports.slots import TickReport
from everwhen.stores.flows.commit import commit_decisions, hand_on_places, write_shared
from everwhen.stores.flows.load import add_shared, coverage, hold, schedules_of, system_paused_at
from everwhen.stores.flows.say import say_fired
from everwhen.stores.plans import PlanCache
from everwhen.stores.transaction import Due, Transaction

PAGES = 8


def evaluate(
    tx: Transaction, plans: PlanCache, due: Due, *, stagger: int, next_catch_up_at: int = 0
) -> TickReport:
    """Decide a batch of due and released slots."""
    if system_paused_at(tx) is not None:
        return TickReport()
    for page in range(PAGES):
        due = due._replace(page=page)
        glanced = tx.glance_due(due)
        shared = hold(tx, plans, glanced)
        states = tx.due(due)
        if states or not glanced:
            break  # else another scheduler is at all of these, and this one goes on to the next
    if not states:
        return TickReport()
    now = due.now
    schedules = schedules_of(tx, plans, states)
    add_shared(tx, shared, schedules, [job for s in schedules for job in s.outstanding])
    shared.stagger = stagger
    shared.stagger_offset = max(next_catch_up_at - now, 0)
    if min(state.next_run_at or now for state in states) < now - SECOND:  # something may be missed
        shared.coverage = coverage(tx, now)
    decisions = tick(schedules, now, shared)
    commit_decisions(tx, decisions, now)
    write_shared(tx, shared, now)
    hand_on_places(tx, decisions, now)
    say_fired(tx, plans, decisions, now)
    fired = sum([len(decision.jobs) for decision in decisions])
    seen = max(len(states), len(glanced))
    more = seen >= due.limit or any(is_still_due(decision, now) for decision in decisions)
    return TickReport(len(states), fired, more, fired > 0, now + shared.stagger_offset)
