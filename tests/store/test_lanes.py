"""The lanes of the writer, without a database."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from everwhen.errors import StoreError
from everwhen.store.lanes import Lane, LaneMutex
from tests.store.notes import until


def test_the_lanes_stand_in_the_order_of_the_contract() -> None:
    urgent, later = (
        [Lane.TICK, Lane.HEARTBEAT, Lane.SETTLE, Lane.CLAIM],
        [Lane.API, Lane.OUTPUT, Lane.RETENTION],
    )
    assert sorted(Lane) == urgent + later


def test_waiting_threads_are_served_by_lane_and_first_come_first_served_within_one() -> None:
    mutex = LaneMutex()
    served: list[str] = []
    arrivals = [
        (Lane.RETENTION, "retention"),
        (Lane.API, "first api"),
        (Lane.TICK, "tick"),
        (Lane.API, "second api"),
        (Lane.CLAIM, "claim"),
        (Lane.OUTPUT, "output"),
        (Lane.SETTLE, "settle"),
    ]
    mutex.acquire(Lane.RETENTION)
    threads = [queued(mutex, lane, partial(served.append, name)) for lane, name in arrivals]
    mutex.release()
    for thread in threads:
        thread.join()
    assert served == ["tick", "settle", "claim", "first api", "second api", "output", "retention"]


def test_a_tick_that_comes_while_others_wait_is_next() -> None:
    mutex = LaneMutex()
    served: list[str] = []
    late: list[threading.Thread] = []

    def first() -> None:
        served.append("first")
        late.append(queued(mutex, Lane.TICK, lambda: served.append("late tick")))

    mutex.acquire(Lane.API)
    threads = [queued(mutex, Lane.API, first), queued(mutex, Lane.API, lambda: served.append("second"))]
    mutex.release()
    for thread in [*threads, *late]:
        thread.join()
    assert served == ["first", "late tick", "second"]


def test_a_second_turn_inside_the_first_is_refused_and_the_first_goes_on() -> None:
    mutex = LaneMutex()
    mutex.acquire(Lane.TICK)
    with pytest.raises(StoreError, match="already has one"):
        mutex.acquire(Lane.TICK)
    mutex.release()
    mutex.acquire(Lane.TICK)
    mutex.release()


def test_a_wait_that_ctrl_c_ends_leaves_no_ticket_behind() -> None:
    mutex = LaneMutex()
    taken, go = threading.Event(), threading.Event()

    def hold() -> None:
        mutex.acquire(Lane.API)
        taken.set()
        until(lambda: mutex.queue_length == 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        go.wait()
        mutex.release()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    taken.wait()
    with pytest.raises(KeyboardInterrupt):
        mutex.acquire(Lane.TICK)
    assert mutex.queue_length == 0
    go.set()
    holder.join()
    mutex.acquire(Lane.RETENTION)
    mutex.release()


def test_who_waits_no_longer_leaves_no_ticket_behind() -> None:
    mutex = LaneMutex()
    mutex.acquire(Lane.TICK)
    with ThreadPoolExecutor(1) as other:
        assert not other.submit(mutex.acquire, Lane.API, within=0.01).result()
    assert mutex.queue_length == 0
    mutex.release()
    assert mutex.acquire(Lane.API, within=0.01)
    mutex.release()


def queued(mutex: LaneMutex, lane: Lane, work: Callable[[], object]) -> threading.Thread:
    """A thread that stands in the queue when this returns."""

    def take_turn() -> None:
        mutex.acquire(lane)
        work()
        mutex.release()

    before = mutex.queue_length
    thread = threading.Thread(target=take_turn, daemon=True)
    thread.start()
    until(lambda: mutex.queue_length == before + 1)
    return thread
