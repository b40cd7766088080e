"""The order of writes: the lanes of a process's writer, and the mutex that serves them, independent of any database.

The mutex is passed from thread to thread: the thread that releases it chooses the next holder, the one that waits in
the lowest lane, and within that lane the longest. No other thread can take it in between, so a burst of API writes
never delays a tick by more than the current turn. Lanes are deliberately unfair to each other: retention waits as
long as anything else wants to write.

Rejected: a writer thread with a priority queue. Its two hops cost 10 µs a write (3 % of a durable one), and
exceptions would have to be passed between threads.
"""

from __future__ import annotations

import threading
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from everwhen.errors import StoreError


class Lane(IntEnum):
    """The purpose of a write; lower lanes go first."""

    TICK = 0
    HEARTBEAT = 1  # for which nobody waits, in this process or another
    SETTLE = 2
    CLAIM = 3
    API = 4
    OUTPUT = 5
    RETENTION = 6


class _Ticket(NamedTuple):
    """A place in the queue; `arrival` is unique, so a comparison never reaches the fields after it."""

    lane: Lane
    arrival: int
    thread: int
    gate: threading.Lock


class LaneMutex:
    """A mutex that is passed on by lane, first come first served within one; it refuses to be taken twice."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holder: _Ticket | None = None
        self._waiting: list[_Ticket] = []
        self._arrivals = count()

    @property
    def queue_length(self) -> int:
        """Return how many threads wait at this moment; the number may change at once."""
        return len(self._waiting)

    def acquire(self, lane: Lane, *, within: float = -1) -> bool:
        """Wait for the mutex; False when it was not obtained within so many seconds (-1: no limit)."""
        gate = threading.Lock()
        gate.acquire()
        ticket = _Ticket(lane, next(self._arrivals), threading.get_ident(), gate)
        try:
            # The thread that passes the mutex on opens the gate.
            if self._took_at_once(ticket) or gate.acquire(timeout=within):
                return True
        except BaseException:
            # A signal handler may raise here (Ctrl-C in the main thread). A ticket for which no thread waits
            # would be given the mutex and keep it for ever.
            self._withdraw(ticket)
            raise
        self._withdraw(ticket)  # also when the mutex was passed to it at this very moment
        return False

    def release(self) -> None:
        with self._guard:
            self._hand_on()

    def _took_at_once(self, ticket: _Ticket) -> bool:
        with self._guard:
            if self._holder is None:
                self._holder = ticket
                return True
            if self._holder.thread == ticket.thread:
                raise StoreError(
                    "a turn of the writer was asked for by the thread that already has one; "
                    "use the connection that the turn was given, or ask when it has ended"
                )
            heappush(self._waiting, ticket)
            return False

    def _hand_on(self) -> None:
        self._holder = heappop(self._waiting) if self._waiting else None
        if self._holder is not None:
            self._holder.gate.release()

    def _withdraw(self, ticket: _Ticket) -> None:
        with self._guard:
            if self._holder is ticket:
                self._hand_on()
            elif ticket in self._waiting:
                self._waiting.remove(ticket)
                heapify(self._waiting)
