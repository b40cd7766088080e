"""What a node reports to the service manager that started it: systemd's `Type=notify` and its watchdog.

systemd gives the address of a socket in `NOTIFY_SOCKET`. READY=1 is sent when the API listens and the loops run,
STOPPING=1 when a stop begins, and WATCHDOG=1 twice per `WatchdogSec` while the loops of the node take their steps. A
database that is away stops no loop: a restart would not bring it back.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress

from everwhen.engine.loop import Loop

_LAST = 1.0  # seconds that the end of a beat is waited for


class ServiceManager:
    """The service manager of this process; where there is none, nothing is sent."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Take the address out of the environment: the programs of jobs must not send notifications for the node."""
        self._address = environ.pop("NOTIFY_SOCKET", "")
        micros, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        is_meant = pid in ("", str(os.getpid()))
        self._beat_every = int(micros) / 2_000_000 if is_meant and micros.isdecimal() else 0.0

    def ready(self, status: str) -> None:
        """Say that the node works; `status` is shown by `systemctl status`."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Say that the node was asked to stop."""
        self._send("STOPPING=1\nSTATUS=stopping")

    @contextmanager
    def watchdog(self, is_stuck: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Notify the watchdog during the block, as often as the service manager requires it, unless `is_stuck()`."""
        if not self._beat_every:
            yield
            return
        ended = threading.Event()

        def beat() -> None:
            if not is_stuck():
                self._send("WATCHDOG=1")
            ended.wait(self._beat_every)

        loop = Loop("watchdog", "watchdog", beat, ended)
        loop.start()
        try:
            yield
        finally:
            ended.set()
            loop.join(_LAST)

    def _send(self, text: str) -> None:
        """Send one datagram; a service manager that does not listen is ignored."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(text.encode(), address)
