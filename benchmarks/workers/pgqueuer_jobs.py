"""The worker of B8 and B24 for PgQueuer: no-op jobs on PostgreSQL, 100 fetched at a time, outcomes stored in batches.

It has what its documentation names as its fastest: asyncpg, uvloop, batches, and a pool that is warm before the clock
starts.
"""

import argparse
import asyncio
from importlib import import_module
from importlib.metadata import version
from time import perf_counter
from typing import Any

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import accept_sizes, size_of

COUNT = (5_000, 1_000, 3)
WARM_UP = 200  # jobs that open the connections of the pool and prepare its statements
BATCH = 100
CONNECTIONS = 10
ENTRYPOINT = "nothing"


class Working:
    """Fills the queue, then times a manager that drains it: from the first function to the last stored outcome."""

    version = version("pgqueuer")

    def __init__(self, place: Place, count: int) -> None:
        self.count = count
        self.url = place.fresh()
        self.runner = asyncio.Runner(loop_factory=import_module("uvloop").new_event_loop)

    def check(self) -> dict[str, str]:
        self.runner.run(self.install())
        self.runner.run(self.drained(min(WARM_UP, self.count)))
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        return {"job": (self.runner.run(self.drained(self.count)), self.count)}

    async def install(self) -> None:
        self.pool = await import_module("asyncpg").create_pool(
            self.url, min_size=CONNECTIONS, max_size=CONNECTIONS
        )
        await queries(self.pool).install()

    async def drained(self, count: int) -> float:
        manager = import_module("pgqueuer.qm").QueueManager(queries(self.pool))
        done, began = 0, 0.0

        @manager.entrypoint(ENTRYPOINT)  # type: ignore[untyped-decorator]
        async def nothing(_job: object) -> None:
            nonlocal done, began
            if not done:
                began = perf_counter()
            done += 1

        await manager.queries.enqueue([ENTRYPOINT] * count, [None] * count, [0] * count)
        drain = import_module("pgqueuer.types").QueueExecutionMode.drain
        await manager.run(batch_size=BATCH, mode=drain)
        seconds = perf_counter() - began
        if done != count:
            raise AssertionError(f"{done} of {count} jobs were run")
        return seconds


def queries(pool: object) -> Any:
    """Return queries on the faster of its drivers; its tables are logged, which is its default durability."""
    driver = import_module("pgqueuer.db").AsyncpgPoolDriver(pool)
    return import_module("pgqueuer.queries").Queries(driver)


def main() -> None:
    parser = argparse.ArgumentParser()
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(Working(place, size_of(options).of(*COUNT)))


if __name__ == "__main__":
    main()
