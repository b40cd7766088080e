"""An HTTP request: 2xx succeeds, 202 awaits its outcome, temporary failures may be retried, the rest is final.

A request ends with its response, the connect timeout, or the deadline of the run. The worker enforces that deadline,
which also ends a server that hangs or sends very slowly. A response is read up to 10 MiB and bounded in memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from everwhen.errors import CostError
from everwhen.model.addresses import Rule, is_public
from everwhen.model.cost import Cost, cost_of, parse_cost
from everwhen.model.host_fault import HostFault, NotBegunError, host_fault_of
from everwhen.model.instants import SECOND, instant_of, to_datetime
from everwhen.model.job import trace_id_of
from everwhen.model.outcome import Outcome
from everwhen.model.target_kinds import header_fault, without_credentials
from everwhen.target import Run
from everwhen.targets.http_addresses import ForbiddenAddressError, GuardedResolver, require_literal
from everwhen.targets.lookups import threaded_resolver
from everwhen.targets.process import HEAD, READ_LIMIT, Captured
from everwhen.targets.python_function import fields_of_run
from everwhen.targets.secrets import with_secrets
from everwhen.timetable.interval import parse_seconds
from everwhen.version import __version__

CONNECT_TIMEOUT = 10.0
MOST_HOPS = 10
MOST_SESSIONS = 100
SHOWN = 4_096
COST, MAX_COST = "Everwhen-Cost", "Everwhen-Max-Cost"
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
            describe = _fault_without_address if fields.get("source") == OUTSIDE else _network_fault
            return Outcome("failed", error=f"{shown_address(fields['url'])}: {describe(error)}")

    def _is_guarded(self, fields: dict[str, Any]) -> bool:
        return fields.get("source") == OUTSIDE and not self._allow_private_urls

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        request: HttpRequest,
        fields: dict[str, Any],
        run: Run,
        token: str,
    ) -> Outcome:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_seconds(fields.get("connect_timeout")))
        for hop in range(MOST_HOPS + 1):
            if self._is_guarded(fields):
                require_literal(self._may_reach, request.url)
            request_sent = session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
                timeout=timeout,
            )
            async with request_sent if hop else _first_request(request_sent) as answer:
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
        pause = retry_after(answer.headers.get("Retry-After"), self._now())
        outcome = outcome_of(answer.status, body.last(SHOWN), pause)
        cost = _reported_cost(answer.headers.get(COST), body, run)
        return outcome if cost is None else outcome._replace(cost=cost)


@asynccontextmanager
async def _first_request(
    request: AbstractAsyncContextManager[aiohttp.ClientResponse],
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a request; raise NotBegunError when the host has no socket for it, so that nothing was sent."""
    async with AsyncExitStack() as stack:
        try:
            answer = await stack.enter_async_context(request)
        except (aiohttp.ClientConnectorError, RuntimeError, MemoryError) as error:
            fault = host_fault_of(error) or host_fault_of(getattr(error, "os_error", None))
            if fault is None and isinstance(error, aiohttp.ClientConnectorDNSError):
                fault = _find_fault_of_sockets()
            if fault is None:
                raise
            raise NotBegunError(fault, error) from error
        yield answer


def _find_fault_of_sockets() -> HostFault | None:
    """Return why no socket can be opened now; a name cannot be resolved then, and the error does not say why."""
    try:
        socket.socket().close()
    except OSError as error:
        return host_fault_of(error)
    return None


def outcome_of(status: int, text: str, pause: int | None) -> Outcome:
    """Return the outcome for a status."""
    if 200 <= status < 300:
        return Outcome("succeeded", result=text)
    said = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    if status >= 500 or status in _MAY_PASS:
        return Outcome("failed", error=said, retry_after=pause)
    return Outcome("failed", error=said, is_final=True)


def _reported_cost(header: str | None, body: Captured, run: Run) -> Cost | None:
    """Return the cost that a server reports, in the header or as `cost` in a JSON object."""
    if header is not None:
        try:
            return parse_cost(header)
        except CostError as error:
            run.output.write("log", f"{COST}: {error}\n".encode(errors="replace"))
            return None
    if body.total > HEAD or b'"cost"' not in body.head:
        return None
    try:
        document = json.loads(body.head)
        return cost_of(document["cost"]) if isinstance(document, dict) and "cost" in document else None
    except (ValueError, RecursionError):  # another kind of cost, or not JSON: bodies say what they want
        return None


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


class SessionKey(NamedTuple):
    """The owner of the connections, and whether they reach public addresses only.

    Connections are kept open and reused, but never for the work of another owner: what one owner's request leaves on a
    connection must not become the response to another owner's.
    """

    owner: str | None
    is_guarded: bool


@dataclass(slots=True)
class _Shared:
    """A session and the number of requests that use it now."""

    session: aiohttp.ClientSession
    users: int = 0


