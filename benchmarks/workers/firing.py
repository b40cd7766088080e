"""The worker of B4, B5, B7 and B15: due slots fired, run and settled on a file of everwhen."""

import argparse
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time_ns
from typing import Any

from benchmarks.workers import houses
from benchmarks.workers.answering import Task, Timings, answer_until_end
from benchmarks.workers.houses import HOUR, HOURLY, NoWork, SetClock, Witness
from benchmarks.workers.raw import RawFiring
from benchmarks.workers.raw_own import RawOnOwnTables
from everwhen.engine.service import Service
from everwhen.engine.ticker import BATCH, Ticker
from everwhen.model.instants import SECOND
from everwhen.operations.schedules import create_schedules
from everwhen.stores.lanes import Lane

MANY = 10_000
HERD = 100_000
AT_ONCE = 500  # jobs that B5's worker runs at a time
PATIENCE_SECONDS = 60


class Filled:
    """A file with hourly schedules, whose definitions were parsed before the clock starts."""

    version = houses.VERSION

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.clock = SetClock()
        self.stack = houses.a_stack(folder / "everwhen.db", self.clock)
        self.slots = self.stack.house.slots
        self.amounts: dict[str, float] = {}

    def check(self) -> dict[str, str]:
        houses.load_many(self.stack, self.count, HOURLY)
        self.come_due()
        while self.fire():
            pass
        return {}

    def come_due(self) -> None:
        houses.forget_jobs(self.stack)
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


class Herd(Filled):
    """B7: everything due at one instant, fired by the loop's own steps while time goes on; the last tenth counts."""

    def check(self) -> dict[str, str]:
        super().check()
        self.witness = Witness(self.slots)
        self.ticker = Ticker(self.witness, self.clock)
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


class Cycle(Filled):
    """B5: a whole node on the real clock, from all due to all settled."""

    def check(self) -> dict[str, str]:
        super().check()
        self.clock.set(time_ns() // 1_000)
        self.clock.run_on()
        self.witness = self.stack.house.slots = Witness(self.slots)
        return {}

    def run(self, _part: int, _parts: int) -> Timings:
        houses.forget_jobs(self.stack)
        self.make_due()
        self.witness.settled = 0
        service = Service(self.stack.house, {"command": NoWork()}, max_workers=AT_ONCE)
        began = perf_counter()
        service.start()
        try:
            self.wait()
            seconds = perf_counter() - began
        finally:
            service.stop()
        return {"slot": (seconds, self.count)}

    def make_due(self) -> None:
        due = self.clock.now() // SECOND * SECOND
        change = "UPDATE schedules SET anchor_at = :due, next_slot_at = :due, next_run_at = :due"
        self.stack.database.write(Lane.API, lambda connection: connection.execute(change, {"due": due}))
        self.stack.database.fold()

    def wait(self) -> None:
        pause = threading.Event()
        deadline = perf_counter() + PATIENCE_SECONDS
        while self.witness.settled < self.count:
            pause.wait(0.002)
            if perf_counter() > deadline:
                raise TimeoutError(f"{self.count - self.witness.settled} jobs were not settled in time")


class Holding:
    """B15: evaluations beside 10,000 schedules of one (plugin, command), held by their guard or not."""

    version = houses.VERSION
    others = 500

    def __init__(self, folder: Path, *, is_held: bool) -> None:
        self.is_held = is_held
        self.clock = SetClock()
        self.stack = houses.a_stack(folder / "everwhen.db", self.clock)
        self.ticker = Ticker(self.stack.house.slots, self.clock)

    def check(self) -> dict[str, str]:
        guard = {"max_outstanding": 1} if self.is_held else {}
        words: dict[str, Any] = {"every": "30d", "command": "sync", **guard}
        for start in range(0, MANY, 1_000):
            batch = [houses.submission(f"h{start + number}", "plugin", words) for number in range(1_000)]
            create_schedules(self.stack.house, batch)
        houses.load(self.stack, self.others, {**HOURLY, "if_running": "allow"}, name="other")
        while self.ticker.step():
            pass
        with self.stack.database.read() as connection:
            query = "SELECT count(held_slot_at) FROM schedules"
            held: int = connection.execute(query).fetchone()[0]
        expected = MANY - 1 if self.is_held else 0
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


TASKS: dict[str, Callable[[Path, bool], Task]] = {
    "fire": lambda folder, _is_quick: Firing(folder, MANY),
    "raw": lambda folder, _is_quick: RawOnOwnTables(folder, MANY),
    "raw-narrow": lambda folder, _is_quick: RawFiring(folder, MANY),
    "cycle": lambda folder, is_quick: Cycle(folder, 2_000 if is_quick else MANY),
    "herd": lambda folder, is_quick: Herd(folder, HERD // 4 if is_quick else HERD),
    "held": lambda folder, _is_quick: Holding(folder, is_held=True),
    "free": lambda folder, _is_quick: Holding(folder, is_held=False),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        answer_until_end(TASKS[options.task](Path(folder), options.quick))


if __name__ == "__main__":
    main()
