"""Defaults that belong to what a schedule runs, to its group or to the shape of its body.

They do not depend on the way by which a schedule arrives: files, REST, Python and tests complete the keys of a schedule
here. The defaults themselves are in the rows of `fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from everwhen.model.fields import FIELDS, THE_INTERVAL, Column
from everwhen.model.plugin import Manifest
from everwhen.model.target_kinds import DEFAULT_COMMAND, WITH_DEFAULTS

Fields = dict[str, Any]

Shape = Literal["general", "seconds", "spec"]
"""How a body is written: with the keys of a file, with `interval_seconds`, or with `type` and `spec`."""

# What keeps a target from being run too often, too long or twice.
PROTECTIONS = ("max_outstanding", "max_concurrent", "circuit_breaker", "timeout", "on_lost")
_INHERITED = ("owner", "queue", "timezone")
_LIMITS = ("max_outstanding", "max_concurrent", "circuit_breaker", "timeout")
_OF_INTERVALS = ("first_run", "interval_from")  # other triggers have no use for them
_COLUMNS: dict[str, Fields] = {
    column: {name: row.defaults[column] for name, row in FIELDS.items() if column in row.defaults}
    for column in get_args(Column)
}


def with_defaults(
    fields: Mapping[str, Any],
    kind: str,
    *,
    group: Mapping[str, Any] | None = None,
    manifest: Manifest | None = None,
    shape: Shape = "general",
) -> Fields:
    """Return the keys of a schedule whose target is of that kind, with the defaults of all that it leaves out.

    `group` holds the keys of the plugin, agent or workflow that it runs. The keys of the schedule override those of the
    group, these the defaults of the kind of target, and these the defaults of the shape. A group that is disabled
    disables its schedules.
    """
    given = {key: value for key, value in fields.items() if value is not None}
    if not group and shape == "general" and kind not in WITH_DEFAULTS:
        return given
    keys = group or {}
    unsaid = {
        **_column(shape, given),
        **{key: keys[key] for key in _INHERITED if keys.get(key) is not None},
        **_of_target(given, kind, keys, manifest),
    }
    disabled = {"enabled": False} if keys.get("enabled") is False else {}
    return {**unsaid, **given, **disabled}


def _column(column: str, given: Fields) -> Fields:
    """Return the defaults of a kind of target or of a shape, for a schedule with these keys."""
    defaults = dict(_COLUMNS.get(column, {}))
    if "every" not in given:
        defaults = {key: value for key, value in defaults.items() if key not in _OF_INTERVALS}
    if "start_at" in given:
        defaults.pop("first_run", None)
    return {key: given.get("every") if value is THE_INTERVAL else value for key, value in defaults.items()}


def _of_target(given: Fields, kind: str, group: Mapping[str, Any], manifest: Manifest | None) -> Fields:
    limits = {key: group[key] for key in _LIMITS if group.get(key) is not None}
    match kind:
        case "plugin":
            return limits | _of_plugin(given, group, manifest)
        case "agent":
            return _of_agent(given, group) | limits
        case _:
            return limits


def _of_plugin(given: Fields, group: Mapping[str, Any], manifest: Manifest | None) -> Fields:
    """Return the defaults of a plugin: first those of the group for the command, then those of the manifest."""
    command = given.get("command") or DEFAULT_COMMAND
    own = _column("plugin", given)
    outstanding = group.get("max_outstanding", own["max_outstanding"])
    defaults: Fields = {
        **own,
        "command": command,
        "max_outstanding": group.get("max_outstanding_polls", outstanding),
        "circuit_breaker": group.get("circuit_breaker", own["circuit_breaker"]),
    }
    timeout = (group.get("timeouts") or {}).get(command)
    if timeout is not None:
        defaults["timeout"] = timeout
    if manifest is None:
        return defaults
    if not manifest.concurrency_safe and "max_concurrent" not in group:
        defaults["max_concurrent"] = 1
    declared = manifest.command(command)
    if declared is not None and declared.retry_safe is False:
        defaults["on_lost"] = "fail"
    return defaults


def _of_agent(given: Fields, group: Mapping[str, Any]) -> Fields:
    own = _column("agent", given)
    instances = group.get("instances") or {}
    return {
        **own,
        "timezone": group.get("timezone", own["timezone"]),
        "max_concurrent": instances.get("max_concurrent", own["max_concurrent"]),
    }
