"""The worker of B8 for Procrastinate: no-op tasks on PostgreSQL, run by a worker until its queue is empty."""

import argparse
import asyncio
from importlib import import_module
from importlib.metadata import version
from time import perf_counter
from typing import Any

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import accept_sizes, size_of

COUNT = (500, 200, 3)  # each takes milliseconds, whatever their number
CONCURRENCIES = (1, 10, 50)


class Working:
    """Fills the queue, then times a worker: from the first function until the last job is finished.

    The first run finds the best concurrency; the default is 1.
    """

    def __init__(self, place: Place, count: int) -> None:
        self.count = count
        self.url = place.fresh()
        self.at_once = CONCURRENCIES[0]

    @property
    def version(self) -> str:
        return f"{version('procrastinate')}, {self.at_once} at a time"

    def check(self) -> dict[str, str]:
        asyncio.run(self.install())
        asyncio.run(self.drained(1))  # imports on first use happen here
        seconds = {at_once: asyncio.run(self.drained(at_once)) for at_once in CONCURRENCIES}
        self.at_once = min(seconds, key=lambda at_once: seconds[at_once])
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        return {"job": (asyncio.run(self.drained(self.at_once)), self.count)}

    async def install(self) -> None:
        async with an_app(self.url).open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def drained(self, at_once: int) -> float:
        async with an_app(self.url).open_async() as app:
            done, began = 0, 0.0

            @app.task(name="nothing")  # type: ignore[untyped-decorator]
            async def nothing() -> None:
                nonlocal done, began
                if not done:
                    began = perf_counter()
                done += 1

            await nothing.batch_defer_async(*({} for _ in range(self.count)))
            await app.run_worker_async(wait=False, concurrency=at_once, install_signal_handlers=False)
            seconds = perf_counter() - began
        if done != self.count:
            raise AssertionError(f"{done} of {self.count} jobs were run")
        return seconds


def an_app(url: str) -> Any:
    procrastinate = import_module("procrastinate")
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))


def main() -> None:
    parser = argparse.ArgumentParser()
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(Working(place, size_of(options).of(*COUNT)))


if __name__ == "__main__":
    main()
