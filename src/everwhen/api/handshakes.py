"""TLS before a connection is one: handshakes are bounded in number and in time, as connections are.

The server behind it accepts any number of connections and waits a minute for each handshake. Clients that send nothing
hold a descriptor all the while, and without descriptors no job begins. Here handshakes count as connections. When they
are too many, the oldest is closed.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from math import ceil
from typing import Any, cast

from everwhen.api.connections import BoundedProtocol, ConnectionLimits, bounded_protocol

OF_HANDSHAKES = 4  # one part of so many of the connections


class Handshake(asyncio.Protocol):
    """The beginning of one connection: it becomes one when the handshake is over."""

    def __init__(
        self, connection: BoundedProtocol, context: ssl.SSLContext, under_way: dict[Handshake, None]
    ) -> None:
        self._connection = connection
        self._context = context
        self._under_way = under_way  # the oldest first
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake at once: nothing was read yet, so no byte goes astray."""
        self._transport = cast("asyncio.Transport", transport)
        loop, within = self._connection.loop, ceil(self._connection.limits.head_within)
        is_over: asyncio.Future[Any] = loop.create_future()
        is_over.add_done_callback(self._end)
        tls = SSLProtocol(
            loop, self._connection, self._context, is_over, server_side=True, ssl_handshake_timeout=within
        )
        self._under_way[self] = None
        self._bound()
        self._transport.set_protocol(tls)
        tls.connection_made(transport)

    def _end(self, is_over: asyncio.Future[Any]) -> None:
        self._under_way.pop(self, None)
        if not is_over.cancelled():
            is_over.exception()  # that of a client which speaks no TLS, or left, concerns nobody

    def _bound(self) -> None:
        connection, handshakes = self._connection, len(self._under_way)
        most = connection.limits.most_connections
        is_full = handshakes + len(connection.connections) > most
        if handshakes > most // OF_HANDSHAKES or (is_full and not connection.close_oldest()):
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def tls_protocol(limits: ConnectionLimits, context: ssl.SSLContext) -> Callable[..., Handshake]:
    """Return what makes the protocol of a connection to a server with this certificate."""
    make, under_way = bounded_protocol(limits), dict[Handshake, None]()

    def accept(*args: Any, **more: Any) -> Handshake:
        return Handshake(make(*args, **more), context, under_way)

    return accept
