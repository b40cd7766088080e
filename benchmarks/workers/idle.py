"""The worker of B3 and B10: the cost of schedules that are not due, in time and in memory."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep

import psycopg

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import accept_sizes, size_of
from everwhen.engine.ticker import Ticker
from everwhen.store.opened import store_of
from everwhen.wiring import build_service

FEW, MANY = (1_000, 1_000, 10), (1_000_000, 100_000, 20)
EVALUATIONS = 1_000
LOOK_AROUND_SECONDS = 0.5
SPREAD = 1_000  # microseconds between the due instants of copies, a year away


class Idle:
    """A database filled by another process, so that loading does not affect this one."""

    version = runtimes.VERSION

    def __init__(self, place: Place, count: int) -> None:
        self.url = place.fresh()
        self.count = count
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        command = [sys.executable, "-m", "benchmarks.workers.idle", "fill", str(self.count)]
        subprocess.run(command, check=True, env={**os.environ, runtimes.DATABASE: self.url})
        self.stack = runtimes.a_stack(self.url)
        self.ticker = Ticker(store_of(self.stack.runtime).slots, self.stack.runtime.clock)
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


class SelectOne:
    """B3's reference on PostgreSQL: the minimal cost of a query to the server."""

    def __init__(self, place: Place) -> None:
        self.connection = psycopg.connect(place.fresh(), autocommit=True, prepare_threshold=2)
        server = self.connection.info.parameter_status("server_version") or ""
        self.version = f"PostgreSQL {server.split()[0]}"

    def check(self) -> dict[str, str]:
        self.ask(EVALUATIONS)
        return {}

    def run(self, _part: int, parts: int) -> Timings:
        times = EVALUATIONS // parts
        return {"evaluation": (self.ask(times), times)}

    def ask(self, times: int) -> float:
        began = perf_counter()
        for _ in range(times):
            self.connection.execute("SELECT 1").fetchall()
        return perf_counter() - began


def fill(url: str, count: int) -> None:
    stack = runtimes.a_stack(url)
    runtimes.load_many(stack, count, {"every": "365d", "first_run": "after_interval"}, spread=SPREAD)
    stack.close()


def a_task(name: str, place: Place, count: int) -> Task:
    match name:
        case "evaluate":
            return Evaluating(place, count)
        case "remember":
            return Remembering(place, count)
        case _:
            return SelectOne(place)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("evaluate", "remember", "select", "fill"))
    parser.add_argument("count", help="few, many, or for fill a number")
    accept_sizes(parser)
    options = parser.parse_args()
    if options.task == "fill":
        fill(os.environ[runtimes.DATABASE], int(options.count))
        return
    count = size_of(options).of(*(MANY if options.count == "many" else FEW))
    with a_place() as place:
        answer_until_end(a_task(options.task, place, count))


if __name__ == "__main__":
    main()
