"""The address that the API listens on: whether it can be had is known before anything else has begun."""

from __future__ import annotations

import socket

from everwhen.errors import SchedulerError, shown

BACKLOG = 2_048
# How long what was sent may wait for its reader, in milliseconds. A connection that is closed is kept by the kernel
# until its last byte is taken; whoever takes nothing would keep it, and its memory, for ever.
UNTAKEN = 60_000


def refuse_taken(host: str, port: int) -> None:
    """Say now what `bound` would say later, when slots have been fired and jobs would be left half done."""
    bound(host, port).close()


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; those that are accepted inherit it
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNTAKEN)
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise SchedulerError(
            f"the API cannot listen on {shown(host)}:{port}: {error.strerror}; choose another api.port, or api.host"
        ) from error
    return found
