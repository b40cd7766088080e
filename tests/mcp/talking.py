"""The official client on a server in this process, whose tools call the API's application with one token."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext

from everwhen.api.in_process import InProcessAnswer, call_application
from everwhen.mcp.rest import Rest
from everwhen.mcp.server import build_server
from tests.api.serving import Client as RestClient
from tests.api.serving import Service

T = TypeVar("T")
Talk = Callable[[Client], Awaitable[T]]
Answer = Callable[[str], types.ElicitResult]
BASE = "https://everwhen.example.com"
EITHER = ("2026-07-28", "legacy")


def rest_of(service: Service, secret: str) -> Rest:
    async def call(
        method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> InProcessAnswer:
        return await call_application(service.app, method, target, body, {**headers, "x-api-key": secret})

    return Rest(call, secret, BASE)


def empty(service: Service) -> Service:
    """Delete what other tests left on a server that they share."""
    for one in service.admin.get("/schedules/?limit=500").fields["items"]:
        service.admin.call("DELETE", f"/schedules/{one['id']}/?cancel=true")
    return service


def talk(
    service: Service,
    caller: RestClient,
    conversation: Talk[T],
    *,
    mode: str = EITHER[0],
    answer: Answer | None = None,
) -> T:
    """Hold a conversation with the token of a caller; `answer` answers for the person at the client."""
    assert caller.secret is not None
    rest = rest_of(service, caller.secret)
    return anyio.run(partial(_talk, build_server(lambda _: rest), conversation, mode, answer))


async def _talk(server: Any, conversation: Talk[T], mode: str, answer: Answer | None) -> T:
    async with Client(server, mode=mode, elicitation_callback=answering(answer)) as client:
        return await conversation(client)


def answering(answer: Answer | None) -> Any:
    if answer is None:
        return None

    async def callback(_ctx: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        return answer(params.message)

    return callback


class Tools:
    """Calls of tools with one token, each a conversation of its own."""

    def __init__(self, service: Service, caller: RestClient, **more: Any) -> None:
        self._service, self._caller, self._more = service, caller, more

    def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return what a tool answers."""
        result = self._result(tool, arguments)
        assert not result.is_error, _text(result)
        found: dict[str, Any] = result.structured_content
        assert json.loads(_text(result)) == found
        return found

    def refusal(self, tool: str, /, **arguments: Any) -> str:
        """Return the sentence that a tool refuses with."""
        result = self._result(tool, arguments)
        assert result.is_error, result.structured_content
        return _text(result)

    def try_to(self, tool: str, /, **arguments: Any) -> None:
        """Call a tool, whatever comes of it."""
        self._result(tool, arguments)

    def _result(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        async def call(client: Client) -> Any:
            return await client.call_tool(name, arguments)

        result: types.CallToolResult = talk(self._service, self._caller, call, **self._more)
        return result


def _text(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text
