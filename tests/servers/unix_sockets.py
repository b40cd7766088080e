"""A connection to a server that listens on a Unix socket, as soon as it listens.

The socket's file is there from the server's bind on, and connections are refused until its listen, so waiting for the
file is not enough.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path


def connect(path: Path, patience: float) -> socket.socket:
    """Return a connected socket, which the caller closes."""
    deadline = time.monotonic() + patience
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(patience)
        try:
            connection.connect(str(path))
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            assert time.monotonic() < deadline, f"nobody listens on {path}"
            time.sleep(0.01)
