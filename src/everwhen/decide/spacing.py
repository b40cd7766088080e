"""The time between two firings that a token causes: `min_interval`, whatever they come from.

Slots, triggers, re-runs, backfills, hooks and catch-up of one schedule are firings; retries and rescues belong to the
firing that they repeat. A slot on time passes when the slot before it was of the same grid and on time: their distance
was checked when the grid was defined, and a little lateness must not skip the next one. Everything else is compared
with the last firing itself. Its record outlives the schedule, and what replaces the schedule takes it over
(`store.places`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import attrgetter

from everwhen.errors import LimitError
from everwhen.model.fast_values import by_identity
from everwhen.model.instants import SECOND, format_instant
from everwhen.model.limits import LastFiring, Shared
from everwhen.model.policy import Budget
from everwhen.model.schedule import Definition
from everwhen.model.serialize import fields_of
from everwhen.timetable.jitter import blake2b
from everwhen.timetable.trigger import Once

_TIMING = "trigger timezone gap fold jitter_ms start_at end_at interval_from".split()


def spaced(budgets: Iterable[Budget]) -> list[Budget]:
    """Return the budgets with a `min_interval`."""
    return [budget for budget in budgets if budget.min_interval is not None]


def grid_of(definition: Definition, anchor_at: int | None) -> str:
    """Return a short name of the slots of a definition; other times, or another anchor, have another one."""
    return f"{_timing_of(definition)}:{anchor_at}"


@by_identity(most=4_096, size=attrgetter("size"))
def _timing_of(definition: Definition) -> str:
    values = fields_of(definition)
    text = json.dumps({key: values.get(key) for key in _TIMING}, sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def free_at(
    shared: Shared, uid: str, budgets: Iterable[Budget], now: int, *, grid: str | None = None
) -> int | None:
    """Return when these budgets let the schedule fire again; None: now. `grid`: of the slot, if it is on time."""
    waits = []
    for budget in spaced(budgets):
        last = shared.last_firing(budget.key, uid)
        if last.free_at > now and (grid is None or last.grid != grid):
            waits.append(last.free_at)
    return max(waits, default=None)


def refuse_too_soon(definition: Definition, until: int | None, now: int) -> None:
    """Raise LimitError for a one-shot that could not fire because its token may not fire it before `until`."""
    trigger = definition.trigger
    if until is None or not isinstance(trigger, Once) or trigger.due_at >= until:
        return
    earliest = format_instant(until, definition.zone)
    raise LimitError(
        "this one-shot would fire too soon after the last firing of this schedule, or of the one that it replaces; "
        f"min_interval allows it from {earliest} on, in {-((now - until) // SECOND)}s",
        limit="min_interval",
    )


def note_firing(
    shared: Shared, uid: str, budgets: Iterable[Budget], at: int, *, grid: str | None = None
) -> None:
    """Record a firing at that instant."""
    for budget in spaced(budgets):
        assert budget.min_interval is not None
        until = at + budget.min_interval * SECOND
        shared.put_last_firing(LastFiring(budget.key, uid, until, grid))
