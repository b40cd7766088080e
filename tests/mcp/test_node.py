"""What `everwhen up` makes of the file: `api.mcp` and `self_schedule`; and what it does not import without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from everwhen.cli import api_server
from everwhen.cli.node_resources import NodeResources
from everwhen.config.read import Host, read_configuration
from everwhen.config.settings import ApiSettings
from everwhen.errors import ConfigError
from everwhen.mcp.mounts import mounts_of
from everwhen.operations.agent_runs import AgentRuns
from everwhen.targets.agent import AgentTarget, mcp_config
from everwhen.wiring import open_stack
from tests.environment import without_settings

FILE = """
api: {mcp: true, host: 0.0.0.0, port: 8123, insecure: true}
agents:
  may: {command: ["true"], self_schedule: {max_schedules: 3, approval: required}}
  may-by-default: {command: ["true"], self_schedule: {}}
  may-not: {command: ["true"]}
"""


def test_a_node_imports_the_package_only_where_the_file_asks_for_it() -> None:
    modules = "everwhen.cli.serving, everwhen.cli.mcp_command, everwhen.api.app, everwhen.scheduler"
    program = f"import sys, {modules}; print(sorted({{'mcp', 'mcp_types'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=without_settings(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert mounts_of(ApiSettings()) == ()


def test_without_the_package_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "everwhen.mcp.http", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http_manager", None)
    with pytest.raises(ConfigError, match=r"pip install 'everwhen\[mcp\]'"):
        api_server.load_api_server(ApiSettings(mcp=True))


def agent_runs(folder: Path, file: str) -> AgentRuns:
    """What the agents of a node get with this file."""
    path = folder / "everwhen.yaml"
    path.write_text(file)
    configuration = read_configuration(path, Host({}, lambda: "UTC", 0))
    stack = open_stack(f"sqlite:///{folder}/a.db")
    try:
        target = NodeResources(stack, configuration, configuration.settings).target_registry.targets["agent"]
    finally:
        stack.close()
    assert isinstance(target, AgentTarget) and target._agent_runs is not None
    return target._agent_runs


def test_the_file_says_which_agents_schedule_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EVERWHEN_URL", "EVERWHEN_API_PORT"):
        monkeypatch.delenv(name, raising=False)
    runs = agent_runs(tmp_path, FILE)
    assert runs.self_schedule("may") == {"max_schedules": 3, "approval": "required"}
    assert runs.self_schedule("may-by-default") == {}
    assert runs.self_schedule("may-not") is runs.self_schedule("nobody") is None
    assert (runs.address(), runs.serves_mcp()) == ("http://127.0.0.1:8123", True)
    monkeypatch.setenv("EVERWHEN_URL", "https://everwhen.example.com")
    assert runs.address() == "https://everwhen.example.com"


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("{max_depth: 0}", "max_depth"),
        ("{approval: ask}", "approval"),
        ("{max_schedule: 3}", 'did you mean "max_schedules"?'),
        ("yes", "self_schedule"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, said: str, fault: str) -> None:
    path = tmp_path / "everwhen.yaml"
    path.write_text(f'agents: {{bot: {{command: ["true"], self_schedule: {said}}}}}')
    with pytest.raises(ConfigError, match="self_schedule") as found:
        read_configuration(path, Host({}, lambda: "UTC", 0))
    assert fault in str(found.value)


def test_a_client_of_a_run_speaks_http_where_the_api_does() -> None:
    found = mcp_config("http://127.0.0.1:1", "ew_run_x", is_http=True)["mcpServers"]["everwhen"]
    assert found["url"] == "http://127.0.0.1:1/api/v1/mcp"
    assert found["headers"] == {"Authorization": "Bearer ew_run_x"}
