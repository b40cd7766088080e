"""The worker of B25: a process that has nothing to do, and what it uses meanwhile."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.idle_schedules import DATABASE, schedules
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.process_use import use_of
from benchmarks.workers.sizes import Size, accept_sizes, size_of

COUNT = (1_000, 1_000, 3)
SECONDS = (60, 10, 1)
SETTLING_SECONDS = (10, 5, 0)  # what a start does in its first seconds does not count
LEAST = 1e-9


class Idling:
    """Watches one process through all rounds."""

    def __init__(self, process: int, distribution: str, size: Size) -> None:
        self.process = process
        self.version = version(distribution)
        self.size = size
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        sleep(self.size.of(*SETTLING_SECONDS))
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        before, began = use_of(self.process), perf_counter()
        sleep(self.size.of(*SECONDS))
        after, seconds = use_of(self.process), perf_counter() - began
        cpu = max(after.cpu_seconds - before.cpu_seconds, LEAST)
        self.amounts = {
            "CPU a minute": 60 * cpu / seconds,
            "switches a second": (after.switches - before.switches) / seconds,
            "memory": after.megabytes,
        }
        return {"CPU, a second": (cpu / seconds, 1)}


@contextmanager
def up(place: Place, folder: Path, count: int) -> Iterator[int]:
    from benchmarks.workers.hosts import Up  # the environments of peers have no everwhen

    host = Up(place.fresh(), folder)
    host.add(schedules(count))
    host.start()
    try:
        yield host.node.process.pid
    finally:
        host.stop()


def program(module: str) -> Callable[[Place, Path, int], AbstractContextManager[int]]:
    @contextmanager
    def running(place: Place, _folder: Path, count: int) -> Iterator[int]:
        command = [sys.executable, "-m", f"benchmarks.workers.{module}", str(count)]
        rules = {**os.environ, DATABASE: place.fresh()}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=rules) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"the program ended with {process.wait()}")
            yield process.pid
            process.communicate()

    return running


PROCESSES = {
    "up": (up, "everwhen"),
    "scheduler": (program("program"), "everwhen"),
    "apscheduler": (program("apscheduler_program"), "apscheduler"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("process", choices=tuple(PROCESSES))
    accept_sizes(parser)
    options = parser.parse_args()
    size = size_of(options)
    running, distribution = PROCESSES[options.process]
    with (
        a_place() as place,
        TemporaryDirectory(prefix="everwhen-bench-") as folder,
        running(place, Path(folder), size.of(*COUNT)) as process,
    ):
        answer_until_end(Idling(process, distribution, size))


if __name__ == "__main__":
    main()
