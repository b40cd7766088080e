"""The watch over commits to a database: a thread that sleeps until some process has committed.

The writer of every process touches the lock file after each commit, and Linux notifies those who watch that file
(inotify). So a node that has nothing to do does not wake up to look, and learns of a commit within a millisecond.

The lock file and not the log: the event of a changed log comes before the commit can be seen, because its frames are
written first, and several times for each commit.

An event means no more than that the change counter is worth a look. Own commits are events, too, because listeners of
this process wait for them. After each look there is a pause in which further events gather, so a node that commits
thousands of times a second is woken twenty times. A commit can come without an event: its process was killed between
COMMIT and the touch, or is of an earlier release. So sleepers look at the counter now and then, and often where no
events come: on other systems than Linux, in a sandbox without inotify, or when its instances are used up
(docs/decisions/commits-by-inotify.md).
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from everwhen.errors import StoreError

PAUSE = 0.05  # seconds in which events gather
_ATTRIBUTES = 0x4  # IN_ATTRIB: the file was touched, or deleted
_LONGEST_EVENTS = 4_096

Look = Callable[[int], None]
"""Gets the change counter after a commit; from another thread."""


class CommitEvents(Protocol):
    """Where events come from."""

    def wait(self) -> bool:
        """Sleep until there are events, and take them all; return False when no more will come."""
        ...

    def wake(self) -> None:
        """End the wait of another thread."""
        ...

    def close(self) -> None: ...


class CommitWatch:
    """Calls functions after commits. `counter` returns the change counter, `open_events` None where no events come."""

    def __init__(self, open_events: Callable[[], CommitEvents | None], counter: Callable[[], int]) -> None:
        self._open_events = open_events
        self._counter = counter
        self._looks: tuple[Look, ...] = ()
        self._guard = threading.Lock()
        self._ended = threading.Event()  # for the thread
        self._has_begun = self._is_closed = False
        self._events: CommitEvents | None = None
        self._thread: threading.Thread | None = None
        self.wake_ups = 0  # of the thread

    def __call__(self) -> int:
        """Return the change counter."""
        return self._counter()

    def follow(self, look: Look) -> bool:
        """Have `look` called after commits, from now on; return False where no events come."""
        if not self._has_begun or look not in self._looks:
            with self._guard:
                if look not in self._looks:
                    self._looks = (*self._looks, look)
                if not self._has_begun:
                    self._has_begun = True
                    self._begin()
        return self._events is not None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def rest(self) -> None:
        """End the thread until somebody follows again."""
        self._end(is_closed=False)

    def close(self) -> None:
        """End the thread for good; may be called twice."""
        self._end(is_closed=True)

    def _end(self, *, is_closed: bool) -> None:
        with self._guard:
            self._is_closed |= is_closed
            self._has_begun = self._is_closed  # then it never begins again
            self._looks = ()
            self._ended.set()
            self._ended = threading.Event()
            events, self._events = self._events, None
            thread, self._thread = self._thread, None
        if events is not None:
            events.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _begin(self) -> None:
        events = self._open_events()
        if events is None:
            return
        serve = partial(self._serve, events, self._ended)
        thread = threading.Thread(target=serve, name="everwhen-commits", daemon=True)
        self._events, self._thread = events, thread
        try:
            thread.start()
        except RuntimeError:  # the host has no thread left
            self._events = self._thread = None
            events.close()

    def _serve(self, events: CommitEvents, ended: threading.Event) -> None:
        while events.wait() and not ended.is_set():
            self.wake_ups += 1
            self._notify()
            ended.wait(PAUSE)
        events.close()
        if not ended.is_set():
            self._events = None
            self._notify()  # from now on sleepers look often

    def _notify(self) -> None:
        try:
            value = self._counter()
        except StoreError:  # sleepers meet the same error, and report it
            value = -1
        for look in self._looks:
            look(value)


class MemoryEvents:
    """The commits to a database in memory, which only this process can have."""

    def __init__(self) -> None:
        self._committed = threading.Event()

    def note_commit(self) -> None:
        if not self._committed.is_set():
            self._committed.set()

    wake = note_commit

    def wait(self) -> bool:
        self._committed.wait()
        self._committed.clear()
        return True

    def close(self) -> None:
        pass


class FileEvents:
    """The touches of one file, by inotify."""

    def __init__(self, libc: Any, path: str) -> None:
        """Begin to watch; raise OSError where that is not possible."""
        self._libc = libc
        self._path = path
        self._guard = threading.Lock()
        self._is_open = True
        self._descriptor = libc.inotify_init1(os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError("inotify_init1")
        self._identity = _identity(path)
        self._watch = libc.inotify_add_watch(self._descriptor, os.fsencode(path), _ATTRIBUTES)
        if self._watch < 0:
            self.close()
            raise OSError("inotify_add_watch")

    @property
    def is_waiting(self) -> bool:
        """Return whether there is an event to take."""
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def wait(self) -> bool:
        # A writer replaces a lock file that was deleted, and nobody watches the new one.
        os.read(self._descriptor, _LONGEST_EVENTS)
        return _identity(self._path) == self._identity

    def wake(self) -> None:
        with self._guard:
            if self._is_open:
                self._libc.inotify_rm_watch(self._descriptor, self._watch)  # which is an event

    def close(self) -> None:
        with self._guard:
            if self._is_open:
                self._is_open = False
                os.close(self._descriptor)


def open_file_events(path: str) -> FileEvents | None:
    """Watch a file; return None where no event comes when it is touched."""
    try:
        import ctypes  # takes a megabyte, and only nodes need it

        events = FileEvents(ctypes.CDLL(None), path)
    except (ImportError, OSError, AttributeError):  # AttributeError: no Linux
        return None
    try:
        os.utime(path)
        if events.is_waiting:
            events.wait()
            return events
    except OSError:  # not this user's file
        pass
    events.close()
    return None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - like the writer's
    except OSError:
        return None
    return found.st_dev, found.st_ino
