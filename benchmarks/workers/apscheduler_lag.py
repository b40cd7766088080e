"""The worker of B6 for APScheduler 3: when its job store had committed the next time of a run that it began.

Its jobs leave no rows. The commit that advances the schedule (`update_job`), right after the run was handed to the
executor, stands for the committed job: a crash before it would run the job again.
"""

import argparse
import threading
from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.apscheduler_jobs import Jobs, a_scheduler, end, no_work
from benchmarks.workers.percentiles import percentile
from benchmarks.workers.places import Place, a_place

EVERY_SECOND = 1_000
ROUND_SECONDS, QUICK_SECONDS = 12, 2


class Lag(Jobs):
    def __init__(self, place: Place, journal: str, seconds: int) -> None:
        super().__init__(place, journal)
        self.seconds = seconds
        self.amounts: dict[str, float] = {}

    def run(self, _part: int, _parts: int) -> Timings:
        url, began = self.filled()
        lags = self.watch(a_scheduler(url, self.journal), began)
        missed = EVERY_SECOND * self.seconds - len(lags)
        self.amounts = {"slots missed": missed, "lag p99": percentile(lags, 99)}
        return {"lag p99": (percentile(lags, 99), 1)}

    def filled(self) -> tuple[str, int]:
        """Fill a database; return it with the second in which its jobs begin: later when the machine is slow at
        filling it."""
        for lead in (4, 8, 16, 32):
            url, began = self.place.fresh(), int(time()) + lead
            self.fill(url, began)
            if time() < began:
                return url, began
        raise TimeoutError("filling it took longer than half a minute")

    def fill(self, url: str, began: int) -> None:
        scheduler = a_scheduler(url, self.journal, is_durable=False)
        first = datetime.fromtimestamp(began, UTC)
        for number in range(EVERY_SECOND):
            trigger = {"seconds": 1, "start_date": first - timedelta(seconds=1), "next_run_time": first}
            scheduler.add_job(no_work, "interval", id=f"s{number}", **trigger)
        end(scheduler)

    def watch(self, scheduler: Any, began: int) -> list[float]:
        ended = began + self.seconds
        lags: list[float] = []
        due: dict[str, float] = {}
        store = scheduler._jobstores["default"]
        find, update = store.get_due_jobs, store.update_job

        def get_due_jobs(now: datetime) -> Any:
            jobs = find(now)
            due.update({job.id: job.next_run_time.timestamp() for job in jobs})
            return jobs

        def update_job(job: Any) -> None:
            update(job)
            due_at = due.pop(job.id, 0)
            if began <= due_at < ended:
                lags.append(time() - due_at)

        store.get_due_jobs, store.update_job = get_due_jobs, update_job
        scheduler.resume()
        threading.Event().wait(ended - time() + 1.5)
        scheduler.shutdown()
        return lags


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(Lag(place, "wal", QUICK_SECONDS if options.quick else ROUND_SECONDS))


if __name__ == "__main__":
    main()
