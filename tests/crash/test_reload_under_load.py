"""A thousand schedules fire while their file changes a hundred times, some of them for the worse (D47)."""

from __future__ import annotations

import itertools
import random
import threading
from pathlib import Path

import pytest

from everwhen.clock import SystemClock
from everwhen.config.read import Host, read_configuration
from everwhen.config.yaml_text import written
from everwhen.errors import ConfigError
from everwhen.model.declare import Declarations
from everwhen.model.outcome import SUCCEEDED, JobEnd
from everwhen.model.queries import EventFilter
from everwhen.operations.apply import apply, reload
from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import Stack, open_stack


class File:
    """A file that changes: intervals, policies, who is in it; every seventh time with a mistake."""

    def __init__(self, folder: Path, size: int, seed: int = 7) -> None:
        self._size = size
        self._path = folder / "everwhen.yaml"
        self._random = random.Random(seed)
        self._version = itertools.count()

    def change(self) -> bool:
        """Write the next version; whether it is valid."""
        version = next(self._version)
        schedules = [
            self._schedule(number, version) for number in range(self._size) if self._random.random() < 0.98
        ]
        is_valid = version % 7 != 3
        if not is_valid:
            schedules[self._random.randrange(len(schedules))]["every"] = "5x"
        self._path.write_text(written({"schedules": schedules}))
        return is_valid

    def _schedule(self, number: int, version: int) -> dict[str, object]:
        changes = self._random.random() < 0.05
        return {
            "id": f"s{number}",
            "every": f"{1 + (number + version * changes) % 3}s",
            "if_running": ("skip", "queue", "allow")[number % 3],
            "enabled": not (changes and number % 10 == 0),
            "run": {"command": ["true"]},
        }

    def read(self) -> Declarations:
        return read_configuration(self._path, Host({}, lambda: "UTC", SystemClock().now())).declared


def _tick(stack: Stack, is_over: threading.Event) -> None:
    slots, clock = store_of(stack.runtime).slots, stack.runtime.clock
    while not is_over.is_set():
        slots.heartbeat(clock.now(), node="n", version="test", is_scheduler=True)
        while slots.tick(clock.now(), limit=500, behind=False).more:
            pass
        slots.tick(clock.now(), limit=500, behind=True)
        is_over.wait(0.01)


def _work(stack: Stack, is_over: threading.Event) -> None:
    slots, clock = store_of(stack.runtime).slots, stack.runtime.clock
    while not is_over.is_set():
        claimed = slots.claim_jobs(clock.now(), node="n", limit=500)
        slots.settle(clock.now(), [JobEnd(one.job.job_id, one.job.fence, SUCCEEDED) for one in claimed])
        if not claimed:
            is_over.wait(0.01)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("schedules", "changes"), [(100, 20), pytest.param(1_000, 100, marks=pytest.mark.long)]
)
def test_nothing_is_lost_or_doubled_while_the_file_changes(
    tmp_path: Path, schedules: int, changes: int
) -> None:
    stack = open_stack(f"sqlite:///{tmp_path}/load.db")
    file = File(tmp_path, schedules)
    file.change()
    apply(stack.runtime, file.read())
    is_over = threading.Event()
    threads = [threading.Thread(target=loop, args=(stack, is_over)) for loop in (_tick, _work)]
    for thread in threads:
        thread.start()
    refused = 0
    for _ in range(changes):
        if file.change():
            reload(stack.runtime, file.read)
        else:
            with pytest.raises(ConfigError, match='Invalid time unit "x"'):
                reload(stack.runtime, file.read)
            refused += 1
    is_over.set()
    for thread in threads:
        thread.join()
    with store_of(stack.runtime).ledger.history() as history:
        report = check_ledger(history, stack.runtime.clock.now())
    assert report.is_clean, report
    types = [
        recorded.event.type
        for recorded in store_of(stack.runtime).ledger.events(EventFilter(), limit=1_000_000)
    ]
    assert (types.count("config.reloaded"), types.count("config.rejected")) == (
        1 + changes - refused,
        refused,
    )
    assert refused >= changes // 10
    stack.close()
