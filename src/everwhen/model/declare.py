"""From the keys of a schedule (`every: 5m`, `if_running: queue`) to its Definition.

Every surface declares schedules through here, by the rows of `fields`, so a mistake gets the same error everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from everwhen.errors import IntervalParseError, TimetableError
from everwhen.model.budget_terms import budget_terms
from everwhen.model.fast_values import LARGE
from everwhen.model.fields import FIELDS, TRIGGER_KEYS, Definition
from everwhen.model.instants import HOUR, SECOND
from everwhen.model.kinds import Object
from everwhen.model.policy import BUDGET, BreakerRule, Budget, Capacity, Guard
from everwhen.model.scalars import CheckedValue, Parsed, Severity, unknown
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.model.target_kinds import Target, default_timeout
from everwhen.model.values import BREAKER_RULE, bound_queue, parse_duration, parse_size
from everwhen.timetable.civil_time import Fold, Gap, Zone, zone
from everwhen.timetable.jitter import parse_jitter_ms
from everwhen.timetable.occurrences import dst_rule
from everwhen.timetable.trigger import Every, OnRequest, Trigger, parse_instant, parse_trigger

_QUEUE = FIELDS["queue"].default
BUDGETS = "budgets"  # of the group and the owner, by name; not a key, but beside the keys
_SHARED = frozenset(("max_outstanding", "max_concurrent", "circuit_breaker", BUDGETS))
# Values that are equal only to what means the same, once their classes are compared, too (1 == True).
_PLAIN_VALUES = frozenset((str, int, bool, type(None)))
_CHECKED = {name: row.kind for name, row in FIELDS.items() if not isinstance(row.kind, Parsed | Object)}
_ATTRIBUTES = tuple((name, row.attribute, row.reader) for name, row in FIELDS.items() if row.attribute)


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
    """Return the definition that the keys make; raise a typed error with its key for the first mistake.

    `tenant` is the owner of a schedule that uses somebody else's shared group: its guard and its breaker are its own.
    `bound_to` is the program whose processes alone take its jobs.

    A definition does not contain the id, so schedules that are declared alike share one: in a bulk load most are.
    Keys that count from now, or name limits after the schedule, are read each time.
    """
    values = fields.values()
    is_alike = (
        ("every" in fields or "cron" in fields)
        and "after" not in fields
        and (group or _SHARED.isdisjoint(fields))
        and _PLAIN_VALUES.issuperset(map(type, values))
        and len(target.spec) + sum(len(value) for value in values if isinstance(value, str)) <= LARGE
    )
    around = _Around(timezone, group, tenant, bound_to)
    if not is_alike:
        return _declare(schedule_id, fields, target, now, around)
    return _declared_alike(tuple(fields.items()), tuple(map(type, values)), target, around)


class _Around(NamedTuple):
    """What a definition takes from elsewhere than its keys; see `declare`."""

    timezone: str
    group: str | None
    tenant: str | None
    bound_to: str | None


@lru_cache(maxsize=4_096)
def _declared_alike(
    fields: tuple[tuple[str, Any], ...], _types: tuple[type, ...], target: Target, around: _Around
) -> Definition:
    return _declare("", dict(fields), target, 0, around)


def _declare(
    schedule_id: str, fields: Mapping[str, Any], target: Target, now: int, around: _Around
) -> Definition:
    given = {key: value for key, value in fields.items() if value is not None}
    _refuse_mistakes(given)
    where = zone(given.get("timezone") or around.timezone)
    dst = given.get("dst") or {}
    gap, fold = dst.get("gap"), dst.get("fold")
    trigger = _trigger(given, where, now, gap, fold)
    keys = _attributes(given)
    if around.bound_to is not None:
        keys["queue"] = bound_queue(keys.get("queue", _QUEUE), around.bound_to)
    if not _SHARED.isdisjoint(given):
        keys |= _limits(schedule_id, given, around.group, around.tenant)
    for key in ("start_at", "end_at"):
        if key in given:
            keys[key] = parse_instant(given[key], where)
    if "expect" in given:
        keys |= _expectation(given["expect"], trigger, keys)
    if "ping" in given:
        ping = given["ping"]
        keys["ping_url"] = str(ping["url"])
        if ping.get("format") is not None:
            keys["ping_format"] = ping["format"]
        if ping.get("output") is not None:
            keys["ping_output"] = _read("ping.output", ping["output"], parse_size)
    if "jitter" in given:
        keys["jitter_ms"] = parse_jitter_ms(given["jitter"], trigger)
    return Definition(
        trigger=trigger,
        zone=where,
        target=target,
        group=around.group,
        gap=gap,
        fold=fold,
        timeout=timeout_of(given.get("timeout"), default_timeout(target.kind)),
        **keys,
    )


def _expectation(expect: Any, trigger: Trigger, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of `expect`; `true` means each slot. A chain and a webhook have no slots in advance."""
    rule: Mapping[str, Any] = {"each": "slot"} if expect is True else expect
    found = {
        f"expect_{part}": _read(f"expect.{part}", rule[part], parse_duration)
        for part in ("within", "grace")
        if rule.get(part) is not None
    }
    if rule.get("each") is None:
        return found
    is_chain = keys.get("interval_from") == "completion" and isinstance(trigger, Every)
    if is_chain or isinstance(trigger, OnRequest):
        what = "a completion chain" if is_chain else "a webhook or chat schedule"
        raise TimetableError(
            f"expect: {what} has no slots to expect; write expect: {{within: 26h}}",
            key="expect",
            value=expect,
        )
    return {"expect_each": True, "expect_grace": HOUR, **found}


