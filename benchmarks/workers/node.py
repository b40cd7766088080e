"""A node for B11, to be killed: it says a line for each evaluation that has committed firings."""

import os
from threading import Event

from benchmarks.workers import houses
from benchmarks.workers.houses import NoWork, Witness
from everwhen.engine.service import Service
from everwhen.ports.slots import TickReport


class Telling(Witness):
    def tick(self, now: int, *, limit: int, behind: bool, alive_since: int | None = None) -> TickReport:
        report = super().tick(now, limit=limit, behind=behind, alive_since=alive_since)
        if report.fired:
            print(report.fired, flush=True)
        return report


def main() -> None:
    stack = houses.a_stack(os.environ[houses.DATABASE])
    stack.house.slots = Telling(stack.house.slots)
    Service(stack.house, {"command": NoWork()}).start()
    Event().wait()


if __name__ == "__main__":
    main()
