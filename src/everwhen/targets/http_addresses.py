"""Which addresses a request may reach: the rule for URLs that came from outside the configuration file.

The rule is applied to what a name resolves to, at the moment of connecting, so a name that changes its mind
between the check and the connection gains nothing; and to addresses written out in a URL, which nobody resolves.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ForbiddenAddressError(Exception):
    """An address that this URL must not reach."""

    def __init__(self, host: str, address: str) -> None:
        where = host if host == address else f"{host} ({address})"
        super().__init__(
            f"{where} is not a public address; URLs that came over REST or MCP reach those only with "
            "api.allow_private_urls"
        )


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses; a name that has any other is refused whole."""

    def __init__(self) -> None:
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for entry in found:
            require_public(host, entry["host"])
        return found

    async def close(self) -> None:
        await self._resolver.close()


def require_public_literal(url: URL) -> None:
    """Refuse a URL that spells out an address that is not public; names are looked at when they are resolved."""
    host = url.raw_host or ""
    if _address(host) is not None:
        require_public(host, host)


def require_public(host: str, address: str) -> None:
    parsed = _address(address)
    if parsed is None or not all(_is_public(each) for each in _faces(parsed)):
        raise ForbiddenAddressError(host, address)


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved


def _faces(address: Address) -> list[Address]:
    """The address and those that it carries: IPv6 has four ways to say IPv4."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    carried: list[Any] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in ipaddress.IPv6Network("64:ff9b::/96"):
        carried.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    found: list[Address] = [each for each in carried if each is not None]
    return found if address.ipv4_mapped is not None else [address, *found]


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
