"""Which addresses a request may reach: the rule for URLs that came from outside the configuration file.

The rule is applied to the addresses that a name resolves to, at the moment of connecting, so a name that changes
between the check and the connection gains nothing. It is also applied to addresses written in a URL, which are not
resolved.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from everwhen.model.addresses import Address, faces_of, is_public, parse_address

Rule = Callable[[Address], bool]
_NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class ForbiddenAddressError(Exception):
    """A host that this URL must not reach, or that has no address.

    The message names the host as the URL does, never by its addresses. It does not reveal whether the name resolves
    at all either: that would show which names an internal network has.
    """

    def __init__(self, host: str, *, is_final: bool = True) -> None:
        super().__init__(
            f"{host} is not a public address, or has none; URLs that came over REST or MCP reach others only with "
            "api.allow_private_urls"
        )
        self.is_final = is_final


class GuardedResolver(AbstractResolver):
    """Resolves names to addresses that the rule accepts; a name with any other address is refused as a whole."""

    def __init__(self, rule: Rule = is_public) -> None:
        self._resolver = aiohttp.ThreadedResolver()
        self._rule = rule

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        try:
            found = await self._resolver.resolve(host, port, family)
        except socket.gaierror as error:
            raise unresolved(host, error) from None
        for entry in found:
            require(self._rule, host, entry["host"])
        return found

    async def close(self) -> None:
        await self._resolver.close()


def unresolved(host: str, error: socket.gaierror) -> ForbiddenAddressError:
    """Build the refusal of a name without an address; a name whose lookup failed may be retried."""
    return ForbiddenAddressError(host, is_final=error.errno in _NO_SUCH_NAME)


def require_literal(rule: Rule, url: URL) -> None:
    """Refuse a URL that contains a forbidden address; names are checked when they are resolved."""
    host = url.raw_host or ""
    if parse_address(host) is not None:
        require(rule, host, host)


def require(rule: Rule, host: str, address: str) -> None:
    """Refuse an address unless the rule accepts it, and every address embedded in it."""
    parsed = parse_address(address)
    if parsed is None or not all(rule(each) for each in faces_of(parsed)):
        raise ForbiddenAddressError(host)
