"""What a schedule is where nobody says it: by what it runs, by its group, by its shape (SEMANTICS 10)."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.defaults import Shape, with_defaults
from everwhen.model.plugin import Manifest, parse_manifest
from tests.targets.plugins import a_manifest

PLUGIN = {
    "command": "poll",
    "max_outstanding": 1,
    "circuit_breaker": {"threshold": 3, "reset_after": "30m"},
}
AGENT = {"interval_from": "completion", "timezone": "local", "timeout": "1h", "max_concurrent": 1}


def withings(**keys: Any) -> Manifest:
    return parse_manifest(a_manifest(**keys))


def of_plugin(
    fields: dict[str, Any], *, group: dict[str, Any] | None = None, **manifest: Any
) -> dict[str, Any]:
    return with_defaults(fields, "plugin", group=group, manifest=withings(**manifest))


@pytest.mark.parametrize(
    ("kind", "unsaid"),
    [
        ("command", {}),
        ("http", {}),
        ("python", {}),
        ("message", {}),
        ("workflow", {}),
        ("plugin", PLUGIN),
        ("agent", AGENT),
    ],
)
def test_a_target_has_its_defaults_where_its_group_says_nothing(kind: str, unsaid: dict[str, Any]) -> None:
    assert with_defaults({"every": "5m"}, kind) == {"every": "5m", **unsaid}


def test_a_cron_entry_of_an_agent_counts_from_no_completion() -> None:
    assert "interval_from" not in with_defaults({"cron": "0 9 * * *"}, "agent")


def test_the_schedule_comes_before_its_group_and_the_group_before_the_target() -> None:
    group = {"timeouts": {"poll": "60s"}, "max_outstanding_polls": 3, "max_concurrent": 2, "queue": "slow"}
    fields = of_plugin({"every": "1h", "max_outstanding": 5}, group=group)
    assert (fields["timeout"], fields["max_outstanding"], fields["max_concurrent"]) == ("60s", 5, 2)
    assert fields["queue"] == "slow"
    assert "timeout" not in of_plugin({"command": "health"}, group=group)
    assert of_plugin({"command": "health"}, group={**group, "timeout": "5m"})["timeout"] == "5m"
    instances = {"instances": {"max_concurrent": 3}, "timeout": "2h", "timezone": "Asia/Tokyo"}
    agent = with_defaults({"every": "1h"}, "agent", group=instances)
    assert (agent["max_concurrent"], agent["timeout"], agent["timezone"]) == (3, "2h", "Asia/Tokyo")


def test_a_workflow_has_what_stands_on_it() -> None:
    group = {"timeout": "30m", "max_concurrent": 2, "max_outstanding": 4, "circuit_breaker": {"threshold": 1}}
    assert with_defaults({}, "workflow", group={**group, "name": "Report"}) == group
    assert with_defaults({"timeout": 0}, "workflow", group=group)["timeout"] == 0


def test_a_group_that_is_disabled_disables_its_schedules() -> None:
    assert with_defaults({"enabled": True}, "agent", group={"enabled": False})["enabled"] is False


def test_a_plugin_that_is_not_safe_to_run_beside_itself_runs_alone() -> None:
    assert of_plugin({}, concurrency_safe=False)["max_concurrent"] == 1
    assert of_plugin({}, concurrency_safe=False, group={"max_concurrent": 4})["max_concurrent"] == 4
    assert "max_concurrent" not in of_plugin({}, concurrency_safe=True)


@pytest.mark.parametrize(
    ("command", "on_lost"), [("poll", None), ("token_refresh", "fail"), ("health", None)]
)
def test_what_is_not_safe_to_retry_is_not_run_again_when_its_node_dies(
    command: str, on_lost: str | None
) -> None:
    assert of_plugin({"command": command}).get("on_lost") == on_lost


def test_a_person_may_say_that_it_is_run_again_all_the_same() -> None:
    assert of_plugin({"command": "token_refresh", "on_lost": "rerun"})["on_lost"] == "rerun"


@pytest.mark.parametrize(
    ("shape", "unsaid"),
    [
        ("general", {}),
        ("seconds", {"max_retries": 3, "retry_delay": "5m", "timeout": "600s", "on_exhausted": "stop"}),
        ("spec", {"retry_delay": "60s", "timeout": "10m", "timezone": "UTC"}),
    ],
)
def test_a_shape_has_its_defaults_and_the_target_comes_before_them(
    shape: Shape, unsaid: dict[str, Any]
) -> None:
    first = {} if shape == "general" else {"first_run": "after_interval"}
    assert with_defaults({"every": "5m"}, "http", shape=shape) == {"every": "5m", **unsaid, **first}
    assert "first_run" not in with_defaults({"every": "5m", "start_at": "x"}, "http", shape=shape)
    assert with_defaults({"every": "5m"}, "agent", shape=shape) == {"every": "5m", **unsaid, **first, **AGENT}
    group = {"timeout": "30m"}
    assert with_defaults({"every": "5m"}, "workflow", group=group, shape=shape)["timeout"] == "30m"
