"""The worker of B3 and B10: what schedules cost that are not due, in time and in memory."""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from benchmarks.workers import houses
from benchmarks.workers.answering import Task, Timings, answer_until_end
from everwhen.engine.ticker import Ticker
from everwhen.wiring import build_service

FEW, MANY, QUICK_MANY = 1_000, 1_000_000, 100_000
EVALUATIONS = 1_000
LOOK_AROUND_SECONDS = 0.5
SPREAD = 1_000  # microseconds between the due instants of copies, a year away


class Idle:
    """A file filled by another process, so that loading leaves no trace in this one."""

    version = houses.VERSION

    def __init__(self, folder: Path, count: int) -> None:
        self.path = folder / "everwhen.db"
        self.count = count
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        command = [sys.executable, "-m", "benchmarks.workers.idle", "fill", str(self.count), str(self.path)]
        subprocess.run(command, check=True)
        self.stack = houses.a_stack(self.path)
        self.ticker = Ticker(self.stack.house.slots, self.stack.house.clock)
        self.evaluate(EVALUATIONS)
        return {}

    def evaluate(self, times: int) -> float:
        began = perf_counter()
        for _ in range(times):
            self.ticker.step()
        return perf_counter() - began


class Evaluating(Idle):
    """B3: steps of the loop that find nothing."""

    def run(self, _part: int, parts: int) -> Timings:
        times = EVALUATIONS // parts
        return {"evaluation": (self.evaluate(times), times)}


class Remembering(Idle):
    """B10: the memory of a node that has been running for a while."""

    def check(self) -> dict[str, str]:
        super().check()
        self.service = build_service(self.stack)
        self.service.start()
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        sleep(LOOK_AROUND_SECONDS)
        self.amounts = {"memory": resident_megabytes()}
        return {"evaluation": (self.evaluate(10), 10)}


def resident_megabytes() -> float:
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1_024


def fill(path: Path, count: int) -> None:
    stack = houses.a_stack(path)
    houses.load_many(stack, count, {"every": "365d", "first_run": "after_interval"}, spread=SPREAD)
    stack.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("evaluate", "remember", "fill"))
    parser.add_argument("count", help="few, many, or for fill a number")
    parser.add_argument("path", nargs="?", help="for fill: the file")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.task == "fill":
        fill(Path(options.path), int(options.count))
        return
    many = QUICK_MANY if options.quick else MANY
    with TemporaryDirectory() as folder:
        kind = Evaluating if options.task == "evaluate" else Remembering
        task: Task = kind(Path(folder), many if options.count == "many" else FEW)
        answer_until_end(task)


if __name__ == "__main__":
    main()
