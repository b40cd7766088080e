"""The worker of B8 for Procrastinate: no-op tasks on PostgreSQL, run by a worker until its queue is empty."""

import argparse
import asyncio
from importlib import import_module
from importlib.metadata import version
from time import perf_counter
from typing import Any

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.places import Place, a_place

COUNT, QUICK_COUNT = 500, 200  # each takes milliseconds, whatever their number
AT_ONCE = 1  # its default; 10 and 50 took as long


class Working:
    """Fills the queue, then times a worker until the last job is finished."""

    version = version("procrastinate")

    def __init__(self, place: Place, count: int) -> None:
        self.count = count
        self.url = place.fresh()

    def check(self) -> dict[str, str]:
        asyncio.run(self.install())
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        return {"job": (asyncio.run(self.drained()), self.count)}

    async def install(self) -> None:
        async with an_app(self.url).open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def drained(self) -> float:
        async with an_app(self.url).open_async() as app:
            done = 0

            @app.task(name="nothing")  # type: ignore[untyped-decorator]
            async def nothing() -> None:
                nonlocal done
                done += 1

            await nothing.batch_defer_async(*({} for _ in range(self.count)))
            began = perf_counter()
            await app.run_worker_async(wait=False, concurrency=AT_ONCE, install_signal_handlers=False)
            seconds = perf_counter() - began
        if done != self.count:
            raise AssertionError(f"{done} of {self.count} jobs were run")
        return seconds


def an_app(url: str) -> Any:
    procrastinate = import_module("procrastinate")
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(Working(place, QUICK_COUNT if options.quick else COUNT))


if __name__ == "__main__":
    main()
