"""What ends by itself with time: schedules that wait for approval and get no answer, what agents made and is
over, reservations that were not released, and last firings that keep nothing from firing any more."""

from __future__ import annotations

from functools import partial

from everwhen.decide import approval, status
from everwhen.errors import PreconditionError, StatusError, UnknownScheduleError
from everwhen.model.changes import Decision
from everwhen.model.instants import DAY
from everwhen.model.limits import Shared
from everwhen.model.schedule import Schedule
from everwhen.operations.budgets import give_back_leftovers
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

PORTION = 100
OVER_KEPT = 7 * DAY


def tidy_up(runtime: Runtime, *, approval_ttl: int) -> None:
    """Do what the janitor does beside retention."""
    expire_unanswered(runtime, ttl=approval_ttl)
    forget_over(runtime)
    give_back_leftovers(runtime)
    store_of(runtime).catalogue.forget_last_firings(runtime.clock.now())


def expire_unanswered(runtime: Runtime, *, ttl: int) -> int:
    """Delete the schedules that have waited for approval for `ttl` or longer; return how many there were.

    An answer or an edit that comes first wins: whether a schedule still waits is decided in the transaction.
    """
    catalogue, ended = store_of(runtime).catalogue, 0
    while True:
        found = catalogue.waiting_since(runtime.clock.now() - ttl, limit=PORTION)
        for schedule_id, since in found:
            try:
                decide = partial(approval.expire, waited_since=since)
                catalogue.delete(runtime.clock.now(), schedule_id, decide)
                ended += 1
            except (UnknownScheduleError, StatusError):
                continue  # answered a moment ago
        if len(found) < PORTION:
            return ended


def forget_over(runtime: Runtime) -> int:
    """Delete what was made over MCP, or by the run of an agent, and has been done or dead for a week; the ledger stays.

    What people and programs made over REST stays: they may look for it.
    """
    catalogue, gone, after = store_of(runtime).catalogue, 0, 0
    while found := catalogue.over_since(runtime.clock.now() - OVER_KEPT, after=after, limit=PORTION):
        after = found[-1].state.row_id
        for schedule in found:
            if schedule.definition.made is None:
                continue
            try:
                catalogue.delete(runtime.clock.now(), schedule.state.schedule_id, partial(_forget, schedule))
                gone += 1
            except (UnknownScheduleError, PreconditionError):
                continue  # gone, or begun anew, a moment ago
    return gone


def _forget(seen: Schedule, schedule: Schedule, now: int, shared: Shared) -> Decision:
    if (schedule.state.status, schedule.state.revision) != (seen.state.status, seen.state.revision):
        raise PreconditionError(seen.state.revision, schedule.state.revision)
    return status.delete(schedule, now, shared, cancel_running=False, by=None)
