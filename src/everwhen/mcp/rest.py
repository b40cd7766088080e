"""The REST calls of the tools, with the token of one caller; what carries them is not known here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from everwhen.errors import SchedulerError

PREFIX = "/api/v1"
CLIENT_HEADER, MCP = "Everwhen-Client", "mcp"
Fields = dict[str, Any]
Call = Callable[[str, str, bytes | None, Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""Carry one request: method, path with query, body, headers. Return status and body."""


class RefusedError(SchedulerError):
    """REST refused a call: its status, the kind of the problem, and each fault."""

    def __init__(self, status: int, kind: str, detail: str, faults: list[tuple[str, str]]) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.faults = faults


class Rest(NamedTuple):
    """The calls of one caller. `secret` is its token, or stands for it; `base` the address that people open."""

    call: Call
    secret: str
    base: str | None = None

    async def get(self, path: str, **query: object) -> Any:
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: object = None, **query: object) -> Any:
        return await self.ask("POST", path, body, query)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send one request and return what it answers; raise RefusedError where it is refused."""
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{PREFIX}{path}{'?' + urlencode(asked) if asked else ''}"
        raw = None if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
        sent = {CLIENT_HEADER: MCP, **({"content-type": "application/json"} if raw is not None else {})}
        status, answer = await self.call(method, target, raw, {**sent, **(headers or {})})
        if status >= 400:
            raise _refusal(status, answer)
        return json.loads(answer) if answer else None


def path_of(schedule_id: str, *more: str) -> str:
    return "/".join(("/schedules", part(schedule_id), *more, ""))


def part(text: str) -> str:
    """Quote a text as one segment of a path; raise RefusedError for one that could mean another path: nothing has such
    an id."""
    if "/" in text or text in ("", ".", ".."):
        raise RefusedError(404, "not-found", f'there is nothing with the id "{text[:50]}"', [])
    return quote(text, safe="")


def _refusal(status: int, answer: bytes) -> RefusedError:
    try:
        fields = json.loads(answer)
        faults = [(fault["path"], fault["message"]) for fault in fields.get("errors") or ()]
        kind = fields["type"].rpartition(":")[2]
        return RefusedError(status, kind, fields["detail"], faults)
    except (ValueError, KeyError, TypeError, AttributeError):
        return RefusedError(status, "unknown", f"the service answered {status}", [])