class HttpSessions:
    """One session per key. Beyond `most` the least recently used idle session is closed."""

    def __init__(self, may_reach: Rule, *, most: int = MOST_SESSIONS) -> None:
        self._may_reach = may_reach
        self._most = most
        self._shared: dict[SessionKey, _Shared] = {}  # the most recently used one is last

    @asynccontextmanager
    async def session(self, key: SessionKey) -> AsyncIterator[aiohttp.ClientSession]:
        shared = self._shared.pop(key, None) or _Shared(self._open(key))
        self._shared[key] = shared
        shared.users += 1
        try:
            yield shared.session
        finally:
            shared.users -= 1
            await self._close_surplus()

    async def close(self) -> None:
        shared, self._shared = list(self._shared.values()), {}
        for each in shared:
            await each.session.close()

    def _open(self, key: SessionKey) -> aiohttp.ClientSession:
        resolver: AbstractResolver = threaded_resolver()
        if key.is_guarded:
            resolver = GuardedResolver(self._may_reach, resolver)
        connector, jar = aiohttp.TCPConnector(limit=0, resolver=resolver), aiohttp.DummyCookieJar()
        return aiohttp.ClientSession(connector=connector, cookie_jar=jar, trust_env=False)

    async def _close_surplus(self) -> None:
        while len(self._shared) > self._most:
            idle = next((key for key, shared in self._shared.items() if not shared.users), None)
            if idle is None:
                return
            await self._shared.pop(idle).session.close()


_WITHOUT_BODY = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """The request of a run: its method, headers and body; a redirect repeats some of them."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None

    def redirected(self, status: int, location: str) -> HttpRequest:
        """Return the next request of a redirect: 307 and 308 repeat it, the others fetch the result (RFC 9110).

        Raise ValueError when it does not lead to an http or https URL.
        """
        url = _joined(self.url, location)
        headers = dict(self.headers)
        if url.origin() != self.url.origin():
            headers = without_credentials(headers)
        if status in (307, 308) or self.method in _WITHOUT_BODY:
            return replace(self, url=url, headers=headers)
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        return HttpRequest(method="GET", url=url, headers=headers, body=None)


def _joined(url: URL, location: str) -> URL:
    redirects = f"{shown_address(url)} redirects to {location[:200]!r}, which is not"
    try:
        joined = url.join(URL(location))
    except ValueError as error:
        raise ValueError(f"{redirects} a URL: {error}") from error
    if joined.scheme not in ("http", "https") or not joined.raw_host:
        raise ValueError(f"{redirects} an http or https URL")
    return joined


def shown_address(url: str | URL) -> str:
    """Return a URL as errors show it: without the password that it may contain.

    >>> shown_address("https://app:secret@example.com/hook")
    'https://app@example.com/hook'
    """
    address = URL(url)
    return str(address.with_password(None) if address.raw_password else address)


def request_of(fields: Mapping[str, Any], run: Run, token: str) -> HttpRequest:
    """Build the request of a run; raise ValueError when the fields are not valid."""
    url = URL(fields["url"])
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ValueError(f"{shown_address(fields['url'])!r} is not an http or https URL")
    method = str(fields.get("method") or "POST").upper()
    body, kind = _body(fields.get("body"), run, method)
    headers = _about(run, token)
    if run.max_cost is not None:
        headers[MAX_COST] = str(run.max_cost)
    if kind:
        headers["Content-Type"] = kind
    if given := fields.get("headers"):
        headers = _with_given(headers, given)
    return HttpRequest(method=method, url=url, headers=headers, body=body)


def _with_given(headers: Mapping[str, str], fields: Mapping[str, Any]) -> dict[str, str]:
    """Add the headers of the fields, which override ours, in upper or lower case."""
    given = {str(name): str(value) for name, value in fields.items()}
    for name, value in given.items():
        if fault := header_fault(name, value):  # a stored one, or the result of resolving a reference
            raise ValueError(f"header {name[:100]!r} {fault}")
    taken = {name.lower() for name in given}
    return {**{name: value for name, value in headers.items() if name.lower() not in taken}, **given}


def run_to_json(run: Run) -> dict[str, Any]:
    """Return the run as the JSON that a server gets."""
    deadline_at = None if run.deadline_at is None else _iso(run.deadline_at)
    return fields_of_run(run) | {"slot_at": _iso(run.slot_at), "deadline_at": deadline_at}


def _body(given: Any, run: Run, method: str) -> tuple[bytes | None, str | None]:
    if given is None and method in _WITHOUT_BODY:
        return None, None
    if isinstance(given, str):
        return given.encode(), "text/plain; charset=utf-8"
    return json.dumps(run_to_json(run) if given is None else given).encode(), "application/json"


def _about(run: Run, token: str) -> dict[str, str]:
    # One trace per job, so that its attempts belong together; a span per request. A span is a name and not a secret: it
    # needs no system call, which would let another thread run.
    span = random.getrandbits(64) or 1
    return {
        "User-Agent": f"everwhen/{__version__}",
        "Everwhen-Job-Id": run.job_id,
        "Everwhen-Slot-At": _iso(run.slot_at),
        "Everwhen-Attempt": str(run.attempt),
        "Everwhen-Outcome-Token": token,
        "Idempotency-Key": run.job_id,
        "traceparent": f"00-{trace_id_of(run.job_id)}-{span:016x}-01",
    }


@lru_cache(maxsize=1_000)
def _iso(instant: int) -> str:
    """Format an instant; cached, because headers and body contain the slot, and many schedules share it."""
    return to_datetime(instant).isoformat()
