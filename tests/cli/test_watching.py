"""What operators watch, asked of real processes: `everwhen up`, and `everwhen api` beside it."""

from __future__ import annotations

import hmac
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.request import Request, urlopen

from tests.cli.test_up import lines_until

CONFIG = """
schedules:
  - {id: tick, every: 1s, run: {command: ["true"]}}
agents:
  bot:
    command: [cat]
    schedules:
      on-push: {type: webhook, secret: "${PUSH_SECRET}", signature: github}
"""
SECRET = "only the processes know it"
PATIENCE = 60.0


@contextmanager
def running(folder: Path, command: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A process, and where its API is."""
    fields = [str(Path(sys.executable).parent / "everwhen"), command]
    environ = {**os.environ, "EVERWHEN_API_PORT": "0", "PUSH_SECRET": SECRET}
    with subprocess.Popen(fields, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True) as process:
        reading = threading.Thread(target=lambda: list(process.stderr or ()), daemon=True)
        try:
            line = lines_until(process.stderr, "API on", 1)[-1]
            reading.start()
            yield line.split()[2].removesuffix("/api/v1/,"), process
        finally:
            process.kill()
            if reading.ident is not None:
                reading.join()


def until(is_so: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.1)):
        if is_so():
            return
        waited.wait(0.1)
    raise AssertionError("it did not come to be")


def metric(url: str, name: str) -> float | None:
    with urlopen(f"{url}/metrics", timeout=PATIENCE) as answer:
        found = re.search(rf"^everwhen_{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else None


def is_above_zero(url: str, name: str) -> bool:
    return (metric(url, name) or 0) > 0


def test_a_node_and_an_api_beside_it_tell_how_it_stands(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG)
    with running(tmp_path, "up") as (node, process), running(tmp_path, "api") as (beside, other):
        fired = 'slots_total{outcome="fired",reason="schedule"}'
        for url in (node, beside):
            with urlopen(f"{url}/readyz", timeout=PATIENCE) as answer:
                assert answer.status == 200
            until(lambda url=url: is_above_zero(url, re.escape(fired)))  # type: ignore[misc]
        until(lambda: is_above_zero(node, re.escape('job_duration_seconds_count{status="succeeded"}')))
        assert is_above_zero(node, "loop_last_tick_timestamp_seconds")
        assert metric(beside, "loop_last_tick_timestamp_seconds") is None
        assert is_above_zero(beside, "scheduler_last_heartbeat_timestamp_seconds")
        for one in (other, process):
            one.send_signal(signal.SIGTERM)
            assert one.wait(PATIENCE) == 0


def test_a_hook_is_signed_with_what_the_environment_has(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG)
    with running(tmp_path, "up") as (url, _):
        body = b'{"ref": "main"}'
        mac = hmac.new(SECRET.encode(), body, sha256).hexdigest()
        headers = {"X-Hub-Signature-256": f"sha256={mac}", "Content-Type": "application/json"}
        with urlopen(Request(f"{url}/api/v1/hooks/bot.on-push", body, headers), timeout=PATIENCE) as answer:
            assert answer.status == 202
        until(lambda: is_above_zero(url, re.escape('jobs_total{origin="webhook"}')))
    assert SECRET.encode() not in (tmp_path / "everwhen.db").read_bytes()
