"""The listeners of a program: functions, plain or async, that are called with the events of its scheduler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from everwhen.engine.call_executor import CallableLoop, CallExecutor
from everwhen.engine.listeners import EventListener, NotDeliveredError
from everwhen.errors import ConfigError, shown
from everwhen.model.events import DerivedType, Event, EventType
from everwhen.model.instants import optional_datetime, to_datetime
from everwhen.operations.event_feed import FeedEntry, facts_of
from everwhen.operations.listening import HELD, checked_types
from everwhen.scheduler.callables import checked_name, label_of

Scope = Literal["process", "all"]
SchedulerEventType = EventType | DerivedType
ListenerFunction = Callable[["SchedulerEvent"], object]
AnyListener = TypeVar("AnyListener", bound=ListenerFunction)


@dataclass(frozen=True, slots=True)
class SchedulerEvent:
    """Something that happened. Instants are in UTC; a `slot_count` above 1 means a range of slots."""

    type: SchedulerEventType
    at: datetime
    schedule_id: str | None
    job_id: str | None
    slot_at: datetime | None
    reason: str | None
    slot_count: int
    actor: str | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Declaration:
    """What `on` was given; the function is called on the loop of the node that delivers an event."""

    function: ListenerFunction
    types: frozenset[str]
    name: str | None

    def on_loop(self, loop: CallableLoop) -> EventListener:
        executor = CallExecutor(0, loop)

        def call(entry: FeedEntry) -> None:
            result = self.function(event_of(entry))
            if inspect.iscoroutine(result):
                _await_on(executor, result)

        return EventListener(call, self.types, label_of(self.function), self.name)


def declaration(
    function: ListenerFunction, types: frozenset[str], name: str | None, known: Sequence[Declaration]
) -> Declaration:
    """Return what is declared; a name has one cursor, and so one listener in a program."""
    if not callable(function):
        raise ConfigError(f"{shown(function)} cannot be called; `on` decorates a function")
    if name is not None and any(one.name == name for one in known):
        raise ConfigError(f'a listener named "{name}" is declared already; give each a name of its own')
    return Declaration(function, types, name)


def checked_listening(
    types: Sequence[str], scope: Scope, name: str | None
) -> tuple[frozenset[str], str | None]:
    """Return the types and the name of the cursor; ConfigError for what cannot be listened to."""
    if types and callable(types[0]):
        raise ConfigError("write the decorator with parentheses: @scheduler.on()")
    found = checked_types(types)
    if scope == "process":
        if name is not None:
            raise ConfigError('a name is that of a cursor; it needs scope="all"')
        return found, None
    if scope != "all":
        raise ConfigError(f'scope "{shown(scope)}" is unknown; it is "process" or "all"')
    if name is None:
        raise ConfigError('scope="all" needs a name, under which the database stores its position')
    if types and HELD in found:
        raise ConfigError(
            f'{HELD} is not on record, so that scope="all" cannot promise it; use scope="process"'
        )
    return found - {HELD}, checked_name("name", name)


def event_of(entry: FeedEntry) -> SchedulerEvent:
    """Return an entry of the feed as listeners get it."""
    facts = facts_of(entry)
    count, actor = (facts.slot_count, facts.actor) if isinstance(facts, Event) else (1, None)
    return SchedulerEvent(
        type=facts.type,
        at=to_datetime(facts.at),
        schedule_id=facts.schedule_id,
        job_id=facts.job_id,
        slot_at=optional_datetime(facts.slot_at),
        reason=facts.reason,
        slot_count=count,
        actor=actor,
        detail=facts.detail,
    )


def _await_on(executor: CallExecutor, work: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine on the loop and wait for its end."""
    try:
        future, _ = executor.submit(work)
    except RuntimeError as error:  # the loop of the program is closed
        work.close()
        raise NotDeliveredError(str(error)) from error
    future.result()
