"""docs/guide/mcp.md, carried out: the configurations of the clients, and the conversation from context to first run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from everwhen.cli.main import everwhen
from everwhen.engine.service import ServiceOptions
from everwhen.operations.agent_runs import AgentRuns
from everwhen.target_registry import open_target_registry
from everwhen.testing.manual import ManualClock
from everwhen.wiring import build_service, open_stack
from tests.api.serving import Service, serving
from tests.environment import without_settings
from tests.mcp.every_tool import call_every_tool
from tests.mcp.talking import EITHER
from tests.mcp.test_http import hold

GUIDE = (Path(__file__).parents[2] / "docs/guide/mcp.md").read_text()
FILE = f"""
service: {{timezone: Europe/Berlin}}
agents: {{assistant: {{command: ["{sys.executable}", "-c", "import sys; print(sys.stdin.read(), end='')"]}}}}
"""
EXCHANGES = [block.split("\n", 1) for block in re.findall(r"```mcp\n(.*?)\n```", GUIDE, re.DOTALL)]
PATIENCE = 60.0
# "Every weekday at nine, summarise my inbox, until Christmas": every call and its whole answer, to the first run.
TRANSCRIPT = Path(__file__).parent / "inbox_conversation.json"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-11-16T09:04:00Z")


@pytest.fixture
def service(tmp_path: Path, clock: ManualClock) -> Iterator[Service]:
    with serving(tmp_path, file=FILE, clock=clock, mcp=True) as found:
        found.context.runtime.timezone = "Europe/Berlin"
        yield found


# -- clients --


def configured(language: str) -> list[dict[str, Any]]:
    """What the snippets of one language say about the server."""
    read = json.loads if language == "json" else tomllib.loads
    found = [read(text) for text in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)]
    return [next(iter(one.values()))["everwhen"] for one in found]


def test_programs_are_started_as_the_guide_says_and_every_tool_answers(
    service: Service, tmp_path: Path
) -> None:
    programs = [one for one in (*configured("json"), *configured("toml")) if "command" in one]
    assert len(programs) == 3
    assert all((one["command"], one["args"]) == ("everwhen", ["mcp"]) for one in programs)
    assert {tuple(one["env"]) for one in programs} == {("EVERWHEN_URL", "EVERWHEN_TOKEN")}
    given = dict(zip(programs[0]["env"], (service.url, str(service.client().secret)), strict=True))
    program = str(Path(sys.executable).parent / programs[0]["command"])
    server = StdioServerParameters(
        command=program, args=programs[0]["args"], env={**without_settings(), **given}, cwd=tmp_path
    )

    async def everything() -> Any:
        async with Client(server, mode=EITHER[0]) as client:
            return await call_every_tool(client, "assistant")

    assert anyio.run(everything)["context"]["role"] == "operator"


def test_the_address_is_called_as_the_guide_says(service: Service) -> None:
    (remote,) = (one for one in configured("json") if "url" in one)
    path = remote["url"].removeprefix("http://127.0.0.1:8750")
    ((name, value),) = remote["headers"].items()
    headers = {name: value.replace("ew_…", str(service.client().secret))}

    async def looked(client: Client) -> Any:
        return (await client.call_tool("get_context", {})).structured_content

    assert hold(service.url, None, looked, path=path, **headers)["role"] == "operator"


# -- the conversation --


def made_by_command(service: Service, tmp_path: Path) -> str:
    """The token that the guide creates."""
    (line,) = re.findall(r"^everwhen (token create .*)$", GUIDE, re.MULTILINE)
    args = [*shlex.split(line), "--database", f"sqlite:///{tmp_path}/api.db", "--json"]
    made = CliRunner().invoke(everwhen, args)
    assert made.exit_code == 0, made.output
    secret: str = json.loads(made.stdout)["token"]
    return secret


def is_part(expected: Any, found: Any) -> bool:
    """Whether an answer has what the guide shows of it; of a list, its beginning."""
    if isinstance(expected, dict):
        return all(is_part(value, found[key]) for key, value in expected.items())
    if isinstance(expected, list):
        return all(is_part(*pair) for pair in zip(expected, found, strict=False)) and len(expected) <= len(
            found
        )
    return bool(expected == found)


class Conversation:
    """What was said so far: the code of the last preview, the id of the schedule, and everything in full."""

    def __init__(self, service: Service, secret: str) -> None:
        self._service, self._secret = service, secret
        self.names = {"CONFIRM": "", "ID": ""}
        self.transcript: list[dict[str, Any]] = []

    def go_on(self, request: str, shown: str) -> None:
        """Send a request of the guide, and compare what comes back."""
        tool, _, arguments = self._named(request).partition(" ")

        async def call(client: Client) -> Any:
            return await client.call_tool(tool, json.loads(arguments))

        result = hold(self._service.url, self._secret, call)
        self._write_down(tool, json.loads(arguments), result)
        if shown.startswith("error: "):
            assert result.is_error and result.content[0].text == shown.removeprefix("error: ")
            return
        assert not result.is_error, result.content
        found = result.structured_content
        self.names |= {"CONFIRM": found.get("confirm") or "", "ID": found.get("id") or self.names["ID"]}
        assert is_part(json.loads(self._named(shown)), found), found

    def _write_down(self, tool: str, arguments: dict[str, Any], result: Any) -> None:
        """Keep a call with its whole answer; what differs each time has a name."""
        found = result.structured_content
        answer = {"error": result.content[0].text} if result.is_error else {"answer": found}
        text = json.dumps({"tool": tool, "arguments": arguments, **answer})
        code = arguments.get("confirm") or (found or {}).get("confirm")
        schedule_id = self.names["ID"] or (found or {}).get("id")
        for value, name in ((code, "CONFIRM"), (schedule_id, "ID"), (self._service.url, "URL")):
            text = text.replace(value, name) if value else text
        self.transcript.append(json.loads(text))

    def _named(self, text: str) -> str:
        for word, value in self.names.items():
            text = re.sub(rf"\b{word}\b", value, text) if value else text
        return text


def run_once(tmp_path: Path, clock: ManualClock, service: Service, schedule_id: str) -> None:
    """A node fires what is due and runs it, until that has ended."""
    stack = open_stack(f"sqlite:///{tmp_path}/api.db", clock=clock)
    try:
        runs = AgentRuns(stack.runtime, lambda _agent: None, lambda: None)
        registry = open_target_registry(stack.runtime, max_workers=1, agent_runs=runs)
        node = build_service(
            stack, ServiceOptions(check_interval=0.05, max_workers=1), target_registry=registry
        )
        node.start()
        ended = threading.Event()
        try:
            for _ in range(int(PATIENCE / 0.05)):
                if service.admin.get(f"/jobs/?schedule_id={schedule_id}&status=succeeded").fields["items"]:
                    return
                ended.wait(0.05)
            raise AssertionError("the run did not end")
        finally:
            node.stop()
    finally:
        stack.close()


def test_the_conversation_of_the_guide(service: Service, tmp_path: Path, clock: ManualClock) -> None:
    conversation = Conversation(service, made_by_command(service, tmp_path))
    *before, last = EXCHANGES
    assert len(before) == 5
    for request, shown in before:
        conversation.go_on(request, shown)
    schedule_id = conversation.names["ID"]
    (line,) = re.findall(r"^everwhen (schedules approve .*)$", GUIDE, re.MULTILINE)
    args = shlex.split(line.replace("ID", schedule_id))
    approved = CliRunner().invoke(
        everwhen, [*args, "--url", service.url, "--token", str(service.admin.secret)]
    )
    assert approved.exit_code == 0, approved.output
    clock.set("2026-11-17T08:00:01Z")
    conversation.transcript.append({"person": f"everwhen {line}"})
    run_once(tmp_path, clock, service, schedule_id)
    conversation.go_on(*last)
    said = json.dumps(conversation.transcript, indent=1, ensure_ascii=False) + "\n"
    (tmp_path / TRANSCRIPT.name).write_text(said)  # to look at, and to copy where a change is meant
    assert said == TRANSCRIPT.read_text()


def test_the_command_of_the_guide_hands_the_configuration_of_a_run_to_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/agents.md").read_text()
    (text,) = [one for one in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL) if "self_schedule" in one]
    (tmp_path / "everwhen.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    checked = CliRunner().invoke(everwhen, ["config", "check"])
    assert checked.exit_code == 0, checked.output
    client = tmp_path / "claude"
    client.write_text(f'#!/bin/sh\necho "$@" "$(cat)" > {tmp_path}/heard\n')
    client.chmod(0o700)
    command = yaml.safe_load(text)["agents"]["reviewer"]["command"]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "EVERWHEN_MCP_CONFIG": "/run/a b/mcp.json"}
    subprocess.run(command, env=environment, input=b"Do it.", check=True, timeout=PATIENCE)
    assert (tmp_path / "heard").read_text() == "-p --mcp-config /run/a b/mcp.json Do it.\n"
