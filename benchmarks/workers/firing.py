"""The worker of B4, B7, B13 and B15: due slots fired on a database of everwhen, by the steps of the engine."""

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benchmarks.workers import runtimes
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.backends import backend_of
from benchmarks.workers.places import Place, a_place
from benchmarks.workers.raw import RawFiring
from benchmarks.workers.raw_own import raw_on_own_tables
from benchmarks.workers.runtimes import HOUR, HOURLY, SetClock, Witness
from benchmarks.workers.sizes import Size, accept_sizes, size_of
from everwhen.engine.ticker import BATCH, Ticker
from everwhen.model.instants import SECOND
from everwhen.store.opened import store_of
from tests.submissions import create_schedules

MANY = 10_000
LEDGER, QUICK_LEDGER = 1_000_000, 100_000
HERD = 100_000
OTHERS = 500  # due in B15, beside those that are held


class Filled:
    """A database with hourly schedules, whose definitions were parsed before the clock starts."""

    version = runtimes.VERSION
    kept = 0  # the row of the last job that is kept

    def __init__(self, place: Place, count: int) -> None:
        self.count = count
        self.clock = SetClock()
        self.stack = runtimes.a_stack(place.fresh(), self.clock)
        self.slots = store_of(self.stack.runtime).slots
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        runtimes.load_many(self.stack, self.count, HOURLY)
        self.come_due()
        while self.fire():
            pass
        return {}

    def come_due(self) -> None:
        runtimes.forget_jobs(self.stack, after=self.kept)
        self.clock.set(self.clock.now() // HOUR * HOUR + HOUR)

    def fire(self) -> int:
        return self.slots.tick(self.clock.now(), limit=BATCH, behind=False).fired


class Firing(Filled):
    """B4: from claim to committed jobs, a batch per transaction."""

    def run(self, part: int, parts: int) -> Timings:
        if part == 0:
            self.come_due()
        batches = self.count // BATCH // parts
        began = perf_counter()
        fired = sum(self.fire() for _ in range(batches))
        return {"slot": (perf_counter() - began, fired)}


class Growing(Firing):
    """B13: the same with the jobs of a long history in the table."""

    def __init__(self, place: Place, count: int, old_jobs: int) -> None:
        super().__init__(place, count)
        self.old_jobs = old_jobs

    def check(self) -> dict[str, str]:
        super().check()
        if self.old_jobs:
            backend = backend_of(self.stack.database)
            past = {
                "job_id": "job_id || '-' || copy",
                "slot_at": backend.later("slot_at", f"0 - copy * {SECOND}"),
                "status": "'succeeded'",
                "ready_at": "NULL",
                "ended_at": "due_at",
            }
            runtimes.multiply(self.stack, "jobs", "true", self.old_jobs // self.count, past)
            backend.change("UPDATE jobs SET status = 'succeeded', ready_at = NULL WHERE ready_at IS NOT NULL")
            self.kept = backend.rows("SELECT max(row_id) FROM jobs")[0][0]
            backend.tidy()
        return {}


class Herd(Filled):
    """B7: everything due at one instant, fired by the loop's own steps while time passes; the last tenth counts."""

    def check(self) -> dict[str, str]:
        super().check()
        self.witness = Witness(self.slots)
        self.ticker = Ticker(self.witness, self.clock)  # type: ignore[arg-type]
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        self.come_due()
        self.witness.commits.clear()
        self.clock.run_on()
        while self.ticker.step():
            pass
        commits = self.witness.commits
        self.amounts = {"slots missed": self.count - sum(fired for _, fired in commits)}
        tenth = len(commits) * 9 // 10
        seconds = (commits[-1][0] - commits[tenth - 1][0]) / SECOND
        return {"slot": (seconds, sum(fired for _, fired in commits[tenth:]))}


class Holding:
    """B15: evaluations with 10,000 schedules of one (plugin, command), held by their guard or not."""

    version = runtimes.VERSION

    def __init__(self, place: Place, count: int, *, is_held: bool) -> None:
        self.count = count
        self.is_held = is_held
        self.clock = SetClock()
        self.stack = runtimes.a_stack(place.fresh(), self.clock)
        self.ticker = Ticker(store_of(self.stack.runtime).slots, self.clock)

    def check(self) -> dict[str, str]:
        guard = {"max_outstanding": 1} if self.is_held else {}
        fields: dict[str, Any] = {"every": "30d", "command": "sync", **guard}
        for start in range(0, self.count, 1_000):
            batch = [runtimes.submission(f"h{start + number}", "plugin", fields) for number in range(1_000)]
            create_schedules(self.stack.runtime, batch)
        runtimes.load(self.stack, OTHERS, {**HOURLY, "if_running": "allow"}, name="other")
        while self.ticker.step():
            pass
        held = backend_of(self.stack.database).rows("SELECT count(held_slot_at) FROM schedules")[0][0]
        expected = self.count - 1 if self.is_held else 0
        if held != expected:
            raise AssertionError(f"{held} schedules are held, not {expected}")
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        began = perf_counter()
        for _ in range(5):
            self.clock.set(self.clock.now() + HOUR)
            self.ticker.step()
        fired = perf_counter()
        for _ in range(100):
            self.ticker.step()
        return {"500 others due": (fired - began, 5), "nothing due": (perf_counter() - fired, 100)}


SLOTS, HERDS, HALF = (MANY, MANY // 2, BATCH), (HERD, HERD // 5, 2 * BATCH), (MANY // 2, MANY // 2, BATCH)
LEDGERS, HELD = (LEDGER, QUICK_LEDGER, BATCH), (MANY, MANY, 1_000)
TASKS: dict[str, Callable[[Place, Size], Task]] = {
    "fire": lambda place, size: Firing(place, size.of(*SLOTS)),
    "raw": lambda place, size: raw_on_own_tables(place, size.of(*SLOTS)),
    "raw-narrow": lambda place, size: RawFiring(place, size.of(MANY, MANY, BATCH)),
    "herd": lambda place, size: Herd(place, size.of(*HERDS)),
    "grown": lambda place, size: Growing(place, size.of(*HALF), size.of(*LEDGERS)),
    "empty": lambda place, size: Growing(place, size.of(*HALF), 0),
    "held": lambda place, size: Holding(place, size.of(*HELD), is_held=True),
    "free": lambda place, size: Holding(place, size.of(*HELD), is_held=False),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    accept_sizes(parser)
    options = parser.parse_args()
    with a_place() as place:
        answer_until_end(TASKS[options.task](place, size_of(options)))


if __name__ == "__main__":
    main()
