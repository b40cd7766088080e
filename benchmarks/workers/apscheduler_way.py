"""The worker of B26 for APScheduler 3: one due job of a running scheduler on SQLite, with its threads."""

import argparse
from datetime import UTC, datetime
from importlib import import_module
from threading import Event
from time import sleep, time

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.apscheduler_jobs import Jobs, a_scheduler, end
from benchmarks.workers.places import a_place
from benchmarks.workers.profiling import Way
from benchmarks.workers.sizes import accept_sizes

LEAD_SECONDS = 1
PATIENCE_SECONDS = 30
ENDED_AFTER = 0.2
ran = Event()
began_at: list[float] = []


def run_once() -> None:
    """Note the time: the function of the job. APScheduler finds it by its name, in another module than `__main__`."""
    module = import_module("benchmarks.workers.apscheduler_way")
    module.began_at.append(time())
    module.ran.set()


class Running(Jobs):
    """From shortly before the job is due until it has run."""

    def check(self) -> dict[str, str]:
        self.run(0, 1)  # imports on first use happen here
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        module = import_module("benchmarks.workers.apscheduler_way")
        module.ran.clear()
        module.began_at.clear()
        way = Way(import_module("apscheduler").__file__ or "")
        way.watch()
        scheduler = a_scheduler(self.place.fresh(), self.journal)
        try:
            scheduler.resume()
            due = int(time()) + LEAD_SECONDS + 1
            scheduler.add_job(
                "benchmarks.workers.apscheduler_way:run_once",
                "date",
                run_date=datetime.fromtimestamp(due, UTC),
            )
            sleep(max(due - 0.1 - time(), 0))
            with way.noting():
                if not module.ran.wait(due - time() + PATIENCE_SECONDS):
                    raise TimeoutError(f"the function did not run within {PATIENCE_SECONDS} s")
                sleep(ENDED_AFTER)
        finally:
            end(scheduler)
            way.rest()
        self.amounts = way.amounts
        return {"slot": (module.began_at[0] - due, 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    accept_sizes(parser)
    parser.parse_args()
    with a_place() as place:
        answer_until_end(Running(place, "wal"))


if __name__ == "__main__":
    main()
