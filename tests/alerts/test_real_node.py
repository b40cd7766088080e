"""A real node with rules of a file, a real receiver, and the commands that people use about alerts."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.cli.test_up import lines_until
from tests.servers.ports import LOOPBACK
from tests.targets.http_server import Seen, Server, a_server, status
from tests.targets.running import until

COMMAND = Path(sys.executable).parent / "everwhen"
FILE = """
service: {lease: 3s}
notify:
  - {name: pager, http: {url: "${PAGER_URL}"}, group_wait: 0, on: [schedule.failing]}
schedules:
  - {id: broken, every: 1h, run: {command: ["false"]}}
"""


@contextmanager
def node(folder: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "everwhen.yaml").write_text(FILE)
    process = subprocess.Popen(
        [COMMAND, "up"],
        cwd=folder,
        env=environment(url),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        lines_until(process.stderr, "API on ", 1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def environment(url: str) -> dict[str, str]:
    return {**os.environ, "EVERWHEN_API_PORT": "0", "PAGER_URL": url}


def crash(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(60)


def ids_in_outbox(folder: Path) -> list[str]:
    """Return the ids of the messages that are not on record as sent."""
    with closing(sqlite3.connect(folder / "everwhen.db")) as database:
        rows = database.execute("SELECT delivery_id FROM alert_deliveries WHERE next_at IS NOT NULL")
        return [delivery_id for (delivery_id,) in rows]


def run(folder: Path, server: Server, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *words],
        cwd=folder,
        env=environment(server.url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_node_that_is_killed_before_or_after_it_sends_forgets_nothing_and_keeps_the_id(
    tmp_path: Path,
) -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as listener:
        listener.settimeout(60)
        with node(tmp_path, f"http://{LOOPBACK}:{listener.getsockname()[1]}") as process:
            connection, _ = listener.accept()  # the message is committed, and nothing of it sent
            crash(process)
            connection.close()
    (delivery_id,) = ids_in_outbox(tmp_path)
    victims: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()

    def kill_the_sender(_connection: socket.socket, _request: Seen) -> None:
        crash(victims.get(timeout=60))  # it has sent the message, and nobody has confirmed it

    with a_server(kill_the_sender) as server:
        with node(tmp_path, server.url) as process:
            victims.put(process)
            until(lambda: process.poll() is not None)
        assert ids_in_outbox(tmp_path) == [delivery_id]
        server.answer = status(200)
        with node(tmp_path, server.url):
            until(lambda: len(server.seen) == 2, seconds=90)  # the lease of the one before ends first
            first, second = server.seen
            assert first.headers["everwhen-delivery-id"] == delivery_id
            assert second.headers["everwhen-delivery-id"] == delivery_id
            assert second.json["title"] == "[everwhen] FAILING broken: the last slot failed"
            until(lambda: "delivered" in run(tmp_path, server, "notify", "list").stdout)
            (alert,) = json.loads(
                run(tmp_path, server, "alerts", "list", "--schedule", "broken", "--json").stdout
            )
            assert (alert["class"], alert["schedule_id"]) == ("schedule.failing", "broken")
            assert "acknowledged" in run(tmp_path, server, "alerts", "ack", str(alert["id"])).stdout
            listed = run(tmp_path, server, "alerts", "list").stdout
            assert "acknowledged" in listed
            assert "the last slot failed" in listed
            said = run(tmp_path, server, "alerts", "silence", "broken", "--for", "2h").stdout
            assert said.startswith("alerts of schedule broken are held until")
            good = run(tmp_path, server, "notify", "test", "pager")
            assert (good.returncode, good.stdout.strip()) == (0, "pager: delivered: HTTP 200")
            server.answer = status(404, "gone")
            for more in ((), ("--json",)):
                bad = run(tmp_path, server, "notify", "test", *more)
                assert bad.returncode == 1
                assert "gone" in bad.stdout
