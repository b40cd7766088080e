"""The janitor: when it forgets, and when it had better not."""

from __future__ import annotations

import threading

from everwhen.engine.janitor import AFTER_A_STEP, EVERY, FIRST_AFTER, Janitor
from everwhen.model.retention import Retention
from everwhen.store.opened import store_of
from everwhen.testing import manual_scheduler
from everwhen.testing.manual import ManualScheduler

START = "2026-01-05T08:00:00Z"


def test_a_pass_forgets_in_portions_and_begins_again_later() -> None:
    s = manual_scheduler(START)
    s.add("a", every="2h", if_running="allow")
    s.advance("90d")
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), threading.Event())
    portions = 1
    while janitor.portion():
        portions += 1
    assert portions > 5
    oldest = s.jobs("a")[0].job
    assert oldest.ended_at is not None and s.clock.now() - oldest.ended_at <= Retention().jobs
    assert s.check().is_clean
    left = len(s.jobs("a"))
    s.advance("1d")
    while janitor.portion():
        pass
    assert len(s.jobs("a")) == left


class Waits(threading.Event):
    """Nobody waits in a test: the clock is moved instead, and the waits are counted."""

    def __init__(self, s: ManualScheduler) -> None:
        super().__init__()
        self.s = s
        self.seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds += timeout or 0.0
        self.s.clock.advance(1)
        return self.is_set()


def test_it_waits_before_its_first_pass_and_between_two() -> None:
    s = manual_scheduler(START)
    waits = Waits(s)
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), waits)
    janitor.step()
    assert waits.seconds >= FIRST_AFTER
    while janitor.portion():
        pass
    waits.seconds = 0.0
    janitor.step()
    assert waits.seconds >= EVERY - 1


def test_after_a_step_of_the_clock_it_forgets_nothing_for_a_day() -> None:
    s = manual_scheduler(START)
    waits = Waits(s)
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), waits)
    s.clock.advance(int(FIRST_AFTER) - 1)
    janitor.distrust_clocks()
    janitor.step()
    assert waits.seconds >= AFTER_A_STEP - 1


def test_it_ends_with_the_service_in_the_middle_of_a_wait() -> None:
    s = manual_scheduler(START)
    ended = threading.Event()
    janitor = Janitor(store_of(s.runtime).upkeep, s.clock, Retention(), ended)
    ended.set()
    janitor.step()  # or this test would last ten minutes
    assert ended.is_set()
