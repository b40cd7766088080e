"""The worker of B26: one due slot from the tick to its settlement, on a manual scheduler or on a running one."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event
from time import perf_counter, sleep, time

import everwhen
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.profiling import Way
from benchmarks.workers.sizes import accept_sizes
from everwhen import Scheduler
from everwhen.testing import manual_scheduler
from everwhen.version import __version__

ran = Event()
began_at: list[float] = []
LEAD_SECONDS = 2
PATIENCE_SECONDS = 30
SETTLED_AFTER = 0.2


def run_once() -> None:
    """Note the time: the function of the slot."""
    began_at.append(time())
    ran.set()


class Stepped:
    """A scheduler without threads, stepped over the slot: what is entered is that of a firing and nothing else."""

    version = __version__

    def __init__(self, _place: Place) -> None:
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        self.scheduler = manual_scheduler("2026-01-05T08:00:00Z")
        self.scheduler.add("one", every="10m")
        self.scheduler.advance("11m")
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        began = perf_counter()
        self.scheduler.advance("10m")
        seconds = perf_counter() - began
        way = Way(everwhen.__file__)
        way.watch()
        try:
            with way.noting():
                self.scheduler.advance("10m")
        finally:
            way.rest()
        self.amounts = way.amounts
        return {"slot": (seconds, 1)}


class Threaded:
    """A `Scheduler` with its threads: from shortly before the slot until its function has run and is settled."""

    version = __version__

    def __init__(self, place: Place) -> None:
        self.place = place
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        self.run(0, 1)  # imports on first use happen here
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        ran.clear()
        began_at.clear()
        way = Way(everwhen.__file__)
        way.watch()
        scheduler = Scheduler(self.place.fresh(), name="bench")
        try:
            scheduler.start()
            due = int(time()) + LEAD_SECONDS
            scheduler.add("one", run_once, at=datetime.fromtimestamp(due, UTC))
            sleep(max(due - 0.1 - time(), 0))
            with way.noting():
                await_run(due)
        finally:
            scheduler.stop()
            scheduler.close()
            way.rest()
        self.amounts = way.amounts
        return {"slot": (began_at[0] - due, 1)}


def await_run(due: int) -> None:
    if not ran.wait(due - time() + PATIENCE_SECONDS):
        raise TimeoutError(f"the function did not run within {PATIENCE_SECONDS} s")
    sleep(SETTLED_AFTER)


TASKS: dict[str, Callable[[Place], Task]] = {"stepped": Stepped, "threads": Threaded}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(TASKS[options.task](place))


if __name__ == "__main__":
    main()
