"""What happens to a request before anything is looked up: which host it means, where it comes from, how long it is.

A page in somebody's browser may send requests here; it cannot choose the Host and Origin headers. So a Host that is
not one of this service's names is refused (a foreign name that leads here), and so is a change with another Origin:
another scheme, host or port. Two Host headers are refused: a proxy in front may have looked at the other one.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from ipaddress import ip_address
from urllib.parse import urlsplit

from anyio import move_on_after
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from everwhen.api.connections import SLOWEST
from everwhen.api.problems import RefusedError, add_security_headers, problem
from everwhen.api.proxies import caller_scheme
from everwhen.config.settings import LOOPBACK_NAMES, ApiSettings
from everwhen.engine.loop import low_priority

ROOT = "/api/v1"
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
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
ANY_NAME = "*"  # among the allowed hosts: somebody else looks at the Host header
PORTS = {"http": 80, "https": 443}
OTHER_ORIGIN = (
    "A page of another origin may not change anything here. If the page is ours, a proxy in front of this service has "
    "to pass on the Host header, and one that ends TLS has to be in api.trusted_proxies."
)


class RequestGuard:
    """Refuses what does not mean this service; lets paths end with or without a slash; counts bodies."""

    def __init__(self, app: ASGIApp, settings: ApiSettings, body_within: float) -> None:
        self._app = app
        self._body_within = body_within
        self._settings = settings
        self._names = {name.lower() for name in (*LOOPBACK_NAMES, settings.host, *settings.allowed_hosts)}
        # `.example.com` stands for all names below it, as Django has it.
        self._endings = tuple(name for name in self._names if name.startswith(".") and len(name) > 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, send = Headers(scope=scope), add_security_headers(send)
        path = path_below_root(scope)
        most = self._most(path, headers)
        refusal = self._refusal(HTTPConnection(scope), path, most)
        if refusal is not None:
            status, kind, detail = refusal
            if not headers.get("expect"):  # who waits for a word before the body is told without it
                await _passed_over(receive)
            answer = problem(status, kind, detail, headers=_CLOSE)
            await answer(scope, receive, send)
            return
        if path.startswith(PREFIX) and not path.endswith("/"):
            scope = {**scope, "path": f"{scope['path']}/", "raw_path": (scope.get("raw_path") or b"") + b"/"}
        with ExitStack() as work:
            await self._app(scope, _bounded(receive, most, self._body_within, work), send)

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


def _name(host: str) -> str:
    """Return the name in a Host header, without its port."""
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


async def _passed_over(receive: Receive) -> None:
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
                await _passed_over(receive)
            raise RefusedError(413, f"A body may have at most {most:,} bytes.", headers=_CLOSE)
        return message

    return bounded
