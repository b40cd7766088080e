"""The end of pauses with an end instant (`until`), which is one of the loop's wake-ups."""

from __future__ import annotations

from everwhen.decide.status import end_pause
from everwhen.errors import UnknownScheduleError
from everwhen.runtime import Runtime
from everwhen.stores.opened import store_of


def end_pauses(runtime: Runtime) -> int:
    """Resume every schedule whose pause has ended; return how many there were."""
    store = store_of(runtime)
    due = store.catalogue.due_to_resume(runtime.clock.now())
    for schedule_id in due:
        try:
            store.catalogue.change(runtime.clock.now(), schedule_id, end_pause)
        except UnknownScheduleError:
            continue  # deleted a moment ago
    return len(due)
