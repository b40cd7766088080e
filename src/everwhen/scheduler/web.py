"""The REST API and the dashboard of a scheduler inside another application: what `Scheduler.asgi` returns.

The hosting application owns the server, the lifespan and the Host header. It does not run the lifespan of what is
mounted, so the first request of each process opens the database and builds the context of the API, and a task of the
event loop runs what the parts of the API need (MCP). A context belongs to one node and to one event loop: after a fork,
after `close`, and on another loop there is another.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, NamedTuple

from fastapi import FastAPI
from starlette.responses import RedirectResponse

from everwhen.api.app import create_app, running_parts
from everwhen.api.context import ApiContext
from everwhen.api.hosting import NodeHooks
from everwhen.api.problems import add_security_headers, problem_of
from everwhen.api.request_guard import ANY_NAME, root_of
from everwhen.config.document import plain_node
from everwhen.config.problems import Report
from everwhen.config.schema import API
from everwhen.config.settings import ApiSettings, api_settings_of
from everwhen.errors import ConfigError, StoreError
from everwhen.mcp.mounts import mounts_of
from everwhen.model.kinds import Record
from everwhen.operations.system import LoopFigures, describe_fault, next_wake_at
from everwhen.scheduler.declaring import plain, rules_of
from everwhen.scheduler.node import EmbeddedNode
from everwhen.scheduler.options import ApiOptions
from everwhen.telemetry.metrics import Metrics
from everwhen.web.routes import dashboard_routes

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

log = logging.getLogger("everwhen")
_OPTIONS = Record({name: API.keys[name] for name in ApiOptions.__annotations__})


class RunningParts:
    """What the further parts of an application need while it serves the requests of one event loop.

    One task enters and leaves it, as the lifespan of a server would: begun by the first request, ended with the node or
    with the loop.
    """

    def __init__(self, app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
        self._app, self._loop = app, loop
        self._over = asyncio.Event()
        self._begun: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = (
            None  # keeps a reference: the loop may drop a task without any
        )

    async def begin(self) -> None:
        """Return when the parts run; called on the loop."""
        if self._begun is None:
            self._begun = self._loop.create_future()
            # Not in the context of the request that happens to be the first.
            self._task = self._loop.create_task(self._run(self._begun), context=Context())
        await asyncio.shield(self._begun)

    async def _run(self, begun: asyncio.Future[None]) -> None:
        try:
            async with running_parts(self._app):
                begun.set_result(None)
                await self._over.wait()
        except Exception as error:
            if begun.done():
                raise
            begun.set_exception(error)

    def end(self) -> None:
        """Let the task end; called on any thread."""
        with suppress(RuntimeError):  # the loop is closed, and the task is gone with it
            self._loop.call_soon_threadsafe(self._over.set)


class Served(NamedTuple):
    """The application for the requests of one event loop, on the database that a node has open."""

    node: EmbeddedNode
    app: FastAPI
    context: ApiContext
    parts: RunningParts | None


class MountedApi:
    """An ASGI application: the REST API of a scheduler and its dashboard, under any prefix.

    It starts no scheduler. Its readiness is that of the node of this process while that runs, else the database's.
    """

    def __init__(
        self,
        name: str,
        options: ApiOptions,
        *,
        own_node: Callable[[], EmbeddedNode | None],
        open_node: Callable[[], EmbeddedNode],
    ) -> None:
        self._name = name
        self._settings = read_settings(options)
        self._mounts = mounts_of(self._settings)
        self._own_node = own_node  # what this process has open
        self._open_node = open_node
        self._served: dict[asyncio.AbstractEventLoop, Served] = {}
        self._building = threading.Lock()
        self._outage: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # of a server that serves nothing else
            await self._accompany(receive, send)
            return
        root = root_of(scope)
        if scope["type"] == "http" and root and scope["path"] == root:
            # The references of the dashboard's page are relative to a folder.
            await RedirectResponse(f"{root}/", 308)(scope, receive, add_security_headers(send))
            return
        try:
            app = await self._application()
        except StoreError as error:
            self._log_outage(error)
            await problem_of(error)(scope, receive, add_security_headers(send))
            return
        await app({**scope, "root_path": root}, receive, send)

    async def _application(self) -> FastAPI:
        loop = asyncio.get_running_loop()
        served = self._served.get(loop)
        if served is None or served.node is not self._own_node():
            served = await asyncio.to_thread(self._serve, loop)
        if served.parts is not None:
            await served.parts.begin()
        return served.app

    def _log_outage(self, error: StoreError) -> None:
        """Say why the database cannot be opened, and not once for every request."""
        if self._outage != str(error):
            self._outage = str(error)
            log.warning("the API of scheduler %s cannot open its database: %s", self._name, error)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> Served:
        """Open the database of this process, and build the application of a loop."""
        with self._building:
            node, served = self._open_node(), self._served.get(loop)
            if served is None or served.node is not node:
                if all(known.node is not node for known in self._served.values()):
                    node.stack.leave.append(self._close_streams)
                context = self._context(node)
                app = create_app(context, dashboard_routes(), mounts=self._mounts)
                served = Served(node, app, context, RunningParts(app, loop) if self._mounts else None)
                others = {
                    one: known
                    for one, known in self._served.items()
                    if known.node.is_of_this_process and not one.is_closed()
                }
                self._served = {**others, loop: served}
            return served

    def _context(self, node: EmbeddedNode) -> ApiContext:
        runtime = node.stack.runtime
        rules = rules_of(runtime, self._name)

        def figures() -> LoopFigures | None:
            service, counts = node.service, node.service.ticker.counts
            if service.status == "stopped":
                return None
            return LoopFigures(
                service.status, service.started_at, counts.checks, counts.fired, counts.last_check_at
            )

        def unready() -> str | None:
            if node.service.status != "stopped":
                return node.service.unreadiness()
            try:
                next_wake_at(runtime)
            except StoreError as error:
                return describe_fault(error)
            return None

        return ApiContext(
            runtime,
            self._settings,
            lambda: rules,
            unready=unready,
            changes=node.stack.changes,
            node_hooks=NodeHooks(figures=figures),
            measured=Metrics(runtime, loop=figures, service=self._name),
        )

    def _close_streams(self) -> None:
        """End the streams: they would go on for ever, and keep a server from stopping; and what the parts need."""
        for served in self._served.values():
            served.context.close()
            if served.parts is not None:
                served.parts.end()

    async def _accompany(self, receive: Receive, send: Send) -> None:
        while True:
            event = (await receive())["type"]
            if event == "lifespan.shutdown":
                self._close_streams()
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return


def read_settings(options: ApiOptions) -> ApiSettings:
    """Return the settings of a mounted API; raise ConfigError with everything that is wrong with them."""
    report = Report()
    node = plain_node(plain({"allowed_hosts": [ANY_NAME], **options}), report)
    _OPTIONS.check(node)
    if report.errors:
        raise ConfigError("; ".join(f"asgi: {found.path}: {found.message}" for found in report.errors))
    return api_settings_of(node.fields(), {})
