"""MCP over streamable HTTP, by the official client: both protocol versions, the API's own guard, and several nodes."""

from __future__ import annotations

import http.client
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from everwhen.operations.tokens import revoke_token
from tests.api.serving import Client as RestClient
from tests.api.serving import Service, serving
from tests.mcp.every_tool import call_every_tool
from tests.mcp.talking import EITHER, answering
from tests.servers.everwhen_database import PostgresDatabase

T = TypeVar("T")
FILE = 'agents: {bot: {command: ["true"]}}\n'
WEEKLY: dict[str, Any] = {
    "name": "Report",
    "purpose": "A report each week.",
    "time": "09:00",
    "days": ["mon"],
    "timezone": "Europe/Berlin",
    "agent": "bot",
    "prompt": "Write it.",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(
        tmp_path_factory.mktemp("mcp"), file=FILE, mcp=True, allowed_hosts=["mcp.example.com"]
    ) as found:
        yield found


def hold(
    url: str,
    secret: str | None,
    conversation: Callable[[Client], Awaitable[T]],
    *,
    mode: str = EITHER[0],
    answer: Any = None,
    path: str = "/api/v1/mcp",
    **headers: str,
) -> T:
    """Hold a conversation with the server at this address."""

    async def held() -> T:
        sent = {**({"authorization": f"Bearer {secret}"} if secret else {}), **headers}
        async with httpx2.AsyncClient(headers=sent, timeout=30) as carrier:
            transport = streamable_http_client(f"{url}{path}", http_client=carrier)
            async with Client(transport, mode=mode, elicitation_callback=answering(answer)) as client:
                return await conversation(client)

    return anyio.run(held)


async def created(client: Client, **more: Any) -> dict[str, Any]:
    """Preview, then create."""
    arguments = {**WEEKLY, **more}
    preview = await client.call_tool("create_schedule", arguments)
    assert not preview.is_error, preview.content
    arguments["confirm"] = preview.structured_content["confirm"]
    result = await client.call_tool("create_schedule", arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


@pytest.mark.parametrize("mode", EITHER)
@pytest.mark.parametrize("path", ["/api/v1/mcp", "/api/v1/mcp/"])
def test_every_tool_answers_with_and_without_the_last_slash(service: Service, mode: str, path: str) -> None:
    async def conversation(client: Client) -> dict[str, Any]:
        if path.endswith("/"):
            found = await call_every_tool(client)
            assert found["context"]["targets"]["agents"] == ["bot"]
        return await created(client, prompt=f"{mode} {path}")

    made = hold(service.url, service.client().secret, conversation, mode=mode, path=path)
    assert made["result"] == "created"
    assert service.admin.get(f"/schedules/{made['id']}/").fields["status"] == "active"


def raw(service: Service, method: str = "POST", **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    try:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        sent = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **headers,
        }
        connection.request(method, "/api/v1/mcp/", body, sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def test_the_guard_of_the_api_is_in_front(service: Service) -> None:
    bearer = {"authorization": f"Bearer {service.admin.secret}"}
    for headers, status in (
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"cookie": "everwhen_session_80=x"}, 401),
        ({**bearer, "host": "evil.example.com"}, 421),
        ({**bearer, "origin": "https://evil.example.com"}, 403),
    ):
        found, problem = raw(service, **headers)
        assert (found, problem["status"]) == (status, status)
    assert raw(service, "GET", **bearer)[0] == 405
    assert raw(service, "DELETE", **bearer)[0] == 405


def test_a_name_of_the_service_is_taken(service: Service) -> None:
    async def conversation(client: Client) -> dict[str, Any]:
        return await created(client, prompt="By name.")

    caller = service.client(approval="required")
    made = hold(service.url, caller.secret, conversation, host="mcp.example.com")
    assert made["approve"]["url"] == f"http://mcp.example.com/schedules/{made['id']}"


def test_a_revoked_token_opens_nothing(tmp_path: Path, service: Service) -> None:
    caller = service.client()
    token_id = caller.get("/me/").fields["id"]
    revoke_token(service.runtime, token_id)
    service.context.known_tokens.clear()

    async def conversation(client: Client) -> None:
        await client.list_tools()

    with pytest.raises((ExceptionGroup, MCPError, httpx2.HTTPError)):
        hold(service.url, caller.secret, conversation)


def test_without_the_setting_there_is_no_such_path(tmp_path: Path) -> None:
    with serving(tmp_path) as plain:
        assert raw(plain, authorization=f"Bearer {plain.admin.secret}")[0] == 404


def accept(_question: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"create": True})


def test_the_older_protocol_cannot_ask_without_a_session(service: Service) -> None:
    made = hold(
        service.url,
        service.client(approval="ask").secret,
        partial(created, prompt="May I?"),
        mode="legacy",
        answer=accept,
    )
    assert made["result"] == "waiting_for_approval"


# -- several nodes --


async def asked(client: Client, arguments: dict[str, Any], **more: Any) -> Any:
    """What the call ends with: a result, a question, or the text of an error."""
    try:
        return await client.session.call_tool("create_schedule", arguments, allow_input_required=True, **more)
    except MCPError as error:
        return str(error)


def answered_elsewhere(first: Service, second: Service, caller: RestClient, other: RestClient) -> None:
    """Ask at one node, and bring the answer to another; it counts for its own token and its own arguments alone."""

    async def begin(client: Client) -> tuple[dict[str, Any], str]:
        preview = await client.call_tool("create_schedule", WEEKLY)
        arguments = {**WEEKLY, "confirm": preview.structured_content["confirm"]}
        question = await asked(client, arguments)
        assert isinstance(question, types.InputRequiredResult)
        assert question.request_state is not None
        return arguments, question.request_state

    arguments, state = hold(first.url, caller.secret, begin, answer=accept)
    accepted: Any = {"approval": accept("")}
    end = partial(asked, arguments=arguments, input_responses=accepted, request_state=state)
    for client, changed in ((other, end), (caller, partial(end, arguments={**arguments, "name": "Else"}))):
        refused = hold(second.url, client.secret, changed, answer=accept)
        assert refused == "Invalid or expired requestState"
    made = hold(second.url, caller.secret, end, answer=accept)
    assert made.structured_content["result"] == "created", made
    assert second.admin.get(f"/schedules/{made.structured_content['id']}/").fields["status"] == "active"


def test_a_question_is_answered_at_another_node(tmp_path: Path, everwhen_on_18: PostgresDatabase) -> None:
    url = everwhen_on_18.empty()
    with (
        serving(tmp_path, file=FILE, url=url, mcp=True) as first,
        serving(tmp_path, file=FILE, url=url, mcp=True) as second,
    ):
        answered_elsewhere(first, second, first.client(approval="ask"), first.client(approval="ask"))
