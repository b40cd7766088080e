"""The upgrade of schedules that the release before stored (SEMANTICS 10): each once, as a revision `upgraded`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain

from everwhen.decide.draft import Draft
from everwhen.decide.edit import edit
from everwhen.errors import UnknownScheduleError
from everwhen.model.changes import Decision
from everwhen.model.limits import Shared
from everwhen.model.schedule import Definition, Plan, Schedule
from everwhen.operations.apply import Applied
from everwhen.operations.submissions import ADDED, SOURCE
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

Protect = Callable[[str, Definition], Definition | None]
"""Returns the definition with the protections of what it runs; None when that is not known here."""

ACTOR = "upgrade"
SOURCES = (SOURCE, ADDED)
_PORTION = 500
_MOST_NAMED = 20


def protect_schedules(runtime: Runtime, protect: Protect) -> list[str]:
    """Give schedules from REST or Python the protections of what they run; return the ids of the changed ones.

    A schedule whose target is not configured here stays as it is, and is checked again at the next start.
    """
    store = store_of(runtime)
    upgraded: list[str] = []
    kept: list[Schedule] = []
    for schedule in chain(*(store.catalogue.from_before(source, only_groups=True) for source in SOURCES)):
        schedule_id = schedule.state.schedule_id
        protected = protect(schedule_id, schedule.definition)
        if protected == schedule.definition:
            kept.append(schedule)
        elif protected is not None:
            with suppress(UnknownScheduleError):  # deleted since it was read
                store.catalogue.change(runtime.clock.now(), schedule_id, _upgrade(protect))
                upgraded.append(schedule_id)
    for start in range(0, len(kept), _PORTION):
        store.catalogue.keep_as_they_are(kept[start : start + _PORTION])
    return upgraded


def upgrade_notes(applied: Applied, protected: Sequence[str] = ()) -> list[str]:
    """Return a line for operators on each way in which the upgrade changed schedules without an edit."""
    changes = (
        (protected, "limits, breaker and timeout of what it runs hold for"),
        (applied.upgraded, "the same words mean more to this release, a new revision was written of"),
        (
            applied.no_longer_stop,
            "when retries are used up (without on_exhausted: stop) the next slot fires of",
        ),
    )
    return [f"upgrade: {what} {_named(ids)}" for ids, what in changes if ids]


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MOST_NAMED:,} more" if len(ids) > _MOST_NAMED else ""
    return ", ".join(ids[:_MOST_NAMED]) + more


def _upgrade(protect: Protect) -> Callable[[Schedule, int, Shared], Decision]:
    def change(schedule: Schedule, now: int, shared: Shared) -> Decision:
        """Decide on the current row: another node may have been faster."""
        schedule_id = schedule.state.schedule_id
        protected = protect(schedule_id, schedule.definition)
        if protected is None or protected == schedule.definition:
            return Draft(schedule, now, shared).decision()
        plan = Plan(schedule_id, protected, schedule.plan.quiet)
        return edit(schedule, plan, now, shared, may_be_past=True, actor=ACTOR, is_upgrade=True)

    return change
