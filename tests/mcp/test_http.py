"""MCP over streamable HTTP, by the official client: both protocol versions, the API's own guard, and several nodes."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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

from everwhen.api.shares import OF_MESSAGES
from everwhen.mcp.http import MOST_BYTES, MOST_VALUES
from everwhen.operations.tokens import revoke_token
from tests.api.serving import Client as RestClient
from tests.api.serving import Service, serving
from tests.api.test_anonymous import leave
from tests.api.test_shares import loop_of
from tests.mcp.every_tool import call_every_tool
from tests.mcp.talking import EITHER, answering
from tests.scheduler.waiting import until
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


A_LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()


def raw(
    service: Service, method: str = "POST", message: bytes = A_LIST, **headers: str
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    try:
        sent = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **headers,
        }
        connection.request(method, "/api/v1/mcp/", message, sent)
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
        found, problem = raw(service, "POST", A_LIST, **headers)
        assert (found, problem["status"]) == (status, status)
    assert raw(service, "GET", A_LIST, **bearer)[0] == 405
    assert raw(service, "DELETE", A_LIST, **bearer)[0] == 405


def of(message: object, size: int = 0) -> bytes:
    """A call of a tool with this argument."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "get_context", "arguments": {"x": message, "y": "x" * size}}
    return json.dumps({**call, "params": params}).encode()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (of([{}] * MOST_VALUES), 413),
        (of("x", size=MOST_BYTES), 413),
        (of(0).replace(b'"x": 0', b'"x": ' + b"[" * 2_000 + b"]" * 2_000), 400),
        (of(0).replace(b'"x": 0', b'"x": 0, "x": 1'), 400),
        (of(0).replace(b'"x": 0', b'"x": NaN'), 400),
        (b"{", 400),
    ],
    ids=["values", "bytes", "depth", "a key twice", "no number", "no JSON"],
)
def test_a_message_is_read_by_the_one_reader_of_json(service: Service, body: bytes, status: int) -> None:
    """Forty of 600 KB, with 200,000 values each, held the event loop for seconds."""
    bearer = {"authorization": f"Bearer {service.admin.secret}"}
    found, problem = raw(service, "POST", body, **bearer)
    assert (found, problem["status"]) == (status, status)


def test_clients_that_leave_before_their_message_is_there_leave_at_most_one_line_of_the_log(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """None where they have left before their request is begun."""
    head = f"POST /api/v1/mcp/ HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {service.admin.secret}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    caplog.set_level(logging.INFO)
    for _ in range(3):
        leave(service, head.encode())
    assert raw(service, authorization=f"Bearer {service.admin.secret}", accept="text/html")[0] == 406
    written = [one for one in caplog.records if one.name == "everwhen" or one.levelno > logging.INFO]
    assert [(one.levelname, one.exc_info) for one in written] in ([], [("INFO", None)])


def test_messages_of_one_token_take_turns_and_those_of_another_owner_come_next(service: Service) -> None:
    """All of them were under way at once, on the event loop."""
    loop, places = loop_of(service), service.context.shares.messages
    clients = {name: service.client(owner=name) for name in ("ada", "bob")}
    (token,) = (one for one in service.runtime.tokens.all() if one.owner == "ada")
    released = threading.Event()

    async def occupy() -> None:
        async with service.context.shares.message(token, 0):
            while not released.is_set():
                await anyio.sleep(0.01)

    held = [asyncio.run_coroutine_threadsafe(occupy(), loop) for _ in range(OF_MESSAGES.of_token)]
    until(lambda: places.count_taken(token.token_id) == OF_MESSAGES.of_token)
    with ThreadPoolExecutor(20) as many:
        try:
            waiting = [many.submit(raw_status, service, clients["ada"]) for _ in range(20)]
            until(lambda: places.count_waiting(token.token_id) == 20)
            assert raw_status(service, clients["bob"]) == 200
        finally:
            released.set()
        assert {one.result() for one in waiting} == {200}
    assert all(one.result() is None for one in held)
    until(lambda: places.is_idle)


def raw_status(service: Service, client: RestClient) -> int:
    """Send a call of a tool, which makes calls of its own, and read all of its answer."""
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=30)
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    sent["x-api-key"] = client.secret or ""
    try:
        connection.request("POST", "/api/v1/mcp/", of(0).replace(b'"x": 0, "y": ""', b""), sent)
        answer = connection.getresponse()
        assert b'"isError":false' in answer.read()
        return answer.status
    finally:
        connection.close()


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
