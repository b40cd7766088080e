"""Rows D: Ductile's plugins, and what becomes of what is scheduled of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everwhen.model.defaults import with_defaults
from everwhen.model.plugin import plugin_target
from everwhen.operations.groups import restore_valid_schedules
from everwhen.store.opened import store_of
from tests.rows.node import WorkingNode
from tests.targets.plugins import put_plugin

REMEMBERS = f"""#!{sys.executable}
import json, sys
request = json.load(sys.stdin)
seen = request["state"].get("seen", [])
seen.append([request["command"], request["payload"]])
print(json.dumps({{"status": "ok", "result": request["command"], "state_updates": {{"seen": seen}}}}))
"""


class Node(WorkingNode):
    """A node with one plugin."""

    def __init__(self, directory: Path) -> None:
        super().__init__(plugin_dirs=(directory,))
        self.directory = directory

    def add(self, local_id: str, **fields: Any) -> None:
        """A schedule as the `plugins` section declares it."""
        plugin = self.target_registry.plugins.find("withings")
        assert plugin is not None
        complete = with_defaults(fields, "plugin", manifest=plugin.manifest)
        self.scheduler.add(
            f"withings.{local_id}",
            group="withings",
            target=plugin_target("withings", complete["command"]),
            **complete,
        )

    @property
    def seen(self) -> list[Any]:
        found: list[Any] = store_of(self.scheduler.runtime).catalogue.plugin_state("withings").get("seen", [])
        return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    put_plugin(tmp_path, program=REMEMBERS)
    found = Node(tmp_path)
    yield found
    found.close()


def test_d3_a_job_runs_the_command_of_its_schedule_with_its_payload(node: Node) -> None:
    node.add("default", every="1h", command="token_refresh", payload={"source": "scheduler"})
    node.scheduler.step()
    assert node.seen == [["token_refresh", {"source": "scheduler"}]]
    (job,) = node.scheduler.jobs()
    assert (job.status, job.result) == ("succeeded", "token_refresh")


def test_d7_the_payload_is_merged_into_that_of_the_command(node: Node) -> None:
    schema = {"source": {"type": "string", "default": "api"}, "depth": {"type": "integer", "default": 2}}
    put_plugin(node.directory, program=REMEMBERS, commands=[{"name": "poll", "input_schema": schema}])
    node.add("default", every="1h", payload={"source": "scheduler", "more": True})
    node.add("bare", every="1h", max_outstanding=2)
    node.scheduler.step()
    assert node.seen == [
        ["poll", {"source": "scheduler", "depth": 2, "more": True}],
        ["poll", {"source": "api", "depth": 2}],
    ]


def test_d34_one_plugin_has_several_cadences(node: Node) -> None:
    node.add("refresh", every="1h", command="token_refresh", jitter="5m")
    node.add("poll", every="15m", jitter="2m")
    node.scheduler.advance("1h59m")
    assert [command for command, _ in node.seen].count("token_refresh") == 2
    assert [command for command, _ in node.seen].count("poll") == 8


def test_d48_a_command_that_left_the_manifest_fails_for_good_and_ends_the_entry_until_it_is_back(
    node: Node,
) -> None:
    node.add("refresh", every="1h", command="token_refresh", max_retries=5)
    node.scheduler.advance("30m")
    put_plugin(node.directory, program=REMEMBERS, commands=[{"name": "poll"}])
    node.scheduler.advance("3h")
    assert [job.status for job in node.scheduler.jobs()] == [
        "succeeded",
        "failed",
    ]  # no retry, no further slot
    state = node.scheduler.state("withings.refresh")
    assert state.status == "invalid"
    assert state.status_reason == 'plugin "withings" does not have the command "token_refresh" any more'
    # A restart that finds it as it was leaves it alone.
    node.scheduler.restart()
    assert restore_valid_schedules(node.scheduler.runtime, node.target_registry.fault_of) == []
    put_plugin(node.directory, program=REMEMBERS)
    assert restore_valid_schedules(node.scheduler.runtime, node.target_registry.fault_of) == [
        "withings.refresh"
    ]
    node.scheduler.advance("1h")
    assert [job.status for job in node.scheduler.jobs()] == ["succeeded", "failed", "succeeded"]
    assert node.scheduler.events("withings.refresh", "schedule.restored")


def test_what_a_plugin_remembers_survives_a_restart_and_a_crash_between_two_runs(node: Node) -> None:
    node.add("default", every="1h")
    node.scheduler.step()
    node.scheduler.clock.advance("1h")
    node.scheduler.tick()
    (claimed,) = node.scheduler.claim()
    node.run(claimed)  # the plugin has run, and its node dies before it can settle
    assert len(node.seen) == 1
    node.scheduler.restart()
    node.scheduler.clock.advance("1m")
    node.scheduler.beat()
    store_of(node.scheduler.runtime).slots.rescue(
        node.scheduler.clock.now(), node=node.scheduler.node, lease=30_000_000
    )
    node.scheduler.step()
    assert len(node.seen) == 2  # neither lost nor doubled
