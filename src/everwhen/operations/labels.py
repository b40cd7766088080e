"""How schedules are called, for answers about them and for searches by name; deleted ones included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from everwhen.errors import TooManyMatchesError
from everwhen.model.events import Event
from everwhen.model.pause import actor_in, name_in
from everwhen.model.queries import ScheduleLabel
from everwhen.operations.event_feed import FeedEntry, facts_of
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOST_NAMED = 1_000

LabelsByUid = Mapping[str, ScheduleLabel]


class EventNames(NamedTuple):
    """The names that events need: of their schedules, by uid, and of those who did something, by what is recorded."""

    labels: LabelsByUid
    actors: Mapping[str, str]


def names_of_events(runtime: Runtime, entries: Iterable[FeedEntry]) -> EventNames:
    """Return the names of all schedules, tokens, users and programs that these events mention."""
    found = [facts_of(entry) for entry in entries]
    labels = labels_of(runtime, (facts.uid for facts in found))
    actors = {actor for facts in found if isinstance(facts, Event) and (actor := actor_in(facts)) is not None}
    names = {actor: name for actor in actors if (name := name_in(actor)) is not None and name != actor}
    ids = {actor.removeprefix("token:") for actor in actors - names.keys() if actor.startswith("token:")}
    tokens = store_of(runtime).tokens.some(ids) if ids else ()
    return EventNames(labels, names | {f"token:{token.token_id}": token.name for token in tokens})


def labels_of(runtime: Runtime, uids: Iterable[str | None]) -> LabelsByUid:
    """Return the names and the zones of these schedules, by uid; what is about no schedule has none."""
    return store_of(runtime).labels.of({uid for uid in uids if uid is not None})


def uids_named(runtime: Runtime, text: str) -> list[str]:
    """Return the uids of the schedules whose id, key or name contains a text."""
    found = store_of(runtime).labels.named(text, limit=MOST_NAMED + 1)
    if len(found) > MOST_NAMED:
        raise TooManyMatchesError(text, MOST_NAMED)
    return found
