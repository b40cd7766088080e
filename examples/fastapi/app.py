"""A shop whose prices are refreshed every five minutes, and whenever somebody asks for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from everwhen import AsyncScheduler, Run

scheduler = AsyncScheduler("sqlite:///shop.db", name="shop")
prices: dict[str, int] = {}


@scheduler.every("5m", jitter="30s", max_retries=2, id="refresh")
async def refresh(run: Run) -> str:
    prices["tea"] = len(run.job_id)
    return f"{len(prices)} prices"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with scheduler:
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/tools/everwhen", scheduler.asgi())


@app.post("/prices/refresh")
async def refresh_now() -> dict[str, str | None]:
    handle = await scheduler.trigger("refresh")
    result = await handle.wait(30)
    return {"job": handle.job_id, "result": result.result}
