"""A web server on a thread of its own, with its own event loop: it starts when its port is bound, and stops cleanly."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from everwhen.api.connections import ConnectionLimits, bounded_protocol
from everwhen.api.context import ApiContext
from everwhen.api.hosting import BACKLOG, bound, tls_context
from everwhen.config.settings import ApiSettings
from everwhen.errors import SchedulerError

START_WITHIN = 30.0
# What uvicorn says about a stream whose reader was dropped, which is on purpose and in our own log, and about bytes
# that anybody may send, as often as they like.
_NO_NEWS = ("ASGI callable returned without completing response.", "Invalid HTTP request received.")


class ApiServer:
    """Serves an application until it is stopped."""

    def __init__(self, app: FastAPI, settings: ApiSettings, *, stop_within: float = 5.0) -> None:
        self._app = app
        self._settings = settings
        self._stop_within = stop_within
        self._limits: ConnectionLimits = app.state.context.limits
        self._make_connection: Callable[..., asyncio.Protocol] = bounded_protocol(self._limits)
        logging.getLogger("uvicorn.error").addFilter(lambda line: line.msg not in _NO_NEWS)
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,  # `proxies` believes fewer of them
                timeout_graceful_shutdown=max(int(stop_within), 1),
                backlog=BACKLOG,
                ws="none",
                http=cast("type[asyncio.Protocol]", self._accept),
                timeout_keep_alive=self._limits.idle,
            )
        )
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        assert self._socket is not None
        host, port = self._socket.getsockname()[:2]
        scheme = "https" if self._settings.tls else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    @property
    def local_url(self) -> str | None:
        """Return where programs of this machine reach it, also when it listens on all addresses."""
        assert self._socket is not None
        return replace(self._settings, port=self._socket.getsockname()[1]).address

    def start(self) -> None:
        """Bind and serve; when this returns, requests are answered."""
        if self._settings.tls is not None:
            from everwhen.api.handshakes import tls_protocol  # needed for TLS alone

            self._make_connection = tls_protocol(self._limits, tls_context(self._settings.tls))
        self._socket = bound(self._settings.host, self._settings.port)
        self._thread = threading.Thread(target=self._serve, name="everwhen-api", daemon=True)
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(START_WITHIN / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.01)
        if not self._server.started:
            raise SchedulerError("the API did not start; the log says why")

    def stop(self) -> None:
        """Take no more requests, let those under way end, close streams."""
        self._server.exit_soon()
        context: ApiContext = self._app.state.context
        context.close()
        if self._thread is not None:
            self._thread.join(self._stop_within + 5)
        if self._socket is not None:
            self._socket.close()

    def _accept(self, *args: Any, **more: Any) -> asyncio.Protocol:
        """Return the protocol of a new connection, which begins with a handshake where there is a certificate."""
        return self._make_connection(*args, **more)

    def _serve(self) -> None:
        assert self._socket is not None
        self._server.run(sockets=[self._socket])


class _Server(uvicorn.Server):
    """A server that sleeps while there are no requests: uvicorn's looks ten times a second whether it shall end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._end: Callable[[], object] | None = None

    async def main_loop(self) -> None:
        ended = asyncio.Event()
        self._end = partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set)
        if not await self.on_tick(0):  # which sets the headers of all answers
            await ended.wait()

    def exit_soon(self) -> None:
        """End the loop; from any thread."""
        self.should_exit = True
        if self._end is not None:
            with suppress(RuntimeError):  # it has ended
                self._end()
