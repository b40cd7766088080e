"""A server on loopback that answers as a test tells it, down to the bytes; and the target that asks it."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from everwhen.model.instants import SECOND
from everwhen.model.outcome import Outcome
from everwhen.target import Run
from everwhen.targets.http import HttpTarget

Answer = Callable[[socket.socket, "Seen"], None]
NOW = 1_767_600_000 * SECOND


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    answer: Answer
    listener: socket.socket
    tls: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://{self.listener.getsockname()[0]}:{self.port}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        try:
            with self._secured(connection) as stream:
                request = _read(stream)
                if request is not None:
                    self.seen.append(request)
                    self.answer(stream, request)
        except OSError:
            return

    def _secured(self, connection: socket.socket) -> socket.socket:
        return connection if self.tls is None else self.tls.wrap_socket(connection, server_side=True)


@contextmanager
def a_server(
    answer: Answer, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    server = Server(answer, socket.create_server((host, 0)), tls)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        thread.join(60)


def _read(connection: socket.socket) -> Seen | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        piece = connection.recv(65_536)
        if not piece:
            return None
        body += piece
    method, path, _ = first.split(" ", 2)
    return Seen(method, path, headers, body)


def status(code: int, body: str = "", **headers: str) -> Answer:
    """An ordinary answer."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {code} X", f"Content-Length: {len(body)}", "Connection: close", *lines])

    def answer(connection: socket.socket, _request: Seen) -> None:
        connection.sendall(f"{head}\r\n\r\n{body}".encode())

    return answer


def kept_open(connection: socket.socket, request: Seen) -> None:
    """An empty answer to each request of a connection, which stays open: `seen` has one entry per connection."""
    following: Seen | None = request
    while following is not None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        following = _read(connection)


def reset(connection: socket.socket, _request: Seen) -> None:
    """The connection is broken off, not closed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Requests:
    """The target as one job uses it: opened, run, closed."""

    def __init__(self, **keys: Any) -> None:
        self._keys = keys

    async def run(self, spec: str, run: Run) -> Outcome:
        target = HttpTarget(lambda: NOW, **self._keys)
        try:
            return await target.run(spec, run)
        finally:
            await target.close()
