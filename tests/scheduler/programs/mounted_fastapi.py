"""FastAPI with the REST API of its scheduler under a prefix."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from everwhen import Scheduler

scheduler = Scheduler(os.environ.get("SHOP_DATABASE", "sqlite://"), name="shop")


@scheduler.every("1d", id="report")
def report() -> str:
    return "reported"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with scheduler:
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/tools/everwhen", scheduler.asgi())
