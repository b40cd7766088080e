"""Whether the node of this process does its work, asked once for all who want to know.

Many may ask, and a database that is away keeps each of them waiting: so they share one question, and are told after two
seconds that it is not answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from anyio.to_thread import run_sync

from everwhen.errors import StoreError
from everwhen.model.fault import SILENT, describe_fault
from everwhen.operations.system import next_wake_at
from everwhen.runtime import Runtime

PATIENCE = 2.0
SILENT_WITH_QUEUE = "the database or the broker does not answer"

Unready = Callable[[], str | None]
"""Why a node is not ready; None when it is. Strangers may read it: it names no host and no file."""


class Readiness:
    """One question under way at a time. A process without a node needs nothing but the database."""

    def __init__(self, runtime: Runtime, unready: Unready | None, *, has_queue: bool = False) -> None:
        self._runtime = runtime
        self._unready = unready
        self._silent = SILENT_WITH_QUEUE if has_queue and unready is not None else SILENT
        self._query_connection: asyncio.Task[str | None] | None = None

    async def reason(self) -> str | None:
        """Why it is not ready; None when it is."""
        if self._query_connection is None or self._query_connection.done():
            self._query_connection = asyncio.create_task(run_sync(self._ask, abandon_on_cancel=True))
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self._query_connection), PATIENCE)
        return self._silent

    def _ask(self) -> str | None:
        if self._unready is not None:
            return self._unready()
        try:
            next_wake_at(self._runtime)
        except StoreError as error:
            return describe_fault(error)
        return None
