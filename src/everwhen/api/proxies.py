"""The address of a caller behind proxies: X-Forwarded-For is believed as far as trusted proxies wrote it.

A proxy appends the address that it got a request from; everything to the left of what trusted proxies appended is the
caller's own invention.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.requests import Request

from everwhen.config.api_settings import Network

UNKNOWN = "unknown"


def caller_address(request: Request, trusted: Sequence[Network]) -> str:
    """The rightmost address that is no trusted proxy's; of whom only proxies are known, the one farthest away."""
    farthest = _address(request.client.host) if request.client is not None else None
    if farthest is None:
        return UNKNOWN
    for hop in _hops(request):
        if not _is_trusted(farthest, trusted):
            break
        further = _address(hop)
        if further is None:  # whoever wrote that is no proxy that we know
            break
        farthest = further
    return str(farthest)


def _hops(request: Request) -> list[str]:
    """The addresses that were forwarded, the nearest first."""
    named = ",".join(request.headers.getlist("x-forwarded-for"))
    return named.split(",")[::-1]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """The address in a text, which may have a port; None when there is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _is_trusted(address: IPv4Address | IPv6Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)
