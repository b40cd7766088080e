"""What the process that hosts the API needs before it imports the web framework: the hooks, and the address."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from everwhen.errors import SchedulerError, shown
from everwhen.model.alerts import AlertRule
from everwhen.model.declare import Declarations
from everwhen.operations.apply import Applied
from everwhen.operations.system import LoopFigures

if TYPE_CHECKING:
    import ssl

BACKLOG = 2_048
# How long sent bytes may wait for their reader, in milliseconds. The kernel keeps a closed connection until its last
# byte is read; a client that reads nothing would keep it, and its memory, for ever.
UNTAKEN = 60_000


class Reload(Protocol):
    """Read the file and apply it, whole or not at all."""

    def __call__(self, actor: str, *, may_remove_most: bool) -> Applied: ...


@dataclass(frozen=True, slots=True)
class NodeHooks:
    """`read`: what the file declares now; `reload`: take it; `figures`: of the loop of this process, None while it
    does not run; `dispatch`: who runs jobs, by its configuration; `broker`: why the queue's broker does not answer;
    `alert_rules`: those of the file in force."""

    read: Callable[[], Declarations] | None = None
    reload: Reload | None = None
    figures: Callable[[], LoopFigures | None] | None = None
    dispatch: str = "local"
    broker: Callable[[], str | None] | None = None
    alert_rules: Callable[[], Sequence[AlertRule]] = tuple


def refuse_taken(host: str, port: int) -> None:
    """Raise now what `bound` would raise later, when slots have fired and jobs would be interrupted."""
    bound(host, port).close()


def refuse_unusable_tls(tls: tuple[str, str] | None) -> None:
    """Refuse a certificate and a key that cannot be read or do not belong together, before anything starts."""
    if tls is not None:
        tls_context(tls)


def tls_context(tls: tuple[str, str]) -> ssl.SSLContext:
    """Return what a server with this certificate and its key needs for handshakes."""
    import ssl  # needed for TLS alone

    cert, key = tls
    for path in tls:
        if not os.access(path, os.R_OK):
            raise SchedulerError(
                f"api.tls: {shown(path)} cannot be read; see that it is there, and this user's"
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password="")  # with a password there is nobody to ask for it
    except OSError as error:
        raise SchedulerError(
            f"api.tls: {shown(cert)} and {shown(key)} are not a certificate and its key without a password, "
            f"both in PEM: {error}"
        ) from error
    return context


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens there."""
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
            f"the API cannot listen on {shown(host)}:{port}: {error.strerror}; "
            "choose another port with --port (0: any free one) or api.port, or another address with --host or api.host"
        ) from error
    return found
