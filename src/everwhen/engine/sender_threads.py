"""Threads that send for several owners: each has a part of them, and the next one is for the owner with the fewest.

Receivers that hang would otherwise take all threads, and everybody else's messages would stand in one line behind
those of one owner. Threads end when nothing waits.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Task:
    owner: str | None
    work: Work
    end: Work


class SenderThreads:
    """At most `threads` at once, `most_of_owner` of one owner; what has no owner is the operator's, and not bounded."""

    def __init__(self, name: str, *, threads: int, most_of_owner: int) -> None:
        self._name = name
        self._threads = threads
        self._most_of_owner = most_of_owner
        self._guard = threading.Lock()
        self._waiting: dict[str | None, deque[_Task]] = {}
        self._running: Counter[str | None] = Counter()
        self._count = 0

    def submit(self, owner: str | None, work: Work, end: Work) -> None:
        """Do work when it is its owner's turn, and call `end` behind it, or when it is dropped; neither may raise."""
        with self._guard:
            self._waiting.setdefault(owner, deque()).append(_Task(owner, work, end))
            task = self._take() if self._count < self._threads else None
            self._count += task is not None
        if task is None:
            return
        try:
            threading.Thread(target=self._serve, args=(task,), name=self._name).start()
        except RuntimeError:  # the host has no thread left; the message is still on record, and is due
            with self._guard:
                self._running[task.owner] -= 1
                self._count -= 1
            task.end()

    def close(self) -> None:
        """Drop what waits; what is under way ends by itself."""
        with self._guard:
            dropped = [task for tasks in self._waiting.values() for task in tasks]
            self._waiting.clear()
        for task in dropped:
            task.end()

    def _serve(self, task: _Task | None) -> None:
        while task is not None:
            try:
                task.work()
            finally:
                task.end()
            with self._guard:
                self._running[task.owner] -= 1
                task = self._take()
                self._count -= task is None

    def _take(self) -> _Task | None:
        """Return what is to be done next: of the owner with the fewest under way."""
        eligible = [owner for owner in self._waiting if self._may_have_more(owner)]
        if not eligible:
            return None
        owner = min(eligible, key=self._running.__getitem__)
        # The last of the owners, for the next time: of equals the one that was served longest ago is first.
        tasks = self._waiting.pop(owner)
        task = tasks.popleft()
        if tasks:
            self._waiting[owner] = tasks
        self._running[owner] += 1
        return task

    def _may_have_more(self, owner: str | None) -> bool:
        return owner is None or self._running[owner] < self._most_of_owner
