"""The worker of B5 for the pre-release of APScheduler 4, on PostgreSQL."""

import argparse
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.metadata import version
from time import perf_counter, sleep
from typing import Any

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.apscheduler_jobs import Countdown, no_work
from benchmarks.workers.places import Place, a_place

COUNT, QUICK_COUNT = 300, 100  # its cost per slot only grows with their number


class Cycle:
    """From the moment when all schedules are due to the release of the last job."""

    version = version("apscheduler")

    def __init__(self, place: Place, count: int) -> None:
        self.place = place
        self.count = count

    def check(self) -> dict[str, str]:
        """Fill the database with which each round begins: everything becomes due after the filling, not before."""
        self.template = self.place.fresh()
        engine, scheduler = a_scheduler(self.template)
        due = datetime.now(UTC) + timedelta(seconds=2 + self.count / 30)
        trigger = import_module("apscheduler.triggers.interval").IntervalTrigger
        with scheduler:
            for number in range(self.count):
                scheduler.add_schedule(
                    no_work, trigger(hours=1, start_time=due), id=f"s{number}", misfire_grace_time=None
                )
        engine.dispose()
        left = (due - datetime.now(UTC)).total_seconds()
        if left < 0:
            raise TimeoutError("filling it took longer than the time that was left for it")
        sleep(left)
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        engine, scheduler = a_scheduler(self.place.copy_of(self.template))
        done = Countdown(self.count)
        with scheduler:
            scheduler.subscribe(done.count, {import_module("apscheduler").JobReleased})
            began = perf_counter()
            scheduler.start_in_background()
            done.wait()
            seconds = perf_counter() - began
            scheduler.stop()
        engine.dispose()
        return {"slot": (seconds, self.count)}


def a_scheduler(url: str) -> tuple[Any, Any]:
    engine = import_module("sqlalchemy").create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    store = import_module("apscheduler.datastores.sqlalchemy").SQLAlchemyDataStore(engine)
    return engine, import_module("apscheduler").Scheduler(store)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(Cycle(place, QUICK_COUNT if options.quick else COUNT))


if __name__ == "__main__":
    main()
