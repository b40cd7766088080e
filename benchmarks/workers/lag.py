"""The worker of B6 and B14 for everwhen: how late jobs are committed by a whole node on the real clock."""

import argparse
from collections.abc import Iterator
from threading import Event
from time import time_ns

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Timings, answer_until_end
from benchmarks.workers.backends import backend_of
from benchmarks.workers.percentiles import percentile
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.runtimes import NoWork, SetClock, Witness
from benchmarks.workers.sizes import accept_sizes, size_of
from everwhen.engine.service import Service, ServiceOptions
from everwhen.model.instants import SECOND
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from everwhen.wiring import Stack

EVERY_SECOND = (1_000, 1_000, 3)
ROUND_SECONDS = (12, 2, 1)
BEHIND = (100_000, 10_000, 10)
BACKLOG_SECONDS = (12, 3, 1)
OUTAGE = 3_600 * SECOND
AT_ONCE = 100  # jobs at a time

PER_SECOND = {"every": "1s", "if_running": "allow"}
PER_MINUTE = {"every": "1m", "catch_up": "run_once", "misfire_grace": "10s"}


class Lag:
    """A node with 1,000 schedules that are due in every second, and optionally a backlog.

    An outage is simulated by filling the database with a clock that is an hour slow.
    """

    version = runtimes.VERSION

    def __init__(
        self,
        place: Place,
        live: int,
        seconds: int,
        behind: int = 0,
        target: Target = runtimes.TARGET,
    ) -> None:
        self.place = place
        self.live = live
        self.seconds = seconds
        self.behind = behind
        self.target = target
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        self.template = self.place.fresh()
        now = time_ns() // 1_000
        stack = runtimes.a_stack(self.template, SetClock(now - OUTAGE if self.behind else now))
        if self.behind:
            runtimes.load_many(stack, self.behind, PER_MINUTE, name="behind")
        stack.close()
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        url = self.place.copy_of(self.template)
        stack = runtimes.a_stack(url)
        runtimes.load(stack, self.live, PER_SECOND, name="live", target=self.target)
        witness = store_of(stack.runtime).slots = Witness(store_of(stack.runtime).slots)  # type: ignore[assignment]
        began, ended = self.watch(stack)
        lags = list(self.lags(stack, witness, began, ended))
        stack.close()
        self.place.drop(url)
        expected = self.live * (ended - began) // SECOND
        self.amounts = {"slots missed": expected - len(lags), "lag p99": percentile(lags, 99) / SECOND}
        return {"lag p99": (percentile(lags, 99) / SECOND, 1)}

    def watch(self, stack: Stack) -> tuple[int, int]:
        """Run the node; return the whole seconds in which every slot must be found, from the next one on."""
        service = Service(stack.runtime, {"command": NoWork()}, ServiceOptions(max_workers=AT_ONCE))
        began = time_ns() // 1_000 // SECOND * SECOND + SECOND
        ended = began + self.seconds * SECOND
        service.start()
        try:
            # Late ones may still come: they count, with their lag, while we wait.
            Event().wait((ended - time_ns() // 1_000) / SECOND + 1.5)
        finally:
            service.stop()
        return began, ended

    def lags(self, stack: Stack, witness: Witness, began: int, ended: int) -> Iterator[int]:
        """Yield the lags. Jobs were inserted in the order of the ticks, so each tick's commit belongs to the next few
        rows."""
        backend = backend_of(stack.database)
        query = "FROM jobs WHERE origin IN ('schedule', 'catch_up') ORDER BY row_id"
        rows = iter(backend.rows(f"SELECT {backend.microseconds('due_at')}, schedule_id {query}"))
        for committed_at, fired in witness.commits:
            for _ in range(fired):
                due_at, schedule_id = next(rows)
                if ".live" in schedule_id and began <= due_at < ended:
                    yield committed_at - due_at


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("messages", "backlog"))
    accept_sizes(parser)
    options = parser.parse_args()
    size = size_of(options)
    live = size.of(*EVERY_SECOND)
    with a_place() as place:
        if options.task == "messages":
            task = Lag(place, live, size.of(*ROUND_SECONDS), target=runtimes.SAYING)
        else:
            task = Lag(place, live, size.of(*BACKLOG_SECONDS), size.of(*BEHIND))
        answer_until_end(task)


if __name__ == "__main__":
    main()
