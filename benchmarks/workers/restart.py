"""The worker of B11: a node is killed while it works, started again, and timed until its first firing."""

import argparse
import os
import subprocess
import sys
from time import perf_counter, sleep, time_ns

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.runtimes import SetClock
from benchmarks.workers.sizes import accept_sizes, size_of

FEW, MANY = (1_000, 1_000, 10), (100_000, 20_000, 20)
LIVE = 100  # due in every second
AWAY_SECONDS = 1.2


class Restarting:
    """A database with schedules that are due in half a day, and a hundred every-second ones."""

    version = runtimes.VERSION

    def __init__(self, place: Place, count: int) -> None:
        self.url = place.fresh()
        self.count = count
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        stack = runtimes.a_stack(self.url, SetClock(time_ns() // 1_000))
        runtimes.load_many(stack, self.count, {"every": "12h", "first_run": "after_interval"})
        runtimes.load(stack, LIVE, {"every": "1s", "if_running": "allow"}, name="live")
        stack.close()
        self.first_firing()
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        # Killed in the previous round, and away for longer than a second: there is something to fire at once.
        sleep(AWAY_SECONDS)
        seconds = self.first_firing()
        self.amounts = {"first firing": seconds}
        return {"first firing": (seconds, 1)}

    def first_firing(self) -> float:
        """Return the seconds until the first firing; a moment later the node is killed during its work."""
        began = perf_counter()
        with self.node() as node:
            self.wait(node)
            seconds = perf_counter() - began
            self.wait(node)
            node.kill()
        return seconds

    def node(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.workers.node"]
        rules = {**os.environ, runtimes.DATABASE: self.url}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=rules)

    def wait(self, node: subprocess.Popen[bytes]) -> None:
        assert node.stdout is not None
        if not node.stdout.readline():
            raise RuntimeError(f"the node ended with {node.wait()}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", choices=("few", "many"))
    accept_sizes(parser)
    options = parser.parse_args()
    count = size_of(options).of(*(MANY if options.count == "many" else FEW))
    with a_place() as place:
        answer_until_end(Restarting(place, count))


if __name__ == "__main__":
    main()
