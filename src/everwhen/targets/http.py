"""The http target: it loads its client with the first job that needs it, since most starts of everwhen need none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from everwhen.model.host_fault import before_target
from everwhen.model.outcome import Outcome
from everwhen.target import Run
from everwhen.targets.registry import Resources

if TYPE_CHECKING:
    from everwhen.model.addresses import Rule
    from everwhen.targets.http_exchange import HttpExchange


class HttpTarget:
    """Runs `{"url": …, "method": "POST", "headers": {…}, "body": …, "redirects": false, "connect_timeout": 10}`.

    `"source": "api"` marks a URL that came over REST or MCP: it reaches public addresses only, unless
    `allow_private_urls` is set. `may_reach` overrides which addresses count as public.
    """

    def __init__(
        self, now: Callable[[], int], *, allow_private_urls: bool = False, may_reach: Rule | None = None
    ) -> None:
        self._now = now
        self._allow_private_urls = allow_private_urls
        self._may_reach = may_reach
        self._exchange: HttpExchange | None = None

    async def run(self, spec: str, run: Run) -> Outcome:
        exchange = self._exchange or await self._load()
        return await exchange.run(spec, run)

    async def close(self) -> None:
        if self._exchange is not None:
            await self._exchange.close()

    async def _load(self) -> HttpExchange:
        """Import the client in a thread: the import takes longer than the loop may block."""
        with before_target():
            client = await asyncio.to_thread(import_module, "everwhen.targets.http_exchange")
        if self._exchange is None:  # several jobs may have waited for the import
            allowed = self._allow_private_urls
            self._exchange = client.HttpExchange(
                self._now, allow_private_urls=allowed, may_reach=self._may_reach
            )
        return self._exchange


def make_target(resources: Resources) -> HttpTarget:
    return HttpTarget(resources.clock.now, allow_private_urls=resources.allow_private_urls)
