"""The worker of B5 for the pre-release of APScheduler 4, on PostgreSQL."""

import argparse
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from time import time
from typing import Any

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.apscheduler_jobs import Countdown, no_work
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.sizes import accept_sizes, size_of

COUNT = (300, 100, 3)  # its cost per slot only grows with their number


class Cycle:
    """From the instant at which all schedules are due, of a running scheduler, to the release of the last job."""

    version = version("apscheduler")

    def __init__(self, place: Place, count: int) -> None:
        self.place = place
        self.count = count

    def check(self) -> dict[str, str]:
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        """Fill a database, and wait until what is in it becomes due."""
        url = self.place.fresh()
        engine, scheduler = a_scheduler(url)
        due = int(time()) + 3 + self.count // 20
        trigger = import_module("apscheduler.triggers.interval").IntervalTrigger
        first = datetime.fromtimestamp(due, UTC)
        done = Countdown(self.count)
        with scheduler:
            for number in range(self.count):
                scheduler.add_schedule(
                    no_work, trigger(hours=1, start_time=first), id=f"s{number}", misfire_grace_time=None
                )
            scheduler.subscribe(done.count, {import_module("apscheduler").JobReleased})
            scheduler.start_in_background()
            if time() > due:
                raise TimeoutError("filling it took longer than the time that was left for it")
            done.wait()
            seconds = time() - due
            scheduler.stop()
        engine.dispose()
        return {"job": (seconds, self.count)}


def a_scheduler(url: str) -> tuple[Any, Any]:
    engine = import_module("sqlalchemy").create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    store = import_module("apscheduler.datastores.sqlalchemy").SQLAlchemyDataStore(engine)
    return engine, import_module("apscheduler").Scheduler(store)


def main() -> None:
    parser = argparse.ArgumentParser()
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(Cycle(place, size_of(options).of(*COUNT)))


if __name__ == "__main__":
    main()
