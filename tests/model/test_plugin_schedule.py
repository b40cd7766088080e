from __future__ import annotations

from typing import Any

from everwhen.model.declare import declare
from everwhen.model.defaults import with_defaults
from everwhen.model.plugin import (
    Manifest,
    merged_payload,
    parse_manifest,
    plugin_drift,
    plugin_schedule_faults,
    plugin_target,
)
from tests.targets.plugins import a_manifest


def withings(**keys: Any) -> Manifest:
    return parse_manifest(a_manifest(**keys))


def test_the_payload_stands_over_the_defaults_of_the_command() -> None:
    schema = {"depth": {"type": "integer", "default": 2}, "source": {"type": "string", "default": "api"}}
    (command,) = withings(commands=[{"name": "poll", "input_schema": schema}]).commands
    assert merged_payload(command, {"source": "scheduler"}) == {"depth": 2, "source": "scheduler"}


def test_a_default_may_be_what_makes_a_payload_satisfy_its_schema() -> None:
    schema = {
        "type": "object",
        "required": ["depth"],
        "properties": {"depth": {"type": "integer", "default": 2}},
    }
    manifest = withings(commands=[{"name": "poll", "input_schema": schema}])
    assert plugin_schedule_faults(manifest, "hourly", "poll", {}) == []


def test_drift_is_what_keeps_a_stored_schedule_from_running() -> None:
    fields = with_defaults({"every": "1h", "command": "token_refresh"}, "plugin", manifest=withings())
    target = plugin_target("withings", "token_refresh")
    definition = declare("withings.hourly", fields, target=target, now=0, group="withings")
    assert plugin_drift("withings.hourly", definition, withings()) is None
    left = withings(commands=[{"name": "poll"}])
    assert (
        plugin_drift("withings.hourly", definition, left)
        == 'schedule "hourly" references unsupported command "token_refresh"; available: poll'
    )
    assert plugin_drift("withings.hourly", definition, None) == 'plugin "withings" is not installed'
