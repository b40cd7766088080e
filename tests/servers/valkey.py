"""Valkey, or another server with the Redis protocol, for tests: on loopback, in memory unless it is durable.

It runs as the user of the tests, root included: unlike PostgreSQL it allows that, and it refuses clients the commands
that would write files in other folders.
"""

import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.servers.account import OURSELVES
from tests.servers.errors import ServerError
from tests.servers.local_server import LocalServer
from tests.servers.ports import LOOPBACK
from tests.servers.process import ServerProcess
from tests.servers.programs import valkey_server


class ValkeyServer(LocalServer):
    """One server. `durable` writes each command to disk before it answers.

    `also_on` is a further address, such as one of our network namespaces.
    """

    orderly_signal: ClassVar[signal.Signals] = signal.SIGTERM
    quickest_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, *, durable: bool = False, also_on: str | None = None) -> None:
        super().__init__(OURSELVES)
        self._durable = durable
        self._also_on = also_on
        self._program = Path()

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def flush(self) -> None:
        """Empty every database."""
        with socket.create_connection((LOOPBACK, self.port), timeout=10) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            answer = connection.recv(1024)
        if answer != b"+OK\r\n":
            raise ServerError(f"Valkey would not be flushed: {answer!r}")

    def _find_programs(self) -> None:
        self._program = valkey_server()

    def _make_data(self) -> None:
        """Do nothing: Valkey creates its own data."""

    def _command(self) -> Sequence[str | Path]:
        addresses = [LOOPBACK] if self._also_on is None else [LOOPBACK, self._also_on]
        where = ["--bind", *addresses, "--port", str(self.port), "--dir", str(self.folder)]
        if self._also_on is not None:  # only our own namespaces reach it
            where += ["--protected-mode", "no"]
        keeping = ["yes", "--appendfsync", "always"] if self._durable else ["no"]
        return [self._program, *where, "--daemonize", "no", "--save", "", "--appendonly", *keeping]

    def _is_ready(self, process: ServerProcess) -> bool:
        # Its own log, not an answer on the port, which could come from another server.
        return "Ready to accept connections" in process.output