def _refuse_mistakes(given: Mapping[str, Any]) -> None:
    """Refuse unknown keys, and values that their kinds refuse; values with a parser are refused where they are read."""
    for key, value in given.items():
        kind = _CHECKED.get(key)
        if kind is not None:
            kind.check(_Given(key, value))
        elif key not in FIELDS and key != BUDGETS:
            raise TimetableError(f"{key}: {unknown('key', key, FIELDS)}", key=key, value=value)


class _Given:
    """A value without a document: its first mistake is an error."""

    is_trusted = is_in_file = False

    def __init__(self, path: str, value: Any) -> None:
        self.path = path
        self.value = value

    def complain(self, message: str, *steps: str | int, severity: Severity = "error") -> None:
        path = ".".join([self.path, *map(str, steps)])
        between = " " if message.startswith(("must", "is ", "has ")) else ": "
        raise TimetableError(f"{path}{between}{message}", key=path, value=self.value)

    def __getitem__(self, step: str | int) -> CheckedValue:
        return _Given(f"{self.path}.{step}", self.value[step])

    def items(self) -> Sequence[CheckedValue]:
        return [self[number] for number in range(len(self.value))]


def _attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a Definition that keys have by themselves."""
    return {
        attribute: given[name] if read is None else _read(name, given[name], read)
        for name, attribute, read in _ATTRIBUTES
        if name in given
    }


def _read(key: str, value: Any, read: Any) -> Any:
    try:
        return read(value)
    except IntervalParseError as fault:
        raise TimetableError(f"{key}: {fault}", key=key, value=value) from fault


def _trigger(given: Mapping[str, Any], where: Zone, now: int, gap: Gap | None, fold: Fold | None) -> Trigger:
    if given.get("type") in ("webhook", "chat"):
        return OnRequest(given["type"])
    triggers = {key: given[key] for key in TRIGGER_KEYS if key in given}
    # A naive `at` goes through a gap or a fold as a fixed entry does, unless the schedule says otherwise.
    rule = dst_rule(OnRequest("chat"), gap=gap, fold=fold)
    return parse_trigger(**triggers, zone=where, created_at=now / SECOND, dst=rule)


def _limits(
    schedule_id: str, fields: Mapping[str, Any], group: str | None, tenant: str | None
) -> dict[str, Any]:
    """Guard, capacity and breaker with the keys that they share; tenants share capacity alone."""
    keys: dict[str, Any] = {}
    command = fields.get("command")
    own = f"{group}:{command}" if group and command else (group or schedule_id)
    own += f"@{tenant}" if tenant is not None else ""
    if fields.get("max_outstanding"):
        keys["guard"] = Guard(f"guard:{own}", fields["max_outstanding"])
    if fields.get("max_concurrent"):
        keys["capacity"] = Capacity(f"capacity:{group or schedule_id}", fields["max_concurrent"])
    if "circuit_breaker" in fields and fields["circuit_breaker"] is not False:
        keys["breaker"] = _breaker(own, fields["circuit_breaker"])
    if BUDGETS in fields:
        keys[BUDGETS] = tuple(
            Budget(f"{BUDGET}{name}", **terms)
            for name, limits in sorted(fields[BUDGETS].items())
            if (terms := budget_terms(limits)) is not None
        )
    return keys


def _breaker(key: str, given: Mapping[str, Any]) -> BreakerRule:
    rule = {name: given.get(name, row.default) for name, row in BREAKER_RULE.keys.items()}
    reset_after = _read("circuit_breaker.reset_after", rule["reset_after"], parse_duration)
    return BreakerRule(key, rule["threshold"], reset_after)


def timeout_of(value: Any, default: int) -> int | None:
    """Return how long a run may take, in microseconds; None means that it is not limited."""
    if value is None:
        return default
    return None if value in (0, "0", "0s") else int(_read("timeout", value, parse_duration))


# The declarations of a configuration, as values: the fields of each schedule, and their place in the file.


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as a file declares it; `place` is its file and line."""

    schedule_id: str
    fields: Mapping[str, Any]
    target: Target
    definition: Definition
    group: str | None = None
    place: str = ""

    @property
    def is_enabled(self) -> bool:
        return self.fields.get("enabled", True) is not False


def is_named_after_id(declared: Declared) -> bool:
    """Return whether the declaration holds more of its id than the id: the keys of its limits, or its group's rules."""
    return declared.group is not None or bool(declared.place) or not _SHARED.isdisjoint(declared.fields)


@dataclass(frozen=True, slots=True)
class Declarations:
    """All declarations of a configuration, validated as a whole."""

    schedules: tuple[Declared, ...] = ()
    policies: tuple[QuietHoursPolicy, ...] = ()
    digest: str = ""
    sections: Mapping[str, str] = field(default_factory=dict)  # entries that declare no schedules, as JSON
