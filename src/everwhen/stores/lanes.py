"""Who writes next: the lanes of a process's writer, and the mutex that serves them. Knows no database.

The mutex is handed from thread to thread: whoever releases it names the next holder, the one that waits in
the smallest lane, and in that lane the longest. Nobody can barge in between, so a burst of API writes never
delays a tick by more than the turn that is under way. Lanes are not fair to each other on purpose:
retention waits as long as anything else wants to write.

Rejected: a writer thread with a priority queue. Its two hops cost 10 µs a write (3 % of a durable one), and
an exception would have to be carried between threads.
"""

from __future__ import annotations

import threading
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from everwhen.errors import StoreError


class Lane(IntEnum):
    """What a write is for; the smaller goes first."""

    TICK = 0
    SETTLE = 1
    CLAIM = 2
    API = 3
    OUTPUT = 4
    RETENTION = 5


class _Ticket(NamedTuple):
    """A place in the queue; `arrival` is unique, so a comparison never reaches the fields behind it."""

    lane: Lane
    arrival: int
    thread: int
    gate: threading.Lock


class LaneMutex:
    """A mutex that is handed on by lane, first come first served within one; it refuses to be taken twice."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holder: _Ticket | None = None
        self._waiting: list[_Ticket] = []
        self._arrivals = count()

    @property
    def queue_length(self) -> int:
        """How many wait at this moment; a moment later it may be another number."""
        return len(self._waiting)

    def acquire(self, lane: Lane, *, within: float = -1) -> bool:
        """Wait for it; False when it was not had within so many seconds (-1: however long it takes)."""
        gate = threading.Lock()
        gate.acquire()
        ticket = _Ticket(lane, next(self._arrivals), threading.get_ident(), gate)
        try:
            # The gate is opened by the one that hands over.
            if self._took_at_once(ticket) or gate.acquire(timeout=within):
                return True
        except BaseException:
            # A signal handler may raise here (Ctrl-C in the main thread). A ticket that nobody stands behind
            # would be handed the mutex and keep it for ever.
            self._withdraw(ticket)
            raise
        self._withdraw(ticket)  # also when it was handed over in this very moment
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
