"""One caller, or somebody without a token, against all others: what they get beside an attack, in `make chaos`.

The service, the attacker and whoever measures are processes of their own. The short forms, which count the time of a
processor and bytes, are in tests/api/test_anonymous.py and tests/api/test_shares.py.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from everwhen.clock import SystemClock
from tests.load.attacks import ATTACKS
from tests.scheduler.waiting import until

COMMAND = str(Path(sys.executable).parent / "everwhen")
ADMIN = "ew_preset_for_this_test_0123456789"
MESSAGE = {"message": {"text": "hello"}}
SECONDS = float(os.environ.get("EVERWHEN_LOAD_SECONDS", "15"))
# What is promised on two processors, in seconds; and what may stay behind.
HEALTH, LIST, LAG = 0.1, 1.0, 0.5
MOST_MEMORY, MOST_LINES = 100, 10  # MiB, lines of the log


@dataclass(frozen=True, slots=True)
class Node:
    """`everwhen up` with two tenants: one who attacks, and one whose schedules fire every second."""

    folder: Path
    url: str
    pid: int

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def memory(self) -> int:
        """Return how many MiB of memory it has."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) >> 10

    def call(self, method: str, path: str, secret: str | None = None, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        raw = None if body is None else json.dumps(body).encode()
        with closing(http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)) as connection:
            connection.request(method, path, raw, {**headers, "Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")

    def tenant(self, name: str, schedules: list[Mapping[str, Any]]) -> str:
        """Return the token of a tenant with these schedules."""
        status, made = self.call(
            "POST", "/api/v1/tokens/", ADMIN, {"name": name, "role": "operator", "owner": name}
        )
        assert status == 201
        for start in range(0, len(schedules), 500):
            body = {"schedules": schedules[start : start + 500]}
            status, found = self.call("POST", "/api/v1/schedules/batch/", made["token"], body)
            assert (status, found["failed"]) == (200, 0)
        return str(made["token"])

    def lag_since(self, instant: int, owner: str) -> float:
        """Return by how many seconds the latest of an owner's slots was late, of those that were due since then."""
        with closing(sqlite3.connect(f"file:{self.folder}/everwhen.db?mode=ro", uri=True)) as database:
            query = """SELECT max(jobs.created_at - jobs.due_at) FROM jobs JOIN schedules USING (uid)
WHERE owner = ? AND jobs.due_at >= ?"""
            (lag,) = database.execute(query, (owner, instant)).fetchone()
        assert lag is not None
        return float(lag) / 1_000_000


@contextmanager
def node_in(folder: Path) -> Iterator[Node]:
    environ = {**os.environ, "EVERWHEN_ADMIN_TOKEN": ADMIN, "EVERWHEN_DATABASE": "sqlite:///everwhen.db"}
    (folder / "everwhen.yaml").write_text("api: {port: 0}\n")
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([COMMAND, "up"], cwd=folder, env=environ, stdout=log, stderr=log) as process,
    ):
        try:
            until(lambda: "API on " in (folder / "log").read_text() or process.poll() is not None)
            address = (folder / "log").read_text().partition("API on ")[2].partition("/api/")[0]
            yield Node(folder, address, process.pid)
        finally:
            process.terminate()
            process.wait(120)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with node_in(tmp_path_factory.mktemp("load")) as found:
        yield found


@pytest.fixture(scope="module")
def attacker(node: Node) -> str:
    return node.tenant(
        "mallory", [{"cron": f"{number % 60} * * * *", "run": MESSAGE} for number in range(1_000)]
    )


@pytest.fixture(scope="module")
def victim(node: Node) -> str:
    often = [{"every": "1s", "run": MESSAGE}] * 3
    return node.tenant("alice", [*often, *[{"every": "1h", "run": MESSAGE}] * 50])


@dataclass(slots=True)
class Probe:
    """Asks one thing again and again, and notes how long each answer takes."""

    node: Node
    path: str
    secret: str | None
    took: list[float] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    def run(self, until_set: threading.Event) -> None:
        while not until_set.is_set():
            began = time.perf_counter()
            status, _ = self.node.call("GET", self.path, self.secret)
            self.took.append(time.perf_counter() - began)
            self.statuses.add(status)
            until_set.wait(0.05)

    @property
    def p99(self) -> float:
        return sorted(self.took)[int(len(self.took) * 0.99)]


@contextmanager
def attack(name: str, node: Node, secret: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.load.attacks", name, node.url, secret]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.stdin.close()
            print(name, "was answered", process.stdout.read().strip())


@pytest.mark.long
@pytest.mark.parametrize("name", ATTACKS)
def test_nobodys_load_is_anothers_outage(node: Node, attacker: str, victim: str, name: str) -> None:
    memory, lines = node.memory, node.log.count("\n")
    probes = [Probe(node, "/healthz", None), Probe(node, "/api/v1/schedules/", victim)]
    is_over = threading.Event()
    threads = [threading.Thread(target=probe.run, args=(is_over,)) for probe in probes]
    began = SystemClock().now()
    with attack(name, node, attacker):
        for thread in threads:
            thread.start()
        is_over.wait(SECONDS)
        is_over.set()
        for thread in threads:
            thread.join()
    health, listed = (probe.p99 for probe in probes)
    lag, grown = node.lag_since(began, "alice"), node.memory - memory
    written = node.log.count("\n") - lines
    print(f"{name}: /healthz p99 {health * 1e3:.0f} ms, a list p99 {listed * 1e3:.0f} ms, lag {lag:.3f} s,")
    print(f"  {grown} MiB more, {written} lines of the log")
    assert all(probe.statuses == {200} for probe in probes)
    assert grown < MOST_MEMORY and written < MOST_LINES
    assert (health <= HEALTH, listed <= LIST, lag <= LAG) == (True, True, True)
