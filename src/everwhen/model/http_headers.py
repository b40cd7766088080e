"""The headers that a user may set on a request. The HTTP client sets those for framing and for the connection.

A header with a length or a framing that differs from the body would start a second request inside the first one, on a
connection that other requests may reuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OF_THE_CLIENT = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    )
)
# Headers that only describe the content, the client and the job: every other header may hold a credential.
_PLAIN = frozenset(
    (
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "content-encoding",
        "content-language",
        "content-type",
        "everwhen-attempt",
        "everwhen-job-id",
        "everwhen-slot-at",
        "idempotency-key",
        "traceparent",
        "user-agent",
    )
)


def header_fault(name: str, value: Any) -> str | None:
    """Return why a request cannot have this header, or None when it can.

    >>> header_fault("Transfer-Encoding", "chunked")
    'belongs to the connection and is set by everwhen; leave it out'
    >>> header_fault("X-Team", "blue")
    """
    if not _NAME.fullmatch(name):
        return "is not the name of a header; use letters, digits and -"
    if name.lower().replace("_", "-") in _OF_THE_CLIENT:  # many servers treat _ as -
        return "belongs to the connection and is set by everwhen; leave it out"
    if not str(value).isprintable():
        return "holds a line break or another control character, which no header may have"
    return None


def without_credentials(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be sent to another server than the intended one.

    >>> without_credentials({"Accept": "text/plain", "X-Api-Key": "k"})
    {'Accept': 'text/plain'}
    """
    return {name: value for name, value in headers.items() if name.lower() in _PLAIN}
