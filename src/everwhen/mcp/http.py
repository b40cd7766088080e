"""The server over streamable HTTP, as a part of the API at `/api/v1/mcp/`, on every node alike.

Host, origin, length and token are checked by the API's own guard, as for every call. Requests have no session: a node
that restarts loses no client, and any node answers the next request. So by the older protocol, where the server would
have to ask within a call, no person is asked; by the newer one the answer may come to another node.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import Route

from everwhen.api.access import secret_of
from everwhen.api.app import Mounted
from everwhen.api.in_process import LOOPBACK, InProcessAnswer, call_application
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


def mount_mcp(app: FastAPI) -> Mounted:
    """Make the part of an application that serves MCP; its tools call that application."""
    server = build_server(lambda ctx: _rest_of(app, ctx))
    # The guard has looked at the Host header; the SDK would answer 421 to every name but localhost.
    unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    most: int = app.state.context.settings.max_body
    manager = StreamableHTTPSessionManager(
        server, stateless=True, security_settings=unguarded, max_request_body_size=most
    )

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Mounted(Route(PATH, _Endpoint(manager), methods=["POST"]), running)


class _Endpoint:
    """Lets in who brings a token."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        secret = await secret_of(Request(scope, receive))
        await self._manager.asgi_app({**scope, SECRET: secret}, receive, send)


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
