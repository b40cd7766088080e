"""Starlette with the REST API of its scheduler under a prefix."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Mount

from everwhen import AsyncScheduler

scheduler = AsyncScheduler(os.environ.get("SHOP_DATABASE", "sqlite://"), name="shop")


@scheduler.every("1d", id="report")
async def report() -> str:
    return "reported"


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with scheduler:
        yield


app = Starlette(routes=[Mount("/tools/everwhen", app=scheduler.asgi())], lifespan=lifespan)
