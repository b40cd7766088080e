"""The worker of B2: schedules created in bulk or one by one, in an empty database in each round."""

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.places import Files, Place, a_place

BULK, AT_ONCE = 100_000, 1_000
BY_PEER = 1_000  # APScheduler's cost per schedule does not depend on their number
SINGLE = 200


class Loading:
    """everwhen: through the operation that every surface calls."""

    def __init__(self, place: Place, count: int, at_once: int) -> None:
        from benchmarks.workers import runtimes

        self.runtimes = runtimes
        self.version = runtimes.VERSION
        self.place = place
        self.count = count
        self.at_once = at_once
        self.stack: Any = None
        self.url = ""

    def check(self) -> dict[str, str]:
        return {}

    def run(self, part: int, parts: int) -> Timings:
        runtimes = self.runtimes
        if part == 0:
            self.begin_anew()
        share = self.count // parts
        began = perf_counter()
        for start in range(part * share, (part + 1) * share, self.at_once):
            numbers = range(start, start + self.at_once)
            batch = [runtimes.submission(f"s{n}", "g", fields(n)) for n in numbers]
            runtimes.create_schedules(self.stack.runtime, batch)
        return {"schedule": (perf_counter() - began, share)}

    def begin_anew(self) -> None:
        if self.stack is not None:
            self.stack.close()
            self.place.drop(self.url)
        self.url = self.place.fresh()
        self.stack = self.runtimes.a_stack(self.url)


def fields(number: int) -> dict[str, Any]:
    """Return half intervals, half cron."""
    if number % 2:
        return {"cron": f"{number % 60} {number % 24} * * *"}
    return {"every": f"{3_600 + number % 3_600}s", "first_run": "after_interval"}


def everwhen(place: Place, way: str, is_quick: bool) -> Task:
    return Loading(place, *size(way, is_quick))


def raw(place: Place, way: str, is_quick: bool) -> Task:
    if isinstance(place, Files):
        from benchmarks.workers.raw import RawLoading

        return RawLoading(place, *size(way, is_quick))
    from benchmarks.workers.raw_postgres import RawLoading as RawLoadingServed

    return RawLoadingServed(place, *size(way, is_quick))


def apscheduler(place: Place, _way: str, is_quick: bool) -> Task:
    from benchmarks.workers import apscheduler_jobs

    return apscheduler_jobs.Loading(place, "wal", BY_PEER // 2 if is_quick else BY_PEER)


def size(way: str, is_quick: bool) -> tuple[int, int]:
    if way == "single":
        return SINGLE, 1
    return BULK // 10 if is_quick else BULK, AT_ONCE


CONTESTANTS: dict[str, Callable[[Place, str, bool], Task]] = {
    "everwhen": everwhen,
    "raw": raw,
    "apscheduler": apscheduler,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("way", choices=("bulk", "single"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(CONTESTANTS[options.contestant](place, options.way, options.quick))


if __name__ == "__main__":
    main()
