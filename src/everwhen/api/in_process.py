"""Calls of the API's application inside this process, as a web server would make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOOPBACK = ("127.0.0.1", 0)


class InProcessAnswer(NamedTuple):
    """Status and body of an answer, and in how many seconds a refused request may be repeated."""

    status: int
    body: bytes
    retry_after: int | None = None


async def call_application(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    client: tuple[str, int] = LOOPBACK,
    root_path: str = "",
) -> InProcessAnswer:
    """Pass one request to the application; `client` is the address that it is counted for."""
    path, _, query = target.partition("?")
    named = {"host": "127.0.0.1", **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "root_path": root_path,
        "path": root_path + unquote(path),
        "raw_path": (root_path + path).encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
        "client": client,
        "server": ("127.0.0.1", 80),
    }
    answered: list[Any] = []
    asked = iter([{"type": "http.request", "body": body or b"", "more_body": False}])

    async def receive() -> Any:
        return next(asked, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        answered.append(message)

    await app(scope, receive, send)
    body_parts = (one.get("body", b"") for one in answered[1:])
    retry_after = dict(answered[0]["headers"]).get(b"retry-after")
    return InProcessAnswer(answered[0]["status"], b"".join(body_parts), retry_after and int(retry_after))
