"""The server on standard input and output, for one token: over HTTP to a service, or on a database in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server

from everwhen.api.in_process import InProcessAnswer, call_application
from everwhen.mcp.rest import Rest
from everwhen.mcp.server import build_server

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Send(Protocol):
    """One request over HTTP, which waits for its answer."""

    def __call__(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], /
    ) -> Any: ...


class OpenConnection(Protocol):
    """Open a connection to a service; the service closes idle ones, so each call has its own."""

    def __call__(self) -> AbstractContextManager[Send]: ...


def serve_service(connect: OpenConnection, token: str, base: str) -> None:
    """Serve until standard input ends; the tools call a running service."""

    def asked(method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> InProcessAnswer:
        with connect() as send:
            answer = send(method, target, body, headers)
        return InProcessAnswer(answer.status, answer.body, answer.retry_after)

    async def call(
        method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> InProcessAnswer:
        return await anyio.to_thread.run_sync(asked, method, target, body, headers)

    _serve(Rest(call, token, base))


def serve_application(app: ASGIApp, token: str, base: str | None) -> None:
    """Serve until standard input ends; the tools call the API's application in this process."""

    async def call(
        method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> InProcessAnswer:
        return await call_application(app, method, target, body, {**headers, "x-api-key": token})

    _serve(Rest(call, token, base))


def _serve(rest: Rest) -> None:
    try:
        anyio.run(partial(_run, rest))
    except* BrokenPipeError:  # the client is gone, as at the end of standard input
        _drop_output()


def _drop_output() -> None:
    """Let what is still buffered go nowhere: the interpreter flushes it at its end, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


async def _run(rest: Rest) -> None:
    server = build_server(lambda _: rest)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
