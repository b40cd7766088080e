"""A loopback port that stays ours from the moment it is chosen until the server is cleared away.

Refuses the usual way (ask for a free port, let go of it, hope): between the letting go and the server's own
bind, or while a killed server is down, a neighbour may be handed the same port.
"""

import socket
import sys

LOOPBACK = "127.0.0.1"

# Linux lets a server listen on a port that another socket has merely bound, provided that both set
# SO_REUSEADDR, as PostgreSQL and Valkey do; and it hands a bound port to nobody who asks for any free one.
# Elsewhere the holder would shut out our own server, so the port is let go and a lost race is retried.
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
