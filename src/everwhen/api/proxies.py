"""Where a request comes from, and what trusted proxies forward of it: the address of a caller, and its scheme."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from starlette.requests import HTTPConnection

from everwhen.config.settings import Network

UNKNOWN = "unknown"


def caller_address(connection: HTTPConnection, trusted: Sequence[Network]) -> str:
    """Return the rightmost address that is not a trusted proxy's; where only proxies are known, the farthest one.

    A proxy appends the address that it got a request from. Everything to the left of what trusted proxies appended may
    be an invention of the caller.
    """
    farthest = _peer_of(connection)
    if farthest is None:
        return UNKNOWN
    forwarded = ",".join(connection.headers.getlist("x-forwarded-for"))
    for hop in reversed(forwarded.split(",")):
        if not any(farthest in network for network in trusted):
            break
        further = _parse_address(hop)
        if further is None:  # whoever wrote that is no proxy that we know
            break
        farthest = further
    return str(farthest)


def caller_scheme(connection: HTTPConnection, trusted: Sequence[Network]) -> str:
    """Return the scheme that the caller used, by X-Forwarded-Proto where the request came from a trusted proxy.

    A trusted proxy that does not say it ends TLS: that is what it is named for. Where proxies stand in a row, the
    first one has met the caller.
    """
    scheme: str = connection.scope.get("scheme", "http")
    peer = _peer_of(connection)
    if peer is None or not any(peer in network for network in trusted):
        return scheme
    forwarded = ",".join(connection.headers.getlist("x-forwarded-proto"))
    first = forwarded.partition(",")[0].strip().lower()
    return first if first in ("http", "https") else "https"


def counting_key(address: str) -> str:
    """Return what the requests of an address are counted by: a client with one address of IPv6 has a network of them.

    >>> counting_key("203.0.113.9"), counting_key("2001:db9::7:1"), counting_key(UNKNOWN)
    ('203.0.113.9', '2001:db9::/64', 'unknown')
    """
    if ":" not in address:
        return address
    return str(IPv6Network((address.partition("%")[0], 64), strict=False))


def _peer_of(connection: HTTPConnection) -> IPv4Address | IPv6Address | None:
    return _parse_address(connection.client.host) if connection.client is not None else None


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address in a text, which may have a port; None when there is none."""
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
