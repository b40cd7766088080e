"""Headers that a request may be given: those that frame a message, or hold for one connection only, are the client's.

A header that says another length or another framing than the body has begins a second request inside the first one,
on a connection that others may use next.
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
# What says nothing but what is sent, by whom and for which job: every other header may hold a credential.
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
    """Why a request cannot be given this header; None when it can.

    >>> header_fault("Transfer-Encoding", "chunked")
    'belongs to the connection and is set by everwhen; leave it out'
    >>> header_fault("X-Team", "blue")
    """
    if not _NAME.fullmatch(name):
        return "is not the name of a header; use letters, digits and -"
    if name.lower().replace("_", "-") in _OF_THE_CLIENT:  # many servers read _ as -
        return "belongs to the connection and is set by everwhen; leave it out"
    if not str(value).isprintable():
        return "holds a line break or another control character, which no header may have"
    return None


def without_credentials(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that another server than the one they were written for may see.

    >>> without_credentials({"Accept": "text/plain", "X-Api-Key": "k"})
    {'Accept': 'text/plain'}
    """
    return {name: value for name, value in headers.items() if name.lower() in _PLAIN}
