"""What lies outside of a world: a server that gets alerts, events, messages, pings, and work over HTTP.

It is never struck, so what it has taken has arrived. It refuses some of what comes for the first time, as receivers do;
then the same comes again, under the same id.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from zlib import crc32

from tests.proof.work import append

ALERTS, EVENTS, INBOX, PING, WORK = "/alerts", "/events", "/inbox", "/ping", "/work"
REFUSED_ONE_IN = 8  # of what comes for the first time
NAME = "the receiver"  # in the place of a node


class Arrival(NamedTuple):
    """Something that was taken: under which id, and what it was."""

    at: float
    id: str
    content: Any


@dataclass
class Arrivals:
    """Everything that was taken, by path, in order; and how much was refused."""

    taken: dict[str, list[Arrival]] = field(default_factory=lambda: defaultdict(list))
    refused: int = 0
    _known: set[tuple[str, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, identity: str, content: Any) -> bool:
        """Keep an arrival; return False when it is refused, which happens to some ids, the first time."""
        with self._lock:
            is_new = (path, identity) not in self._known
            self._known.add((path, identity))
            if is_new and path != WORK and crc32(identity.encode()) % REFUSED_ONE_IN == 0:
                self.refused += 1
                return False
            self.taken[path].append(Arrival(time.monotonic(), identity, content))
            return True


@dataclass
class Receiver:
    """The server; `url` is its address as the nodes see it."""

    url: str
    arrivals: Arrivals


@contextmanager
def a_receiver(address: str, runs: Path) -> Iterator[Receiver]:
    """Serve on a free port; `address` is the one that nodes use, `runs` the folder of the work's lines."""
    arrivals = Arrivals()

    class Handler(_Handler):
        pass

    Handler.arrivals, Handler.runs = arrivals, runs
    with ThreadingHTTPServer(("0.0.0.0", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, name="receiver", daemon=True).start()
        try:
            yield Receiver(f"http://{address}:{server.server_port}", arrivals)
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    arrivals: Arrivals
    runs: Path
    timeout = 30  # a machine that was cut off leaves its connections open

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        place = urlsplit(self.path)
        path = next((one for one in (ALERTS, EVENTS, INBOX, PING, WORK) if place.path.startswith(one)), None)
        if path is None:
            self._answer(404)
        elif path == WORK:
            self._work(json.loads(body))
        else:
            content = place.path.removeprefix(PING) if path == PING else json.loads(body)
            self._answer(
                204 if self.arrivals.take(path, self._identity(path, place.query, content), content) else 503
            )

    def _identity(self, path: str, query: str, content: Any) -> str:
        if path == PING:
            return f"{parse_qs(query)['rid'][0]} {content}"
        if path == INBOX:
            return str(content["event_id"])
        return str(self.headers["Everwhen-Delivery-Id"])

    def _work(self, run: Any) -> None:
        """Do the work of a schedule whose target is this server: note its begin and its end, and answer then."""
        for what in ("begin", "end"):
            self._note(what, run["schedule_id"])
        self.arrivals.take(WORK, self.headers["Everwhen-Job-Id"], run)
        self._answer(200)

    def _note(self, what: str, schedule_id: str) -> None:
        job_id, attempt = self.headers["Everwhen-Job-Id"], self.headers["Everwhen-Attempt"]
        fields = (f"{time.monotonic():.6f}", what, job_id, attempt, schedule_id, NAME)
        append(self.runs / "python", "\t".join(fields) + "\n")

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Write nothing: a receiver is no node."""
