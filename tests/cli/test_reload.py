"""Reloading a service that runs: SIGHUP, `--watch`, `everwhen config reload`."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everwhen.decide.check_ledger import check_ledger
from everwhen.wiring import open_stack
from tests.cli.test_up import lines_until

COMMAND = Path(sys.executable).parent / "everwhen"
FIRST = "schedules: [{id: first, every: 1s, run: {command: [echo, one]}}]"
SECOND = """
schedules:
- {id: first, every: 1s, run: {command: [echo, two]}}
- {id: second, every: 1s, run: {command: [ls]}}
"""


def replace(folder: Path, text: str) -> None:
    """As editors do it: another file is renamed over the old one."""
    (folder / "new").write_text(text)
    (folder / "new").rename(folder / "everwhen.yaml")


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    replace(folder, FIRST)
    process = subprocess.Popen([COMMAND, "up", *words], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        lines_until(process.stderr, "succeeded", 1)
        yield process
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert rest.splitlines()[-1] == "stopped"
    finally:
        process.kill()
    stack = open_stack(f"sqlite:///{folder}/everwhen.db")
    with stack.house.ledger.history() as history:
        assert check_ledger(history, stack.house.clock.now()).is_clean
    stack.close()


@pytest.mark.parametrize("way", ["SIGHUP", "watch", "command"])
def test_a_running_service_takes_a_new_file(tmp_path: Path, way: str) -> None:
    with running(tmp_path, *(["--watch"] if way == "watch" else [])) as process:
        replace(tmp_path, SECOND)
        if way == "SIGHUP":
            process.send_signal(signal.SIGHUP)
        if way == "command":
            words = [str(COMMAND), "config", "reload"]
            done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
            assert done.stderr == "reloaded: 1 new, 1 changed\n"
        else:
            seen = lines_until(process.stderr, "reloaded", 1)
            assert seen[-1] == "reloaded: 1 new, 1 changed\n"
        lines_until(process.stderr, "second", 1)
        assert any("two" in line for line in lines_until(process.stderr, "first", 4))


def test_a_bad_file_is_refused_and_the_old_one_goes_on(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        replace(tmp_path, FIRST.replace("every: 1s", "every: 5x"))
        process.send_signal(signal.SIGHUP)
        seen = lines_until(process.stderr, "reload refused", 1)
        seen += lines_until(process.stderr, "everwhen.yaml:1", 1)
        assert 'schedules[0].every: Invalid time unit "x"' in seen[-1]
        lines_until(process.stderr, "succeeded", 2)


def test_settings_that_need_a_start_are_named(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        replace(tmp_path, f"service: {{max_workers: 3}}\n{FIRST}")
        process.send_signal(signal.SIGHUP)
        seen = lines_until(process.stderr, "reloaded: nothing changed", 1)
        assert "service.max_workers changed: it takes effect at the next start\n" in seen


def test_plugins_of_the_file_run(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "config" / "sample" / "plugins", tmp_path / "plugins")
    with running(tmp_path) as process:
        plugin = "plugins: {withings: {config: {token_file: t}, schedule: {every: 1s}}}"
        replace(tmp_path, f"{FIRST}\n{plugin}")
        process.send_signal(signal.SIGHUP)
        lines_until(process.stderr, "reloaded: 1 new", 1)
        seen = lines_until(process.stderr, "withings.default", 2)
        assert "succeeded" in seen[-1]
