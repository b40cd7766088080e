"""A program with a scheduler of APScheduler 3, for B25: it adds idle jobs, starts, and runs until its input ends."""

import os
import sys

from benchmarks.workers.apscheduler_jobs import a_scheduler, end
from benchmarks.workers.calls import nothing
from benchmarks.workers.idle_schedules import DATABASE


def main() -> None:
    url = os.environ[DATABASE]
    filling = a_scheduler(url, "wal", is_durable=False)
    for number in range(int(sys.argv[1])):
        filling.add_job(nothing, "interval", days=365, id=f"s{number}")
    end(filling)
    scheduler = a_scheduler(url, "wal")
    scheduler.resume()
    print("ready", flush=True)
    sys.stdin.read()
    end(scheduler)


if __name__ == "__main__":
    main()
