"""An HTTP request: 2xx succeeds, 202 awaits its outcome, temporary failures may be retried, the rest is final.

A request ends with its response, the connect timeout, or the deadline of the run. The worker enforces that deadline,
which also ends a server that hangs or sends very slowly. A response is read up to 10 MiB and bounded in memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import ssl
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any

import aiohttp

from everwhen.model.instants import SECOND, instant_of
from everwhen.model.outcome import Outcome
from everwhen.target import Run
from everwhen.targets.captured import READ_LIMIT, Captured
from everwhen.targets.http_addresses import (
    ForbiddenAddressError,
    Rule,
    is_public,
    require_literal,
)
from everwhen.targets.http_request import Request, request_of, shown_address
from everwhen.targets.http_sessions import HttpSessions, SessionKey
from everwhen.targets.secrets import with_secrets
from everwhen.timetable.interval import parse_seconds

CONNECT_TIMEOUT = 10.0
MOST_HOPS = 10
SHOWN = 4_096
OUTSIDE = "api"  # the source of definitions that came over REST or MCP
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_MAY_PASS = frozenset((408, 429))


class HttpExchange:
    """Runs `{"url": …, "method": "POST", "headers": {…}, "body": …, "redirects": false, "connect_timeout": 10}`.

    `"source": "api"` marks a URL that came over REST or MCP: it reaches only the addresses that `may_reach` accepts,
    public ones, unless `allow_private_urls` is set; and `${NAME}` in its fields is sent as plain text.
    """

    def __init__(
        self, now: Callable[[], int], *, allow_private_urls: bool = False, may_reach: Rule | None = None
    ) -> None:
        self._now = now
        self._allow_private_urls = allow_private_urls
        self._may_reach = may_reach or is_public
        self._sessions = HttpSessions(self._may_reach)

    async def close(self) -> None:
        await self._sessions.close()

    async def run(self, spec: str, run: Run) -> Outcome:
        fields = json.loads(spec)
        if fields.get("source") == OUTSIDE:  # its author may not read the environment of this node
            return await self._perform(fields, run)
        return await with_secrets(fields, run, self._perform)

    async def _perform(self, fields: dict[str, Any], run: Run) -> Outcome:
        token = secrets.token_urlsafe(32)
        try:
            request = request_of(fields, run, token)
            key = SessionKey(run.owner, self._is_guarded(fields))
            async with self._sessions.session(key) as session:
                return await self._exchange(session, request, fields, run, token)
        except ForbiddenAddressError as error:
            return Outcome("failed", error=str(error), is_final=error.is_final)
        except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError, ssl.SSLError) as error:
            return Outcome("failed", error=f"TLS with {shown_address(fields['url'])} failed: {error}")
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError) as error:
            return Outcome("failed", error=f"this is not a valid request: {error}", is_final=True)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            fault = (
                _fault_without_address(error) if fields.get("source") == OUTSIDE else _network_fault(error)
            )
            return Outcome("failed", error=f"{shown_address(fields['url'])}: {fault}")

    def _is_guarded(self, fields: dict[str, Any]) -> bool:
        return fields.get("source") == OUTSIDE and not self._allow_private_urls

    async def _exchange(
        self, session: aiohttp.ClientSession, request: Request, fields: dict[str, Any], run: Run, token: str
    ) -> Outcome:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_seconds(fields.get("connect_timeout")))
        for _ in range(MOST_HOPS + 1):
            if self._is_guarded(fields):
                require_literal(self._may_reach, request.url)
            async with session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
                timeout=timeout,
            ) as answer:
                location = answer.headers.get("Location")
                if answer.status in _REDIRECTS and location is not None and fields.get("redirects"):
                    request = request.redirected(answer.status, location)
                    continue
                return await self._outcome(answer, run, token)
        return Outcome("failed", error=f"redirected more than {MOST_HOPS} times", is_final=True)

    async def _outcome(self, answer: aiohttp.ClientResponse, run: Run, token: str) -> Outcome:
        body = Captured()
        while piece := await answer.content.readany():
            body.feed(piece)
            if body.total > READ_LIMIT:
                answer.close()  # the rest is not needed, and neither is the connection
                break
        if body.total > SHOWN:  # a short response is in the outcome as a whole
            run.output.write("stdout", body.head + body.tail)
        if answer.status == 202:
            return Outcome("succeeded", result=body.last(SHOWN), awaits=sha256(token.encode()).hexdigest())
        return outcome_of(answer.status, body.last(SHOWN), self._retry_after(answer))

    def _retry_after(self, answer: aiohttp.ClientResponse) -> int | None:
        return retry_after(answer.headers.get("Retry-After"), self._now())


def outcome_of(status: int, text: str, pause: int | None) -> Outcome:
    """Return the outcome for a status."""
    if 200 <= status < 300:
        return Outcome("succeeded", result=text)
    said = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    if status >= 500 or status in _MAY_PASS:
        return Outcome("failed", error=said, retry_after=pause)
    return Outcome("failed", error=said, is_final=True)


def retry_after(header: str | None, now: int) -> int | None:
    """Return how long a server asks clients to wait, in microseconds; the header has seconds or a date."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]), 10**10) * SECOND
    try:
        return max(instant_of(parsedate_to_datetime(text)) - now, 0)
    except (TypeError, ValueError):  # not a date, or one without a zone
        return None


def _seconds(given: str | float | None) -> float:
    """Return the timeout in seconds; a file has a duration, a program may pass seconds."""
    if isinstance(given, str):
        return float(parse_seconds(given))
    return given or CONNECT_TIMEOUT


def _network_fault(error: Exception) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "no connection in time"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _fault_without_address(error: Exception) -> str:
    """Describe the fault without addresses: the author of an outside URL may not learn how a name resolves here."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError):
        return os.strerror(error.errno).lower() if error.errno else "no connection"
    return _network_fault(error)
