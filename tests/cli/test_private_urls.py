"""Where a URL came from decides what it may reach: `api.allow_private_urls`, from the file to a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everwhen.cli.configuration import this_host
from everwhen.cli.node_resources import NodeResources
from everwhen.config.read import read_configuration
from everwhen.engine.service import ServiceOptions
from everwhen.model.outcome import Outcome
from everwhen.model.schedule import Target
from everwhen.operations.apply import apply
from everwhen.wiring import Stack, build_service, open_stack
from tests.engine.test_service_targets import PATIENCE, Watch
from tests.submissions import Submission, create_schedule, update_schedule
from tests.targets.http_server import Server, a_server, status

FILE = """
api: {{allow_private_urls: {allowed}}}
schedules:
  - {{id: of-the-file, every: 1h, run: {{http: {{url: "{url}/file"}}}}}}
"""


def submit(stack: Stack, server: Server, schedule_id: str) -> None:
    """Somebody over REST, who also claims to be the file."""
    target = Target("http", json.dumps({"url": f"{server.url}/{schedule_id}", "source": "config"}))
    create_schedule(stack.runtime, Submission(schedule_id, {"every": "1h"}, target, source="api"))


def ran(path: Path, stack: Stack, count: int) -> dict[str, Outcome]:
    configuration = read_configuration(path, this_host())
    apply(stack.runtime, configuration.declared)
    node_resources, watch = NodeResources(stack, configuration, configuration.settings), Watch()
    service = build_service(
        stack, ServiceOptions(observer=watch), target_registry=node_resources.target_registry
    )
    service.start()
    try:
        return dict(watch.ended_runs.get(timeout=PATIENCE) for _ in range(count))
    finally:
        service.stop()


@pytest.mark.parametrize("allowed", [False, True])
def test_the_source_of_a_schedule_decides_what_it_may_reach(tmp_path: Path, allowed: bool) -> None:
    stack, path = open_stack("sqlite://"), tmp_path / "everwhen.yaml"
    with a_server(status(200, "reached")) as server:
        path.write_text(FILE.format(allowed=str(allowed).lower(), url=server.url))
        submit(stack, server, "submitted")
        outcomes = ran(path, stack, 2)
    stack.close()
    assert outcomes["of-the-file"].result == "reached"
    assert outcomes["submitted"].status == ("succeeded" if allowed else "failed")
    assert outcomes["submitted"].is_final is not allowed
    assert sorted(seen.path for seen in server.seen) == (["/file", "/submitted"] if allowed else ["/file"])


def test_a_schedule_that_is_changed_over_rest_stays_one_from_outside(tmp_path: Path) -> None:
    stack, path = open_stack("sqlite://"), tmp_path / "everwhen.yaml"
    with a_server(status(200)) as server:
        path.write_text(FILE.format(allowed="false", url=server.url))
        submit(stack, server, "submitted")
        target = Target("http", json.dumps({"url": f"{server.url}/changed"}))
        update_schedule(stack.runtime, Submission("submitted", {"every": "1h"}, target, source="api"))
        outcomes = ran(path, stack, 2)
    stack.close()
    assert "is not a public address" in (outcomes["submitted"].error or "")
    assert [seen.path for seen in server.seen] == ["/file"]
