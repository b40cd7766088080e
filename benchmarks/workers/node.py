"""A node for B11, to be killed: it prints a line for each evaluation that has committed firings."""

import os
from threading import Event
from typing import Any

from benchmarks.workers import runtimes
from benchmarks.workers.runtimes import NoWork, Witness
from everwhen.engine.service import Service
from everwhen.store.opened import store_of
from everwhen.store.tick import TickReport


class Telling(Witness):
    def tick(self, now: int, **keys: Any) -> TickReport:
        report = super().tick(now, **keys)
        if report.fired:
            print(report.fired, flush=True)
        return report


def main() -> None:
    stack = runtimes.a_stack(os.environ[runtimes.DATABASE])
    store_of(stack.runtime).slots = Telling(store_of(stack.runtime).slots)  # type: ignore[assignment]
    Service(stack.runtime, {"command": NoWork()}).start()
    Event().wait()


if __name__ == "__main__":
    main()
