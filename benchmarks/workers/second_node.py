"""The worker of B12: one or two scheduler processes fire what is due in one database, from `go` to the last commit."""

import argparse
import os
import subprocess
import sys
from time import perf_counter

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.runtimes import HOUR, HOURLY, SetClock
from benchmarks.workers.sizes import accept_sizes, size_of
from everwhen.engine.ticker import Ticker
from everwhen.store.opened import store_of

COUNT = (20_000, 6_000, 20)
ALONE = {"every": "1h", "first_run": "after_interval"}


class SecondNode:
    """A database with hourly schedules, and the processes on it."""

    version = runtimes.VERSION

    def __init__(self, place: Place, count: int, *, nodes: int, has_limits: bool) -> None:
        self.url = place.fresh()
        self.count = count
        self.nodes = nodes
        self.fields = HOURLY if has_limits else ALONE
        self.clock = SetClock()

    def check(self) -> dict[str, str]:
        self.stack = runtimes.a_stack(self.url, self.clock)
        runtimes.load_many(self.stack, self.count, self.fields)
        command = [sys.executable, "-m", "benchmarks.workers.second_node", "node"]
        rules = {**os.environ, runtimes.DATABASE: self.url}
        pipe = subprocess.PIPE
        self.processes = [
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=rules)
            for _ in range(self.nodes)
        ]
        self.run(0, 1)
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        runtimes.forget_jobs(self.stack)
        self.clock.set(self.clock.now() // HOUR * HOUR + HOUR)
        began = perf_counter()
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(f"{self.clock.now()}\n")
            process.stdin.flush()
        fired = [self.answer(process) for process in self.processes]
        seconds = perf_counter() - began
        if sum(fired) != self.count:
            raise AssertionError(f"{fired} slots were fired, not {self.count}")
        return {"slot": (seconds, self.count)}

    def answer(self, process: subprocess.Popen[str]) -> int:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a node ended with {process.wait()}")
        return int(line)


def be_node() -> None:
    """Set the clock to the instant of each line, fire until nothing is due, and print how much was fired."""
    clock = SetClock()
    stack = runtimes.a_stack(os.environ[runtimes.DATABASE], clock)
    ticker = Ticker(store_of(stack.runtime).slots, clock)
    for line in sys.stdin:
        clock.set(int(line))
        before = ticker.counts.fired
        while ticker.step():
            pass
        print(ticker.counts.fired - before, flush=True)
    stack.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("alone", "limits", "node"))
    parser.add_argument("nodes", type=int, nargs="?", default=1)
    accept_sizes(parser)
    options = parser.parse_args()
    if options.task == "node":
        be_node()
        return
    with a_place() as place:
        count = size_of(options).of(*COUNT)
        task = SecondNode(place, count, nodes=options.nodes, has_limits=options.task == "limits")
        answer_until_end(task)


if __name__ == "__main__":
    main()
