"""The server over streamable HTTP, as a part of the API at `/api/v1/mcp/`, on every node alike.

Host, origin, length and token are checked by the API's own guard, as for every call. A message is read whole, by the
one reader of JSON, before the SDK gets it on the event loop, and when it is its token's turn: the SDK takes
milliseconds for each, and seconds for one of very many values.

Requests have no session: a node that restarts loses no client, and any node answers the next request. So by the older
protocol, where the server would have to ask within a call, no person is asked; by the newer one the answer may come to
another node.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import Route

from everwhen.api.access import counted_body, secret_of
from everwhen.api.app import Mounted
from everwhen.api.calls import parse_body
from everwhen.api.context import context_of
from everwhen.api.in_process import LOOPBACK, InProcessAnswer, call_application
from everwhen.api.json_reader import MOST_SCHEDULE
from everwhen.api.proxies import caller_scheme
from everwhen.api.request_guard import ROOT, root_of
from everwhen.mcp.rest import Rest
from everwhen.mcp.server import Context, build_server

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

PATH = f"{ROOT}/mcp/"
SECRET = "everwhen.secret"  # where the checked token stands in the scope of a request
_HEADERS = ("host", "x-forwarded-for")
MOST_BYTES = MOST_SCHEDULE + (64 << 10)  # of a message: a schedule, and what stands around it
MOST_VALUES = 10_000
COST, BYTES_OF_A_UNIT = 3, 16 << 10  # of a message, in the units of `costs`


def mount_mcp(app: FastAPI) -> Mounted:
    """Make the part of an application that serves MCP; its tools call that application."""
    server = build_server(lambda ctx: _rest_of(app, ctx))
    # The guard has looked at the Host header; the SDK would answer 421 to every name but localhost.
    unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    manager = StreamableHTTPSessionManager(
        server, stateless=True, security_settings=unguarded, max_request_body_size=MOST_BYTES
    )

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Mounted(Route(PATH, _Endpoint(manager), methods=["POST"]), running)


class _Endpoint:
    """Lets in who brings a token, when it is its turn."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        secret = await secret_of(request)
        detail = f"A message has at most {MOST_BYTES:,} bytes."
        body = await counted_body(request, MOST_BYTES, detail, {"connection": "close"})
        await parse_body(request, body, MOST_VALUES)
        shares, cost = context_of(request).shares, COST + len(body) / BYTES_OF_A_UNIT
        async with shares.message(request.state.token, cost):
            await self._manager.asgi_app({**scope, SECRET: secret}, _again(body, receive), send)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with a body that was read, and then waits for the client to leave."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def received() -> Any:
        message = next(messages, None)
        return await receive() if message is None else message

    return received


def _rest_of(app: FastAPI, ctx: Context) -> Rest:
    request = ctx.request
    assert isinstance(request, Request)
    secret: str = request.scope[SECRET]
    sent = {name: request.headers[name] for name in _HEADERS if name in request.headers}
    root = root_of(request.scope)
    client: Any = request.scope.get("client") or LOOPBACK

    async def call(
        method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> InProcessAnswer:
        named = {**sent, **headers, "x-api-key": secret}
        return await call_application(app, method, target, body, named, client=client, root_path=root)

    settings = app.state.context.settings
    scheme = caller_scheme(request, settings.trusted_proxies)
    return Rest(call, secret, settings.url or f"{scheme}://{request.headers.get('host', '')}{root}")
