"""A loopback port that stays reserved from the moment it is chosen until the server is removed.

The usual method (ask for a free port, release it, hope) is not used: between the release and the server's own bind,
or while a killed server is down, another process may get the same port.
"""

import socket
import sys

LOOPBACK = "127.0.0.1"

# Linux lets a server listen on a port that another socket has only bound, provided that both set SO_REUSEADDR, as
# PostgreSQL and Valkey do; and it does not assign a bound port to a process that asks for any free one. On other
# systems the holder would block our own server, so the port is released and a lost race is retried.
_CAN_BE_HELD = sys.platform == "linux"


class HeldPort:
    """A free TCP port of the loopback interface, reserved until `release`."""

    def __init__(self) -> None:
        self._holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind((LOOPBACK, 0))
        self.number: int = self._holder.getsockname()[1]
        if not _CAN_BE_HELD:
            self._holder.close()

    def release(self) -> None:
        self._holder.close()
