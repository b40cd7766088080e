"""A command, or `everwhen mcp`, in a folder with a file of somebody else: the token of the environment stays here."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from everwhen.cli.main import everwhen

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


@contextmanager
def a_stranger() -> Iterator[tuple[int, list[bytes]]]:
    """Listen as the service that a file names; yield the port, and what is received."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    received.append(peer.recv(65_536))
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield listener.getsockname()[1], received
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("command", [("schedules", "list"), ("mcp",)], ids=" ".join)
@pytest.mark.parametrize(("host", "is_here"), [("127.1", False), ("127.0.0.1", True)])
def test_a_token_is_sent_to_a_host_of_the_file_only_if_that_is_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], host: str, is_here: bool
) -> None:
    """`127.1` is looked up like a name: whose it is, the system's resolver says."""
    monkeypatch.chdir(tmp_path)
    with a_stranger() as (port, received):
        Path("everwhen.yaml").write_text(f"api: {{host: '{host}', port: {port}, insecure: true}}\n")
        found = CliRunner().invoke(
            everwhen,
            command,
            input=json.dumps(INITIALIZE) + "\n",
            env={
                "EVERWHEN_TOKEN": "ew_secret",
                "EVERWHEN_URL": None,
                "EVERWHEN_DATABASE": None,
                "EVERWHEN_API_PORT": None,
            },
        )
        assert bool(received) is is_here, found.output
        assert is_here or "there is no database" in str(found.exception)
