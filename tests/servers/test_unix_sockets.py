"""Waiting for a server on a Unix socket: one that has only bound it refuses connections."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.servers.unix_sockets import connect


def test_a_server_that_has_bound_its_socket_is_waited_for_until_it_listens(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        timer = threading.Timer(0.1, server.listen)
        timer.start()
        with connect(tmp_path / "socket", patience=30) as connection:
            assert connection.getpeername() == str(tmp_path / "socket")
        timer.join()


def test_a_server_that_never_comes_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="nobody listens on "):
        connect(tmp_path / "socket", patience=0)
