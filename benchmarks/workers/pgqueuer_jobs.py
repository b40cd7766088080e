"""The worker of B8 for PgQueuer: no-op jobs on PostgreSQL, 100 fetched at a time, outcomes stored in batches."""

import argparse
import asyncio
from importlib import import_module
from importlib.metadata import version
from time import perf_counter
from typing import Any

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.places import Place, a_place

COUNT, QUICK_COUNT = 5_000, 1_000
BATCH = 100
ENTRYPOINT = "nothing"


class Working:
    """Fills the queue, then times a manager that drains it, until the last outcome is stored."""

    version = version("pgqueuer")

    def __init__(self, place: Place, count: int) -> None:
        self.count = count
        self.url = place.fresh()

    def check(self) -> dict[str, str]:
        asyncio.run(self.install())
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        return {"job": (asyncio.run(self.drained()), self.count)}

    async def install(self) -> None:
        async with import_module("asyncpg").create_pool(self.url) as pool:
            await queries(pool).install()

    async def drained(self) -> float:
        async with import_module("asyncpg").create_pool(self.url) as pool:
            manager = import_module("pgqueuer.qm").QueueManager(queries(pool))
            done = 0

            @manager.entrypoint(ENTRYPOINT)  # type: ignore[untyped-decorator]
            async def nothing(_job: object) -> None:
                nonlocal done
                done += 1

            await manager.queries.enqueue([ENTRYPOINT] * self.count, [None] * self.count, [0] * self.count)
            drain = import_module("pgqueuer.types").QueueExecutionMode.drain
            began = perf_counter()
            await manager.run(batch_size=BATCH, mode=drain)
            seconds = perf_counter() - began
        if done != self.count:
            raise AssertionError(f"{done} of {self.count} jobs were run")
        return seconds


def queries(pool: object) -> Any:
    """Return queries on the faster of its drivers; its tables are logged, which is its default durability."""
    driver = import_module("pgqueuer.db").AsyncpgPoolDriver(pool)
    return import_module("pgqueuer.queries").Queries(driver)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(Working(place, QUICK_COUNT if options.quick else COUNT))


if __name__ == "__main__":
    main()
