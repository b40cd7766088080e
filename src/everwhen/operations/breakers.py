"""Circuit breakers: show, list and reset them."""

from __future__ import annotations

from everwhen.errors import UnknownBreakerError
from everwhen.model.limits import Breaker, Transition
from everwhen.model.queries import Entry, ScheduleFilter
from everwhen.operations.access import Caller
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

LOOKED_AT = 500  # schedules of a group


def get_breaker(runtime: Runtime, key: str, *, limit: int = 20) -> tuple[Breaker, list[Transition]]:
    """Return a breaker and its latest transitions, newest first."""
    store = store_of(runtime)
    return store.ledger.breaker(key), store.ledger.transitions(key, limit=limit)


def find_breaker(
    runtime: Runtime, key: str, caller: Caller, *, limit: int = 20
) -> tuple[Breaker, list[Transition]]:
    """Return the same for a caller; raise UnknownBreakerError when none of the caller's schedules has it."""
    found = get_breaker(runtime, key, limit=limit)
    if caller.token.owner is None and (found[1] or found[0] != Breaker(key)):
        return found  # it has changed, so a schedule has or had it
    if not _is_visible(runtime, key, caller):
        raise UnknownBreakerError(key)
    return found


def list_breakers(runtime: Runtime, caller: Caller) -> list[Breaker]:
    """Return the breakers that ever counted a failure, by key, as far as the caller may see them."""
    found = store_of(runtime).ledger.breakers()
    if caller.token.owner is None:
        return found
    return [breaker for breaker in found if _is_visible(runtime, breaker.key, caller)]


def reset_breaker(runtime: Runtime, key: str, *, actor: str | None = None) -> bool:
    """Close a breaker by hand; return False when it was closed already."""
    was_open = store_of(runtime).catalogue.reset_breaker(runtime.clock.now(), key, actor)
    runtime.wake_scheduler()
    return was_open


def _is_visible(runtime: Runtime, key: str, caller: Caller) -> bool:
    """Return whether a schedule that the caller may see has this breaker, by itself or through its group."""
    store = store_of(runtime)
    alone = store.catalogue.entry(key)
    if alone is not None and caller.token.sees(alone.schedule.state.owner) and _has(alone, key):
        return True
    group = key.partition(":")[0].partition("@")[0]
    if caller.is_hidden(group):
        return False
    wanted = ScheduleFilter(group=group, owner=caller.token.owner)
    return any(_has(entry, key) for entry in store.catalogue.entries(wanted, limit=LOOKED_AT))


def _has(entry: Entry, key: str) -> bool:
    rule = entry.schedule.definition.breaker
    return rule is not None and rule.key == key
