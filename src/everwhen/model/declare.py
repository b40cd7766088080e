"""From the words that people use for a schedule (`every: 5m`, `if_running: queue`) to its Definition.

Every surface declares schedules through here, so a mistake gets the same error everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args

from everwhen.errors import IntervalParseError, TimetableError, shown
from everwhen.model.bound_queue import bound_queue
from everwhen.model.instants import SECOND
from everwhen.model.payload import payload_text
from everwhen.model.policy import (
    BreakerRule,
    Budget,
    Capacity,
    CatchUp,
    Guard,
    IfRunning,
    IntervalFrom,
    OnExhausted,
    OnLost,
    WhenClosed,
)
from everwhen.model.schedule import Definition, Target
from everwhen.model.target_kinds import default_timeout
from everwhen.timetable.civil_time import Fold, Gap, Zone, zone
from everwhen.timetable.interval import parse_seconds
from everwhen.timetable.jitter import parse_jitter_ms
from everwhen.timetable.occurrences import FirstRun, dst_rule
from everwhen.timetable.trigger import OnRequest, Trigger, parse_instant, parse_trigger
from everwhen.timetable.windows import parse_weekdays, parse_window

_TRIGGER_KEYS = ("every", "cron", "at", "after")
_PLAIN_KEYS = ("name", "description", "owner", "queue")
_CHOICES: dict[str, tuple[str, ...]] = {
    "first_run": get_args(FirstRun),
    "interval_from": get_args(IntervalFrom),
    "outside_window": get_args(WhenClosed),
    "catch_up": (*get_args(CatchUp), "run_all_capped"),
    "if_running": get_args(IfRunning),
    "on_exhausted": get_args(OnExhausted),
    "on_lost": get_args(OnLost),
}
_NUMBERS = {"catch_up_limit": 1, "queue_limit": 1, "total_repeats": 0, "max_retries": 0}
_QUEUE = "default"
_DURATIONS = ("retry_delay", "misfire_grace")
_SHARED = frozenset(("max_outstanding", "max_concurrent", "circuit_breaker", "budget", "budgets"))
# Values that are equal only to what means the same, once their classes are compared, too (1 == True).
_PLAIN_VALUES = frozenset((str, int, bool, type(None)))


def declare(
    schedule_id: str,
    fields: Mapping[str, Any],
    *,
    target: Target,
    now: int,
    timezone: str = "UTC",
    group: str | None = None,
    tenant: str | None = None,
    bound_to: str | None = None,
) -> Definition:
    """The definition that the words say; the first thing wrong with them is a typed error with its key.

    `tenant` is the owner of a schedule that uses somebody else's shared group: its guard and its breaker are its own.
    `bound_to` is the program whose processes alone take its jobs.

    A definition does not say whose it is, so schedules that are declared alike share one: of a bulk load most
    are. Words that count from now, or name limits after the schedule, are read each time.
    """
    values = fields.values()
    is_alike = (
        ("every" in fields or "cron" in fields)
        and "after" not in fields
        and (group or _SHARED.isdisjoint(fields))
        and _PLAIN_VALUES.issuperset(map(type, values))
    )
    if not is_alike:
        return _declare(
            schedule_id, fields, target, now, timezone=timezone, group=group, tenant=tenant, bound_to=bound_to
        )
    types = tuple(map(type, values))
    return _declared_alike(
        tuple(fields.items()), types, target, timezone, group=group, tenant=tenant, bound_to=bound_to
    )


@lru_cache(maxsize=4_096)
def _declared_alike(
    fields: tuple[tuple[str, Any], ...],
    _types: tuple[type, ...],
    target: Target,
    timezone: str,
    group: str | None,
    tenant: str | None,
    bound_to: str | None,
) -> Definition:
    return _declare(
        "", dict(fields), target, 0, timezone=timezone, group=group, tenant=tenant, bound_to=bound_to
    )


def _declare(
    schedule_id: str,
    fields: Mapping[str, Any],
    target: Target,
    now: int,
    timezone: str,
    group: str | None,
    tenant: str | None,
    bound_to: str | None,
) -> Definition:
    where = zone(fields.get("timezone") or timezone)
    gap, fold = _dst(fields.get("dst"))
    given = {key: value for key, value in fields.items() if value is not None}
    trigger = _trigger(given, where, now, gap, fold)
    keys: dict[str, Any] = {key: str(given[key]) for key in _PLAIN_KEYS if key in given}
    if bound_to is not None:
        keys["queue"] = bound_queue(keys.get("queue", _QUEUE), bound_to)
    keys |= _closed_times(given)
    if not _SHARED.isdisjoint(given):
        keys |= _limits(schedule_id, given, group, tenant)
    keys |= _policies(given)
    for key in ("start_at", "end_at"):
        if key in given:
            keys[key] = parse_instant(given[key], where)
    keys |= _watching(given)
    if "jitter" in given:
        keys["jitter_ms"] = parse_jitter_ms(given["jitter"], trigger)
    return Definition(
        trigger=trigger,
        zone=where,
        target=target,
        group=group,
        command=given.get("command"),
        payload=_payload(given.get("payload")),
        gap=gap,
        fold=fold,
        timeout=timeout_of(given.get("timeout"), default_timeout(target.kind)),
        **keys,
    )


def _trigger(given: Mapping[str, Any], where: Zone, now: int, gap: Gap | None, fold: Fold | None) -> Trigger:
    if given.get("type") in ("webhook", "chat"):
        return OnRequest(given["type"])
    triggers = {key: given[key] for key in _TRIGGER_KEYS if key in given}
    # A naive `at` goes through a gap or a fold as a fixed entry does, unless the schedule says otherwise.
    rule = dst_rule(OnRequest("chat"), gap=gap, fold=fold)
    return parse_trigger(**triggers, zone=where, created_at=now / SECOND, dst=rule)


def _policies(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is one of some words, a number or a duration."""
    keys: dict[str, Any] = {key: _one_of(key, given[key], _CHOICES[key]) for key in _CHOICES if key in given}
    keys |= {key: _number(key, given[key], _NUMBERS[key]) for key in _NUMBERS if key in given}
    for key in _DURATIONS:
        if key in given and given[key] != "auto":
            keys[key] = _duration(key, given[key])
    if keys.get("catch_up") == "run_all_capped":
        keys["catch_up"] = "run_all"
    return keys


