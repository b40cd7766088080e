"""Which addresses a request may reach: the rule for URLs that came from outside the configuration file.

The rule is applied to the addresses that a name resolves to, and a request connects to these: a name that changes
between the check and the connection gains nothing. It is also applied to addresses written in a URL, which are not
resolved.
"""

from __future__ import annotations

import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from everwhen.model.addresses import Rule, destination_of, is_public, may_reach, parse_address

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

    def __init__(self, rule: Rule = is_public, resolver: AbstractResolver | None = None) -> None:
        self._resolver = resolver or aiohttp.ThreadedResolver()
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
    """Refuse a URL that contains a forbidden address, in whatever form; names are checked when they are resolved."""
    host = url.raw_host or ""
    if not may_reach(host, rule):
        raise ForbiddenAddressError(host)


def require(rule: Rule, host: str, address: str) -> None:
    """Refuse an address that a name resolved to, unless the rule accepts it."""
    parsed = parse_address(address)
    if parsed is None or not rule(destination_of(parsed)):
        raise ForbiddenAddressError(host)
