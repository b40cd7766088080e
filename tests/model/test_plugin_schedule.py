from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.declare import declare
from everwhen.model.manifest import Manifest, parse_manifest
from everwhen.model.plugin_schedule import (
    merged_payload,
    plugin_drift,
    plugin_schedule_faults,
    plugin_target,
    plugin_words,
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


def test_schedules_of_plugins_have_the_defaults_of_their_door() -> None:
    assert plugin_words(withings(), {"every": "1h"}) == {
        "every": "1h",
        "command": "poll",
        "max_outstanding": 1,
        "circuit_breaker": {"threshold": 3, "reset_after": "30m"},
        "timeout": None,
    }


def test_the_schedule_comes_before_its_plugin_and_the_plugin_before_the_door() -> None:
    group = {"timeouts": {"poll": "60s"}, "max_outstanding_polls": 3, "max_concurrent": 2}
    words = plugin_words(withings(), {"every": "1h", "max_outstanding": 5}, group=group)
    assert words["timeout"] == "60s"
    assert words["max_outstanding"] == 5
    assert words["max_concurrent"] == 2
    assert plugin_words(withings(), {"command": "health"}, group=group)["timeout"] is None


def test_a_plugin_that_is_not_safe_to_run_beside_itself_runs_alone() -> None:
    assert plugin_words(withings(concurrency_safe=False), {})["max_concurrent"] == 1
    assert (
        plugin_words(withings(concurrency_safe=False), {}, group={"max_concurrent": 4})["max_concurrent"] == 4
    )


@pytest.mark.parametrize(
    ("command", "on_lost"), [("poll", None), ("token_refresh", "fail"), ("health", None)]
)
def test_what_is_not_safe_to_retry_is_not_run_again_when_its_node_dies(
    command: str, on_lost: str | None
) -> None:
    assert plugin_words(withings(), {"command": command}).get("on_lost") == on_lost


def test_a_person_may_say_that_it_is_run_again_all_the_same() -> None:
    assert plugin_words(withings(), {"command": "token_refresh", "on_lost": "rerun"})["on_lost"] == "rerun"


def test_drift_is_what_keeps_a_stored_schedule_from_running() -> None:
    words = plugin_words(withings(), {"every": "1h", "command": "token_refresh"})
    target = plugin_target("withings", "token_refresh")
    definition = declare("withings.hourly", words, target=target, now=0, group="withings")
    assert plugin_drift("withings.hourly", definition, withings()) is None
    left = withings(commands=[{"name": "poll"}])
    assert (
        plugin_drift("withings.hourly", definition, left)
        == 'schedule "hourly" references unsupported command "token_refresh"'
    )
    assert plugin_drift("withings.hourly", definition, None) == 'plugin "withings" is not installed'
