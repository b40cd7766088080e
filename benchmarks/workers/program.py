"""A program with a `Scheduler`, for B25: it adds idle schedules, starts, and runs until its input ends."""

import os
import sys

from benchmarks.workers.idle_schedules import DATABASE, schedules
from everwhen import Scheduler


def main() -> None:
    with Scheduler(os.environ[DATABASE], name="bench") as scheduler:
        scheduler.add_many(schedules(int(sys.argv[1])))  # type: ignore[arg-type]
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
