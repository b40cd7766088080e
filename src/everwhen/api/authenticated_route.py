"""Calls whose body has a shape: it is read when it is known who sends it, and parsed like every other body.

The framework by itself would read and parse a body first, whoever sends it, on the thread that answers everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from everwhen.api.access import refuse_unknown
from everwhen.api.calls import json_body
from everwhen.api.problems import RefusedError

MOST_OF_ANYBODY = 1 << 20  # where no token is needed
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ReadRequest(Request):
    """A request whose body was read: the framework gets what it says."""

    fields: Any = None

    async def json(self) -> Any:
        return self.fields


class AuthenticatedRoute(APIRoute):
    """Of the routers whose calls take a model as their body."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        is_open = (self.openapi_extra or {}).get("security") == []

        async def handler(request: Request) -> Response:
            if not is_open:
                await refuse_unknown(request)
            return await handle(await _read(request, MOST_OF_ANYBODY if is_open else None))

        return handler


async def _read(request: Request, most: int | None) -> ReadRequest:
    found = ReadRequest(request.scope, request.receive)
    if most is not None:
        await _count(found, most)
    if await found.body() and _is_json(request):
        found.fields = (await json_body(found)).fields
    return found


async def _count(request: ReadRequest, most: int) -> None:
    pieces, length = [], 0
    async for piece in request.stream():
        length += len(piece)
        if length > most:
            raise RefusedError(
                413, f"Without a token a body has at most {most} bytes.", headers={"connection": "close"}
            )
        pieces.append(piece)
    request._body = b"".join(pieces)  # where `body` keeps it


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
