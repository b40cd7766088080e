"""What happens to a request before anything is looked up: which host it means, where it comes from, how long it is,
and how often its sender asks.

A page in somebody's browser may send requests here; it cannot choose the Host and Origin headers. So a Host that is
not one of this service's names is refused (a foreign name that leads here), and so is a change with another Origin:
another scheme, host or port. Two Host headers are refused: a proxy in front may have looked at the other one.

Requests without a token are counted by address. A request that brings one is counted by its token; where nobody looks
at it, or knows it, the request is counted by address when it is answered.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from ipaddress import ip_address
from math import ceil
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import move_on_after
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everwhen.api.connections import SAFE, SLOWEST
from everwhen.api.problems import RefusedError, add_security_headers, problem
from everwhen.api.proxies import caller_address, caller_scheme, counting_key
from everwhen.config.settings import LOOPBACK_NAMES
from everwhen.engine.loop import low_priority

if TYPE_CHECKING:
    from everwhen.api.context import ApiContext

ROOT = "/api/v1"
SESSION_COOKIE = "everwhen_session"  # with more before it or behind it
PREFIX = f"{ROOT}/"
BATCH = f"{ROOT}/schedules/batch"
NDJSON = "application/x-ndjson"
NDJSON_NAMES = frozenset((NDJSON, "application/ndjson", "application/jsonl", "application/x-jsonlines"))
MOST_LINES = 16 << 20
LARGE = 64 << 10  # a body that is worth a thread
PASSED_OVER = 32 << 20
PATIENCE = 2.0  # seconds
_CLOSE = {"connection": "close"}
# Whoever asks these knows an address, not a name, and learns one word.
ANY_HOST = frozenset(("/healthz", "/readyz"))
# What a request without a token takes of the units of its address: less with a proof of its own, which is checked, and
# more where the answer is large.
UNITS, UNITS_WITH_PROOF = 5, 2
UNITS_OF_LARGE = {"/api/openapi.json": 100, "/api/docs": 100, "/metrics": 25}
TOKEN = "token"  # in the state of a request whose token is known
PROOFS = ("everwhen-signature", "x-hub-signature-256", "everwhen-outcome-token")
# A client that asks too often waits for its answer: refusals are cheap, but not free. Not many wait at once, or they
# would take up the connections of the others.
LATE_BY, MOST_LATE = 0.25, 500  # seconds, answers
ANY_NAME = "*"  # among the allowed hosts: somebody else looks at the Host header
PORTS = {"http": 80, "https": 443}
OTHER_ORIGIN = (
    "A page of another origin may not change anything here. If the page is ours, a proxy in front of this service has "
    "to pass on the Host header, and one that ends TLS has to be in api.trusted_proxies."
)


class RequestGuard:
    """Refuses what does not mean this service, or comes too often; adds a slash to the end of paths; counts bodies."""

    def __init__(self, app: ASGIApp, context: ApiContext) -> None:
        self._app = app
        self._context = context
        self._late = 0
        self._settings = settings = context.settings
        self._names = {name.lower() for name in (*LOOPBACK_NAMES, settings.host, *settings.allowed_hosts)}
        # `.example.com` stands for all names below it, as Django has it.
        self._endings = tuple(name for name in self._names if name.startswith(".") and len(name) > 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, send = Headers(scope=scope), self._refuse_late(add_security_headers(send))
        path = path_below_root(scope)
        if path in ANY_HOST:
            await self._delay_checks(scope)
        elif path.startswith(PREFIX) and _has_secret(headers):
            send = self._count_unknown(scope, receive, send, self._units_of(path, headers))
        elif wait := self._take_anonymous(scope, self._units_of(path, headers)):
            await _too_many(wait)(scope, receive, send)
            return
        most = self._most(path, headers)
        refusal = self._refusal(HTTPConnection(scope), path, most)
        if refusal is not None:
            status, kind, detail = refusal
            if not headers.get("expect"):  # who waits for a word before the body is told without it
                await pass_over_body(receive)
            answer = problem(status, kind, detail, headers=_CLOSE)
            await answer(scope, receive, send)
            return
        if path.startswith(PREFIX) and not path.endswith("/"):
            scope = {**scope, "path": f"{scope['path']}/", "raw_path": (scope.get("raw_path") or b"") + b"/"}
        with ExitStack() as work:
            await self._app(scope, _bounded(receive, most, self._context.limits.body_within, work), send)

    def _units_of(self, path: str, headers: Headers) -> int:
        units = UNITS_WITH_PROOF if any(name in headers for name in PROOFS) else UNITS
        return UNITS_OF_LARGE.get(path, units)

    def _take_anonymous(self, scope: Scope, units: int) -> float:
        """Count a request without a token; return how many seconds its address has to wait, if it has to."""
        return self._context.anonymous.take(self._counting_key(scope), units)

    def _count_unknown(self, scope: Scope, receive: Receive, send: Send, units: int) -> Send:
        """Return a `send` that counts a request as one without a token, where no token was found for it.

        Anybody can send a secret, also to a path at which nobody looks at it.
        """
        state = scope.setdefault("state", {})
        is_replaced = False

        async def sending(message: Message) -> None:
            nonlocal is_replaced
            if message["type"] == "http.response.start" and TOKEN not in state:
                wait = self._take_anonymous(scope, units)
                is_replaced = wait > 0 and message["status"] >= 400
                if is_replaced:
                    await _too_many(wait)(scope, receive, send)
            if not is_replaced:
                await send(message)

        return sending

    def _counting_key(self, scope: Scope) -> str:
        return counting_key(caller_address(HTTPConnection(scope), self._settings.trusted_proxies))

    async def _delay_checks(self, scope: Scope) -> None:
        """Answer late where an address checks the health of the service all the time."""
        if self._context.health_checks.take(self._counting_key(scope)):
            await self._be_late()

    def _refuse_late(self, send: Send) -> Send:
        """Return a `send` that keeps a client waiting that asks too often."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 429:
                await self._be_late()
            await send(message)

        return sending

    async def _be_late(self) -> None:
        if self._late >= MOST_LATE:
            return
        self._late += 1
        try:
            await asyncio.sleep(LATE_BY)
        finally:
            self._late -= 1

    def _most(self, path: str, headers: Headers) -> int:
        """Return how many bytes the body may have; a batch of lines is never held as a whole."""
        is_batch = path.rstrip("/") == BATCH and media_type(headers) in NDJSON_NAMES
        return max(MOST_LINES, self._settings.max_body) if is_batch else self._settings.max_body

    def _refusal(self, request: HTTPConnection, path: str, most: int) -> tuple[int, str, str] | None:
        headers = request.headers
        if len(headers.getlist("host")) > 1:
            return 400, "malformed", "A request has one Host header."
        if path in ANY_HOST:
            return None
        host = headers.get("host", "")
        if not self._is_ours(_name(host)):
            return 421, "wrong-host", "This service has another name; add yours to api.allowed_hosts."
        if request.scope["method"] not in SAFE and headers.getlist("origin"):
            own = f"{caller_scheme(request, self._settings.trusted_proxies)}://{host}"
            if any(_plain_origin(origin) != _plain_origin(own) for origin in headers.getlist("origin")):
                return 403, "forbidden", OTHER_ORIGIN
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > most:
            return 413, "too-large", f"A body may have at most {most:,} bytes."
        return None

    def _is_ours(self, name: str) -> bool:
        if name in self._names or ANY_NAME in self._names or f".{name}".endswith(self._endings):
            return True
        # Without a list of names an address is taken as it is: a foreign page can lead a name here, not an address.
        return not self._settings.is_local and not self._settings.allowed_hosts and _is_address(name)


