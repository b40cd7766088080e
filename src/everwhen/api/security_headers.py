"""The headers that every answer carries: nothing of it is run, framed, guessed at, kept, or told to other sites."""

from __future__ import annotations

from starlette.types import Message, Send

NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SECURITY_HEADERS = {
    "content-security-policy": NOTHING,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_RAW = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_NAMES = frozenset(name for name, _ in _RAW)


def add_security_headers(send: Send) -> Send:
    """A `send` that adds those that an answer does not set itself."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            own = _NAMES.intersection([name for name, _ in headers])
            added = [header for header in _RAW if header[0] not in own] if own else _RAW
            message = {**message, "headers": [*headers, *added]}
        await send(message)

    return sending
