"""The REST calls of the tools, with the token of one caller; what carries them is not known here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import anyio

from everwhen.api.in_process import InProcessAnswer
from everwhen.errors import SchedulerError

PREFIX = "/api/v1"
CLIENT_HEADER, MCP = "Everwhen-Client", "mcp"
Fields = dict[str, Any]
Call = Callable[[str, str, bytes | None, Mapping[str, str]], Awaitable[InProcessAnswer]]
"""Carry one request: method, path with query, body, headers."""
TRIES, LONGEST_WAIT = 3, 10  # of a request that comes too often; seconds


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
        answer = await self._call_again(method, target, raw, {**sent, **(headers or {})})
        if answer.status >= 400:
            raise _refusal(answer.status, answer.body)
        return json.loads(answer.body) if answer.body else None

    async def _call_again(
        self, method: str, target: str, raw: bytes | None, headers: Mapping[str, str]
    ) -> InProcessAnswer:
        """Send a request, and once more where it came too soon; a request that is refused so has done nothing."""
        for _ in range(TRIES - 1):
            answer = await self.call(method, target, raw, headers)
            if answer.status != 429 or answer.retry_after is None or answer.retry_after > LONGEST_WAIT:
                return answer
            await anyio.sleep(answer.retry_after)
        return await self.call(method, target, raw, headers)


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
