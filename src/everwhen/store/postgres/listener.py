"""Receiving notifications of other processes: one connection that listens, one thread that wakes the loops.

A missed notification costs no slot, only time: the loops check by themselves every check_interval. After a lost
connection the missed notifications are unknown, so all loops are woken as soon as it is back.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Callable

import psycopg

from everwhen.store.postgres.database import describe_connection

CHANNEL = "everwhen"
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0

log = logging.getLogger("everwhen")


class NotificationListener:
    """A thread that calls `on_slots`, `on_jobs` and `on_requests` when another process announces them."""

    def __init__(
        self,
        url: str,
        *,
        on_slots: Callable[[], None],
        on_jobs: Callable[[], None],
        on_requests: Callable[[], None] = lambda: None,
    ) -> None:
        self._url = url
        self._on_slots = on_slots
        self._on_jobs = on_jobs
        self._on_requests = on_requests
        self._stopped = threading.Event()
        self._bell, self._rope = socket.socketpair()
        self.is_listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="everwhen-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; may be called twice."""
        self._stopped.set()
        if self._thread.is_alive():
            self._rope.send(b"!")
            self._thread.join()
        self._bell.close()
        self._rope.close()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                self._listen()
                pause = FIRST_PAUSE
            except psycopg.Error as error:
                self.is_listening.clear()
                log.warning("not listening to the database: %s", str(error).strip())
                self._stopped.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _listen(self) -> None:
        with psycopg.connect(self._url, **describe_connection(self._url)) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            self.is_listening.set()
            self._wake("slots jobs requests")
            while not self._stopped.is_set():
                select.select([connection.fileno(), self._bell.fileno()], [], [])
                for notify in connection.notifies(timeout=0):
                    self._wake(notify.payload)

    def _wake(self, fields: str) -> None:
        if "slots" in fields:
            self._on_slots()
        if "jobs" in fields:
            self._on_jobs()
        if "requests" in fields:
            self._on_requests()
