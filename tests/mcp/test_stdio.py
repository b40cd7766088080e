"""`everwhen mcp` as clients start it: a process that speaks on its standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

import everwhen.mcp
from everwhen.cli.main import everwhen as command
from everwhen.cli.mcp_command import CLOSED, MISSING
from tests.api.serving import serving
from tests.environment import without_settings
from tests.mcp.every_tool import call_every_tool

FILE = 'agents: {bot: {command: ["true"]}}\n'


def parameters(folder: Path, *args: str, **env: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "everwhen", "mcp", *args],
        env={**without_settings(), **env},
        cwd=folder,
    )


def test_every_tool_works_on_a_database_with_the_rights_of_the_user_and_a_token_keeps_to_its_own(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, file=FILE) as service:
        viewer = service.client("viewer")
    (tmp_path / "everwhen.yaml").write_text(f"service: {{database: 'sqlite:///{tmp_path}/api.db'}}\n{FILE}")

    async def everything() -> Mapping[str, Any]:
        async with Client(parameters(tmp_path), mode="legacy") as client:
            return await call_every_tool(client)

    async def refused() -> None:
        server = parameters(tmp_path, "--config", "everwhen.yaml", "--token", str(viewer.secret))
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            assert {
                tool.name for tool in tools if not (tool.annotations and tool.annotations.read_only_hint)
            } == set()
            assert len(tools) == 7
            answer = await client.call_tool("delete_schedule", {"id": "x"})
            assert answer.is_error and "requires an operator or admin token" in str(answer.content)

    found = anyio.run(everything)
    assert (found["context"]["role"], found["made"]["result"]) == ("admin", "created")
    anyio.run(refused)


def test_a_service_needs_a_token() -> None:
    result = CliRunner().invoke(command, ["mcp", "--url", "http://127.0.0.1:9"], env={"EVERWHEN_TOKEN": None})
    assert result.exit_code == 2 and "a service needs a token" in result.output


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_stream_that_is_closed_is_named(tmp_path: Path, stream: str) -> None:
    number = {"stdin": 0, "stdout": 1}[stream]
    start = f"import os, sys; os.close({number}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    args = [
        sys.executable,
        "-c",
        start,
        "-m",
        "everwhen",
        "mcp",
        "--url",
        "http://127.0.0.1:9",
        "--token",
        "x",
    ]
    found = subprocess.run(
        check=False,
        args=args,
        env=without_settings(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (found.returncode, found.stderr) == (1, f"error: {CLOSED}\n")


def test_a_client_that_is_gone_ends_it_without_a_word(tmp_path: Path) -> None:
    args = [sys.executable, "-m", "everwhen", "mcp", "--url", "http://127.0.0.1:9", "--token", "x"]
    asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}) + "\n"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        found = subprocess.run(
            args,
            check=False,
            env=without_settings(),
            cwd=tmp_path,
            input=line.encode(),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert (found.returncode, found.stderr) == (0, b"")


def asked(number: object, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


BEGIN = asked(
    "begin",
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "t", "version": "1"},
)
GARBAGE = [
    b"not json",
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b"null",
    b"[]",
    b"",
    b'{"jsonrpc": "2.0", "id": NaN, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": {"a": 1}, "result": {}}',
    asked("nope", "no/such/method"),
    asked("list", "tools/call", name="get_context", arguments=[]),
    asked("large", "tools/call", name="get_context", arguments={"x": "x" * 4_000_000}),
    b'{"jsonrpc": "2.0", "id": "deep", "method": "tools/call", "params": {"name": "get_context", "arguments": '
    + b'{"a": ' * 50_000
    + b"1"
    + b"}" * 50_000
    + b"}}",
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "begin"}}',
]


def test_whatever_a_client_sends_the_next_call_is_answered_and_only_messages_are_written(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as service:
        caller = service.client("viewer")
        args = ["--url", service.url, "--token", str(caller.secret)]
        last = asked("last", "tools/call", name="get_context", arguments={})
        started = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
        with subprocess.Popen(
            [sys.executable, "-m", "everwhen", "mcp", *args],
            env=without_settings(),
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            process.stdin.write(b"\n".join([BEGIN, started, *GARBAGE, last, b""]))
            process.stdin.flush()
            found = {}
            for line in process.stdout:
                message = json.loads(line)
                found[message["id"]] = message
                if message["id"] == "last":
                    break
            process.stdin.close()
            assert process.stdout.read() == b""
            assert process.stderr.read() == b""
    assert process.returncode == 0
    assert found["last"]["result"]["structuredContent"]["role"] == "viewer"
    assert found["nope"]["error"]["code"] == -32601
    assert found["large"]["result"]["isError"] and len(str(found["large"])) < 1_000
    assert set(found) <= {"begin", "nope", "list", "large", "deep", "last"}
    assert str(caller.secret) not in str(found)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "everwhen.mcp.stdio", raising=False)
    monkeypatch.delattr(everwhen.mcp, "stdio", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    result = CliRunner().invoke(command, ["mcp", "--database", "sqlite:///nowhere.db"])
    assert str(result.exception) == MISSING
