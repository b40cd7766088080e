"""The worker of B13's second half: evaluations that find nothing, after firings whose dead rows vacuum cannot
remove."""

import argparse
from time import perf_counter

import psycopg

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.runtimes import HOUR, SetClock
from benchmarks.workers.sizes import accept_sizes, size_of
from everwhen.engine.ticker import Ticker
from everwhen.model.instants import SECOND
from everwhen.store.opened import store_of

SCHEDULES = (20_000, 2_000, 10)
FIRINGS = 10  # of each
EVALUATIONS = 1_000
WORDS = {"every": "1h", "first_run": "after_interval", "if_running": "allow"}


class Unvacuumed:
    """Another program holds an old snapshot; every row that it might still see stays, in tables and indexes."""

    version = runtimes.VERSION

    def __init__(self, place: Place, count: int, firings: int) -> None:
        self.url = place.fresh()
        self.count = count
        self.firings = firings
        self.clock = SetClock()

    def check(self) -> dict[str, str]:
        stack = runtimes.a_stack(self.url, self.clock)
        runtimes.load_many(stack, self.count, WORDS)
        self.old = psycopg.connect(self.url)
        self.old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self.old.execute("SELECT count(*) FROM schedules")
        self.ticker = Ticker(store_of(stack.runtime).slots, self.clock)
        for _ in range(self.firings):
            self.clock.set(self.clock.now() // HOUR * HOUR + HOUR)
            while self.ticker.step():
                pass
        self.clock.set(self.clock.now() + 60 * SECOND)
        self.evaluate(EVALUATIONS)
        return {}

    def run(self, _part: int, parts: int) -> Timings:
        times = EVALUATIONS // parts
        return {"evaluation": (self.evaluate(times), times)}

    def evaluate(self, times: int) -> float:
        began = perf_counter()
        for _ in range(times):
            self.ticker.step()
        return perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("fired", "fresh"))
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place() as place:
        count = size_of(options).of(*SCHEDULES)
        answer_until_end(Unvacuumed(place, count, FIRINGS if options.task == "fired" else 0))


if __name__ == "__main__":
    main()
