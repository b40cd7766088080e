"""A plain script: it schedules, and does nothing else until it is told to stop."""

import os

from everwhen import Run, Scheduler

scheduler = Scheduler(os.environ.get("SHOP_DATABASE", "sqlite://"), name="shop")


@scheduler.every("1s", id="tick", catch_up="run_all", if_running="queue")
def tick(run: Run) -> str:
    return f"process {os.getpid()}"


if __name__ == "__main__":
    scheduler.run()
