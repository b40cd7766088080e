"""The application: its calls, its request guard and its OpenAPI, put together around one context."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import anyio.to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute

from everwhen.api import docs_page, problems
from everwhen.api.context import ApiContext
from everwhen.api.request_guard import RequestGuard
from everwhen.api.routes import (
    alerts,
    hooks,
    jobs,
    quiet_hours,
    schedule_actions,
    schedule_history,
    schedules,
    streams,
    system,
    timeline,
    tokens,
    webhooks,
)
from everwhen.errors import SchedulerError
from everwhen.version import __version__

THREADS = 16
# Routes are tried one after another: what is called most comes first.
ROUTERS = (
    schedules.creating_router,
    schedules.router,
    schedule_actions.router,
    schedule_history.router,
    schedules.by_key_router,
    timeline.router,
    jobs.router,
    quiet_hours.router,
    system.breakers_router,
    hooks.router,
    streams.router,
    schedule_actions.agents_router,
    tokens.router,
    alerts.router,
    webhooks.router,
    system.router,
    system.config_router,
    system.health_router,
    docs_page.router,
)
ABOUT = """Every slot of every schedule is fired once, or the reason it was not is on record.

Send a token as `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`. Errors are problem details (RFC 9457) whose `type`
is stable. Paths work with and without their last slash."""


class Mounted(NamedTuple):
    """A further part of the application: its route, and what has to run as long as the application does."""

    route: BaseRoute
    running: Callable[[], AbstractAsyncContextManager[None]]


Mount = Callable[[FastAPI], Mounted]
"""Make a part for an application: it may call that application in process."""


def create_app(
    context: ApiContext, further: Sequence[BaseRoute] = (), *, mounts: Sequence[Mount] = ()
) -> FastAPI:
    """Return the application; `further` are the routes of what else it serves, behind its own and those of `mounts`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Operations wait for the database on threads; more of them than this only wait for each other.
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        async with running_parts(app):
            yield

    app = FastAPI(
        title="everwhen",
        version=__version__,
        description=ABOUT,
        openapi_url=None,  # `docs_page` sends it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.context = context
    app.state.documents = docs_page.Documents(app)
    # Not as included routers: the framework looks for the route in each of those, and once more when it has found it.
    app.router.routes[:0] = [route for router in ROUTERS for route in router.routes]
    app.state.mounted = tuple(mount(app) for mount in mounts)
    app.router.routes.extend([*(part.route for part in app.state.mounted), *further])
    app.add_exception_handler(problems.RefusedError, problems.on_refusal)
    app.add_exception_handler(SchedulerError, problems.on_error)
    app.add_exception_handler(RequestValidationError, problems.on_invalid)
    app.add_exception_handler(HTTPException, problems.on_http_error)
    app.add_exception_handler(ClientDisconnect, problems.on_cut_off)
    app.add_exception_handler(Exception, problems.on_mistake)
    app.add_middleware(RequestGuard, context=context)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def running_parts(app: FastAPI) -> AsyncIterator[None]:
    """Run what the further parts of an application need; the framework does not run their lifespans."""
    async with AsyncExitStack() as parts:
        for part in app.state.mounted:
            await parts.enter_async_context(part.running())
        yield


def _document(app: FastAPI) -> dict[str, Any]:
    """Return OpenAPI, made when it is first asked for."""
    if app.openapi_schema is None:
        from everwhen.api.openapi import document_of  # most processes are never asked for it

        app.openapi_schema = document_of(app)
    return app.openapi_schema