def root_of(scope: Scope) -> str:
    """Return the path that this application is mounted under, without a slash at its end; the root is empty."""
    root: str = scope.get("root_path", "")
    return root.rstrip("/")


def path_below_root(scope: Scope) -> str:
    """Return the path of a request as this application knows it, wherever it is mounted.

    >>> path_below_root({"path": "/tools/everwhen/healthz", "root_path": "/tools/everwhen"})
    '/healthz'
    """
    path: str = scope["path"]
    root = root_of(scope)
    return path[len(root) :] if path.startswith(f"{root}/") else path


def media_type(headers: Headers) -> str:
    """Return the type of the body, without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _has_secret(headers: Headers) -> bool:
    """Return whether a request brings what may be a token, or the cookie of a session."""
    is_bearer = headers.get("authorization", "").lower().startswith("bearer ")
    return is_bearer or bool(headers.get("x-api-key")) or SESSION_COOKIE in headers.get("cookie", "")


def _too_many(wait: float) -> Response:
    detail = "Too many requests without a valid token come from this address."
    return problem(429, "too-many-requests", detail, headers={**_CLOSE, "retry-after": str(ceil(wait))})


def _name(host: str) -> str:
    """Return the name in a Host header, without its port; none where it has more than these."""
    if "@" in host:
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def port_of(host: str) -> int:
    """Return the port in a Host header without TLS."""
    try:
        return urlsplit(f"//{host}").port or PORTS["http"]
    except ValueError:
        return PORTS["http"]


def _plain_origin(origin: str) -> str:
    """Return an origin without the port that its scheme implies.

    >>> _plain_origin("HTTPS://shop.example:443"), _plain_origin("http://shop.example:443")
    ('https://shop.example', 'http://shop.example:443')
    """
    scheme, _, host = origin.lower().partition("://")
    return f"{scheme}://{host.removesuffix(f':{PORTS.get(scheme, 0)}')}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


async def pass_over_body(receive: Receive) -> None:
    """Read the rest of a refused body, up to a bound, and not for long: a client that is still sending when
    the connection is closed would see a broken one instead of the answer."""
    left = PASSED_OVER
    with move_on_after(PATIENCE):
        while left > 0:
            message = await receive()
            left -= len(message.get("body", b"")) + 1
            if message["type"] != "http.request" or not message.get("more_body"):
                return


def _bounded(receive: Receive, most: int, within: float, work: ExitStack) -> Receive:
    """Return a body that is counted while it arrives, and awaited for so long; its processing does not count.

    What is done with a large one gives way to everybody else; a batch of lines is done in small portions anyway.
    """
    seen, waited, is_whole = 0, 0.0, False
    now = asyncio.get_running_loop().time

    async def bounded() -> Message:
        nonlocal seen, waited, is_whole
        if is_whole:  # whoever goes on listening waits for the end of the connection
            return await receive()
        began = now()
        try:
            async with asyncio.timeout(within + seen / SLOWEST - waited):
                message = await receive()
        except TimeoutError:
            raise RefusedError(408, "The body did not arrive in time.", headers=_CLOSE) from None
        waited += now() - began
        before, seen = seen, seen + len(message.get("body", b""))
        is_whole = not message.get("more_body")
        if before <= LARGE < seen and most < MOST_LINES:
            work.enter_context(low_priority())
        if seen > most:
            if not is_whole:
                await pass_over_body(receive)
            raise RefusedError(413, f"A body may have at most {most:,} bytes.", headers=_CLOSE)
        return message

    return bounded
