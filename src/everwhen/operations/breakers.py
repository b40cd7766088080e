"""Circuit breakers: show, list and reset them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


def probe_times(runtime: Runtime, breakers: Iterable[Breaker]) -> Mapping[str, int]:
    """Return from when on the next slot of each open breaker is its probe; one that no schedule has is left out."""
    opened_at = {each.key: each.opened_at for each in breakers if each.state == "open" and each.opened_at}
    catalogue = store_of(runtime).catalogue
    found = catalogue.entries_of(list(opened_at)) if opened_at else []
    shared = opened_at.keys() - {
        entry.schedule.state.schedule_id for entry in found if entry.schedule.definition.breaker
    }
    for group in {_group_of(key) for key in shared}:
        found += catalogue.entries(ScheduleFilter(group=group), limit=LOOKED_AT)
    rules = [rule for entry in found if (rule := entry.schedule.definition.breaker) is not None]
    times: dict[str, int] = {}
    for rule in rules:
        if rule.key in opened_at:
            probes_at = opened_at[rule.key] + rule.reset_after
            times[rule.key] = min(times.get(rule.key, probes_at), probes_at)
    return times


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
    group = _group_of(key)
    if caller.is_hidden(group):
        return False
    wanted = ScheduleFilter(group=group, owner=caller.token.owner)
    return any(_has(entry, key) for entry in store.catalogue.entries(wanted, limit=LOOKED_AT))


def _group_of(key: str) -> str:
    return key.partition(":")[0].partition("@")[0]


def _has(entry: Entry, key: str) -> bool:
    rule = entry.schedule.definition.breaker
    return rule is not None and rule.key == key
