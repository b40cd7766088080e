"""Connections of the http target: kept open and reused, but never for the work of another owner.

What one owner's request leaves on a connection must not become the response to another owner's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp

from everwhen.targets.http_addresses import GuardedResolver, Rule

MOST_SESSIONS = 100


class SessionKey(NamedTuple):
    """The owner of the connections, and whether they reach public addresses only."""

    owner: str | None
    is_guarded: bool


class _Shared:
    """A session and the number of requests that use it now."""

    __slots__ = ("session", "users")

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.users = 0


class HttpSessions:
    """One session per key. Beyond `most` the least recently used idle session is closed."""

    def __init__(self, may_reach: Rule, *, most: int = MOST_SESSIONS) -> None:
        self._may_reach = may_reach
        self._most = most
        self._shared: dict[SessionKey, _Shared] = {}  # the most recently used one is last

    @asynccontextmanager
    async def session(self, key: SessionKey) -> AsyncIterator[aiohttp.ClientSession]:
        shared = self._shared.pop(key, None) or _Shared(self._open(key))
        self._shared[key] = shared
        shared.users += 1
        try:
            yield shared.session
        finally:
            shared.users -= 1
            await self._close_surplus()

    async def close(self) -> None:
        shared, self._shared = list(self._shared.values()), {}
        for each in shared:
            await each.session.close()

    def _open(self, key: SessionKey) -> aiohttp.ClientSession:
        resolver = GuardedResolver(self._may_reach) if key.is_guarded else aiohttp.ThreadedResolver()
        connector = aiohttp.TCPConnector(limit=0, resolver=resolver)
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )

    async def _close_surplus(self) -> None:
        while len(self._shared) > self._most:
            idle = next((key for key, shared in self._shared.items() if not shared.users), None)
            if idle is None:
                return
            await self._shared.pop(idle).session.close()
