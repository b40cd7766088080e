"""How schedules are called, for answers about them and for searches by name; deleted ones included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from everwhen.errors import TooManyMatchesError
from everwhen.model.queries import ScheduleLabel
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOST_NAMED = 1_000

LabelsByUid = Mapping[str, ScheduleLabel]


def labels_of(runtime: Runtime, uids: Iterable[str | None]) -> LabelsByUid:
    """Return the names and the zones of these schedules, by uid; what is about no schedule has none."""
    return store_of(runtime).labels.of({uid for uid in uids if uid is not None})


def uids_named(runtime: Runtime, text: str, owner: str | None) -> list[str]:
    """Return the uids of the schedules whose id, key or name contains a text; with an owner, of that owner alone."""
    found = store_of(runtime).labels.named(text, owner=owner, limit=MOST_NAMED + 1)
    if len(found) > MOST_NAMED:
        raise TooManyMatchesError(text, MOST_NAMED)
    return found
