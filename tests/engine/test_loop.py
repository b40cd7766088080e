"""A loop whose steps fail goes on, after pauses that grow only where nobody has waited; what cuts a sleep short."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest

from everwhen.engine.loop import (
    FIRST_PAUSE,
    LONGEST_IDLE,
    LONGEST_PAUSE,
    LOOK_AGAIN,
    LOOK_SELDOM,
    CommitSleep,
    Loop,
    Wake,
    WakeableSleep,
)
from everwhen.errors import StoreError, StoreFault


class StopFlag(threading.Event):
    """Is waited for without waiting, and remembers for how long it would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        return self.is_set()


def pauses_after(faults: Iterable[StoreFault]) -> list[float]:
    reported, left = StopFlag(), list(faults)

    def step() -> None:
        if not left:
            reported.set()
            return
        raise StoreError("not now", fault=left.pop(0))

    loop = Loop("test", "a test", step, reported)
    loop.start()
    loop.join(60)
    assert not loop.is_alive
    return reported.pauses


def test_pauses_grow_while_the_database_is_away() -> None:
    pauses = pauses_after(["away"] * 6)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, LONGEST_PAUSE, LONGEST_PAUSE])


def test_who_has_waited_for_a_lock_asks_again_at_once() -> None:
    """Each of these steps took as long as the lock may: a pause on top could be just when it is free."""
    pauses = pauses_after(["away", "away", "locked", "locked", "locked"])
    assert pauses == pytest.approx([FIRST_PAUSE, 2 * FIRST_PAUSE, *[FIRST_PAUSE] * 3])


class Waits(Wake):
    """Is waited for without waiting, and remembers for how long it would have been."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self.then = then  # happens during each wait
        self.woken: Callable[[bool], object] = lambda _is_woken: None

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        self.then()
        is_woken = super().wait(0.0)
        self.woken(is_woken)
        return is_woken


class Counter:
    """A change counter that the test moves, with notifications or without."""

    def __init__(self, *, notifies: bool) -> None:
        self.value = 0
        self.notifies = notifies
        self.looks: list[Callable[[int], None]] = []

    def __call__(self) -> int:
        return self.value

    def follow(self, look: Callable[[int], None]) -> bool:
        self.looks.append(look)
        return self.notifies

    def rest(self) -> None:
        self.looks.clear()

    def commit(self) -> None:
        self.value += 1
        for look in self.looks:
            look(self.value)


def test_a_sleep_with_notifications_looks_once_a_second_and_any_other_twenty_times() -> None:
    for notifies, looks in ((True, [LOOK_SELDOM] * 2), (False, [LOOK_AGAIN] * 40)):
        waits = Waits()
        sleep = WakeableSleep(waits, Counter(notifies=notifies))
        sleep.begin()
        sleep.sleep(2.0)
        assert waits.pauses == pytest.approx(looks)


def test_a_commit_behind_the_beginning_of_a_step_cuts_the_sleep_short() -> None:
    counter, waits = Counter(notifies=True), Waits()
    sleep = WakeableSleep(waits, counter)
    sleep.begin()
    counter.commit()  # during the step
    sleep.sleep(60.0)
    assert waits.pauses == []

    waits = Waits(then=counter.commit)  # during the sleep
    sleep = WakeableSleep(waits, counter)
    sleep.begin()
    sleep.sleep(60.0)
    assert waits.pauses == [LOOK_SELDOM]


def test_a_commit_that_a_step_has_seen_wakes_nobody() -> None:
    counter = Counter(notifies=True)
    waits = Waits()
    sleep = WakeableSleep(waits, counter)
    sleep.begin()
    sleep.sleep(1.0)
    counter.value += 1
    sleep.begin()
    for look in counter.looks:  # the event comes late
        look(counter.value)
    sleep.sleep(1.0)
    assert waits.pauses == [LOOK_SELDOM] * 2


def test_a_commit_without_a_notification_is_found_at_the_next_look() -> None:
    counter = Counter(notifies=True)

    def commit_unnoticed() -> None:
        counter.value += 1

    waits = Waits(then=commit_unnoticed)
    sleep = WakeableSleep(waits, counter)
    sleep.begin()
    sleep.sleep(60.0)
    assert waits.pauses == [LOOK_SELDOM]


def test_a_loop_that_follows_commits_sleeps_on_while_there_are_none() -> None:
    for notifies, is_idle, pauses in (
        (True, True, [1.0, LONGEST_IDLE]),
        (True, False, [1.0]),
        (False, True, [1.0]),
    ):
        waits = Waits()
        sleep = CommitSleep(waits, Counter(notifies=notifies))
        sleep.begin()
        sleep.sleep(1.0, is_idle=is_idle)
        assert waits.pauses == pauses
    waits = Waits()
    CommitSleep(waits, None).sleep(1.0, is_idle=True)
    assert waits.pauses == [1.0]


def test_a_loop_that_follows_commits_steps_once_a_second_while_there_are_some() -> None:
    counter = Counter(notifies=True)
    waits = Waits(then=counter.commit)
    sleep = CommitSleep(waits, counter)
    for _ in range(3):
        sleep.begin()
        sleep.sleep(1.0, is_idle=True)
    assert waits.pauses[:3] == [1.0] * 3


def test_a_commit_wakes_a_loop_that_follows_commits_from_its_long_sleep() -> None:
    counter = Counter(notifies=True)
    waits = Waits()
    sleep = CommitSleep(waits, counter)
    woken: list[bool] = []
    waits.then = lambda: counter.commit() if len(waits.pauses) == 2 else None
    waits.woken = woken.append
    sleep.begin()
    sleep.sleep(1.0, is_idle=True)
    assert (waits.pauses, woken) == ([1.0, LONGEST_IDLE], [False, True])


def test_the_long_sleep_of_a_loop_begins_also_while_the_counter_fails() -> None:
    class Failing(Counter):
        def __call__(self) -> int:
            raise StoreError("away", fault="away")

    waits = Waits()
    sleep = CommitSleep(waits, Failing(notifies=True))
    sleep.begin()
    sleep.sleep(1.0, is_idle=True)
    assert waits.pauses == [1.0, LONGEST_IDLE]
