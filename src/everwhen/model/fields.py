"""The keys of a schedule: what each is where nobody says it (SEMANTICS 10).

Defaults belong to what a schedule runs, not to the way by which it arrives. Files, REST, Python and tests complete the
words of a schedule here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from everwhen.model.manifest import Manifest
from everwhen.model.plugin_schedule import DEFAULT_COMMAND
from everwhen.model.target_kinds import WITH_DEFAULTS

Fields = dict[str, Any]

Shape = Literal["general", "pipelit", "syris"]
"""How a schedule is written: `interval_seconds` makes it Pipelit's body, `type` with `spec` SYRIS's."""

# What keeps a target from being run too often, too long or twice.
PROTECTIONS = ("max_outstanding", "max_concurrent", "circuit_breaker", "timeout", "on_lost")
_INHERITED = ("owner", "queue", "timezone")
_LIMITS = ("max_outstanding", "max_concurrent", "circuit_breaker", "timeout")
_BREAKER = {"threshold": 3, "reset_after": "30m"}


def with_defaults(
    fields: Mapping[str, Any],
    kind: str,
    *,
    group: Mapping[str, Any] | None = None,
    manifest: Manifest | None = None,
    shape: Shape = "general",
) -> Fields:
    """The words of a schedule whose target is of that kind, with everything that they leave unsaid.

    `group` holds the keys of the plugin, agent or workflow that it runs. What stands on the schedule overrides what
    stands on the group, that what the kind of target has, and that what the shape has. A group that is disabled
    disables its schedules.
    """
    given = {key: value for key, value in fields.items() if value is not None}
    if not group and shape == "general" and kind not in WITH_DEFAULTS:
        return given
    keys = group or {}
    unsaid = {
        **_of_shape(given, shape),
        **{key: keys[key] for key in _INHERITED if keys.get(key) is not None},
        **_of_target(given, kind, keys, manifest),
    }
    disabled = {"enabled": False} if keys.get("enabled") is False else {}
    return {**unsaid, **given, **disabled}


def _of_shape(given: Fields, shape: Shape) -> Fields:
    if shape == "general":
        return {}
    first = {"first_run": "after_interval"} if "every" in given and "start_at" not in given else {}
    if shape == "syris":
        return {**first, "retry_delay": "60s", "timeout": "10m", "timezone": "UTC"}
    retries = {"max_retries": 3, "retry_delay": given.get("every"), "on_exhausted": "stop"}
    return {**first, **retries, "timeout": "600s"}


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
    """What the group says of the command comes first; then the manifest: who must not run beside, or after, itself."""
    command = given.get("command") or DEFAULT_COMMAND
    defaults: Fields = {
        "command": command,
        "max_outstanding": group.get("max_outstanding_polls", group.get("max_outstanding", 1)),
        "circuit_breaker": group.get("circuit_breaker", _BREAKER),
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
    instances = group.get("instances") or {}
    defaults: Fields = {
        "timezone": group.get("timezone", "local"),
        "timeout": "1h",
        "max_concurrent": instances.get("max_concurrent", 1),
    }
    if "every" in given:
        defaults["interval_from"] = "completion"
    return defaults
