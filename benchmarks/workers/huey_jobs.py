"""The worker of B8 for Huey: no-op tasks on SQLite, dequeued and executed by one worker, results stored."""

import argparse
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from huey import SqliteHuey

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.sizes import accept_sizes, size_of

COUNT = (5_000, 1_000, 3)


class Working:
    """Fills the queue, then times fetching and executing until it is empty."""

    version = version("huey")

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        # The same durability as everwhen's: a write-ahead log, synchronised at every commit.
        self.huey = SqliteHuey("bench", filename=str(folder / "huey.db"), fsync=True)
        self.nothing = self.huey.task()(nothing)

    def check(self) -> dict[str, str]:
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        for _ in range(self.count):
            self.nothing()
        began = perf_counter()
        while (task := self.huey.dequeue()) is not None:
            self.huey.execute(task)
        return {"job": (perf_counter() - began, self.count)}


def nothing() -> None:
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    accept_sizes(parser)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="everwhen-bench-") as folder:
        answer_until_end(Working(Path(folder), size_of(options).of(*COUNT)))


if __name__ == "__main__":
    main()
