"""FastAPI: the scheduler lives as long as the application, and coroutines run on the server's own loop."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from everwhen import Run, Scheduler

scheduler = Scheduler(os.environ.get("SHOP_DATABASE", "sqlite://"), name="shop")
loops: list[asyncio.AbstractEventLoop] = []


@scheduler.every("1s", id="tick", catch_up="run_all", if_running="queue")
async def tick(run: Run) -> str:
    return f"process {os.getpid()}" if loops == [asyncio.get_running_loop()] else "another loop"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    loops.append(asyncio.get_running_loop())
    async with scheduler:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def status() -> str:
    return scheduler.get_status()