def _dst(value: Any) -> tuple[Gap | None, Fold | None]:
    if value is None:
        return None, None
    if not isinstance(value, Mapping) or not set(value) <= {"gap", "fold"}:
        raise TimetableError(
            "dst takes gap (shift, skip) and fold (first, second, both)", key="dst", value=value
        )
    gap = _one_of("dst.gap", value["gap"], get_args(Gap)) if "gap" in value else None
    fold = _one_of("dst.fold", value["fold"], get_args(Fold)) if "fold" in value else None
    return gap, fold  # type: ignore[return-value]


def _closed_times(fields: Mapping[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    if fields.get("only_between") is not None:
        keys["only_between"] = parse_window(fields["only_between"])
    if fields.get("not_on") is not None:
        keys["not_on"] = parse_weekdays(fields["not_on"])
    if fields.get("quiet_hours") is not None:
        keys["quiet_hours_id"] = str(fields["quiet_hours"])
    return keys


def _limits(
    schedule_id: str, fields: Mapping[str, Any], group: str | None, tenant: str | None
) -> dict[str, Any]:
    """Guard, capacity and breaker with the keys that they share (O3, O4, R6); tenants share capacity alone (X9)."""
    keys: dict[str, Any] = {}
    command = fields.get("command")
    own = f"{group}:{command}" if group and command else (group or schedule_id)
    own += f"@{tenant}" if tenant is not None else ""
    if fields.get("max_outstanding") is not None:
        keys["guard"] = Guard(f"guard:{own}", _number("max_outstanding", fields["max_outstanding"], 1))
    if fields.get("max_concurrent") is not None:
        limit = _number("max_concurrent", fields["max_concurrent"], 1)
        keys["capacity"] = Capacity(f"capacity:{group or schedule_id}", limit)
    breaker = fields.get("circuit_breaker")
    if breaker is not None:
        keys["breaker"] = _breaker(own, breaker)
    budget = fields.get("budget")
    if budget is not None:
        per_hour, per_day = budget.get("fires_per_hour"), budget.get("fires_per_day")
        keys["budgets"] = (Budget(f"budget:{group or schedule_id}", per_hour, per_day),)
    if fields.get("budgets") is not None:  # those of its group and its owner, by name
        keys["budgets"] = tuple(
            Budget(f"budget:{name}", limits.get("fires_per_hour"), limits.get("fires_per_day"))
            for name, limits in sorted(fields["budgets"].items())
        )
    return keys


def _watching(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What watches over the schedule from outside: `expect` and `ping`."""
    keys: dict[str, Any] = {}
    expect = fields.get("expect")
    if expect is not None:
        keys["expect_within"] = _duration("expect.within", expect.get("within"))
        if expect.get("grace") is not None:
            keys["expect_grace"] = _duration("expect.grace", expect["grace"])
    if fields.get("ping") is not None:
        keys["ping_url"] = str(fields["ping"].get("url"))
    return keys


def _breaker(key: str, value: Any) -> BreakerRule:
    if not isinstance(value, Mapping) or not set(value) <= {"threshold", "reset_after"}:
        raise TimetableError(
            "circuit_breaker takes threshold and reset_after, as in {threshold: 3, reset_after: 30m}",
            key="circuit_breaker",
            value=value,
        )
    threshold = _number("circuit_breaker.threshold", value.get("threshold", 3), 1)
    return BreakerRule(
        key, threshold, _duration("circuit_breaker.reset_after", value.get("reset_after", "30m"))
    )


def timeout_of(value: Any, default: int) -> int | None:
    """How long a run may take, in microseconds; None: for ever."""
    if value is None:
        return default
    return None if value in (0, "0", "0s") else _duration("timeout", value)


def _payload(value: Any) -> str:
    if value is None:
        return "{}"
    return payload_text(value)


def _one_of(key: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        fields = ", ".join(allowed)
        raise TimetableError(f'{key}: "{shown(value)}" must be one of {fields}', key=key, value=value)
    return str(value)


def _number(key: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 2**31:
        raise TimetableError(f"{key} must be a whole number from {least} on", key=key, value=value)
    return value


def _duration(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value * SECOND
    try:
        return parse_seconds(value) * SECOND
    except IntervalParseError as fault:
        raise TimetableError(f"{key}: {fault}", key=key, value=value) from fault
