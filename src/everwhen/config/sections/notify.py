"""The section `notify`: the rules by which alerts are sent."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from typing import Any

from everwhen.config.document import DocumentNode
from everwhen.config.sections.collector import ScheduleCollector
from everwhen.config.settings import seconds_of
from everwhen.errors import shown
from everwhen.model.alerts import (
    CHANNELS,
    PROBLEMS,
    AlertRule,
    ChannelKind,
    Concern,
    classes_named,
)
from everwhen.model.instants import SECOND
from everwhen.model.scalars import hint

_DURATIONS = ("group_wait", "cooldown", "repeat")


def read_notify(node: DocumentNode, collector: ScheduleCollector) -> None:
    """Check what one rule alone does not show: names that are taken, and quiet hours that do not exist."""
    for child in node.items():
        if not child.is_sound:
            continue
        name, quiet_hours = child.value.get("name"), child.value.get("quiet_hours")
        if name is not None:
            place = child.place
            first = collector.rule_places.setdefault(name, place)
            if first is not place:
                child.complain(f'duplicate name "{name}", first in {first}')
        known = sorted({*collector.policy_places, *collector.rules.quiet_hours})
        if quiet_hours is not None and quiet_hours not in known:
            child.complain(
                f'there are no quiet hours "{shown(quiet_hours)}"{hint(quiet_hours, known)}', "quiet_hours"
            )


def rules_in(section: Iterable[Mapping[str, Any]] | None) -> tuple[AlertRule, ...]:
    """Return the rules of the section, which was checked.

    A rule without a name gets that of its channel, with a number where the name is taken: `http`, `http-2`.
    """
    listed = list(section or ())
    taken = {str(fields["name"]) for fields in listed if fields.get("name")}
    rules = []
    for fields in listed:
        name = fields.get("name") or _free_name(channel_of(fields), taken)
        taken.add(name)
        rules.append(rule_of(fields, name))
    return tuple(rules)


def _free_name(kind: str, taken: Collection[str]) -> str:
    names = (kind if number == 1 else f"{kind}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)


def rule_of(fields: Mapping[str, Any], name: str) -> AlertRule:
    """Return one rule from its checked fields."""
    kind = channel_of(fields)
    spans: dict[str, Any] = {key: seconds_of(fields[key]) * SECOND for key in _DURATIONS if key in fields}
    if fields.get("max_per_hour") is not None:
        spans["max_per_hour"] = fields["max_per_hour"]
    words = _listed(fields.get("on") or PROBLEMS)
    return AlertRule(
        name,
        kind,
        json.dumps(_channel_spec(fields, kind)),
        classes=frozenset().union(*map(classes_named, words)),
        concern=_concern(fields.get("for") or {}),
        tells_resolved=fields.get("resolved") is not False,
        quiet_hours=fields.get("quiet_hours"),
        **spans,
    )


def _channel_spec(fields: Mapping[str, Any], kind: ChannelKind) -> Any:
    """Return what the channel gets: its part of the rule, and of a program its environment."""
    return {"argv": fields[kind], "env": fields.get("env") or {}} if kind == "command" else fields[kind]


def channel_of(fields: Mapping[str, Any]) -> ChannelKind:
    return next(name for name in CHANNELS if fields.get(name) is not None)


def _concern(fields: Mapping[str, Any]) -> Concern:
    names = (frozenset(_listed(fields.get(key) or [])) for key in ("group", "owner", "schedule"))
    groups, owners, schedules = names
    return Concern(groups, owners, schedules, fields.get("severity") or "info")


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
