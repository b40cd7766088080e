"""`everwhen scheduler` and `everwhen worker` as real processes on one file."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from everwhen.store.opened import store_of
from everwhen.verify.ledger import check_ledger
from everwhen.wiring import open_stack
from tests.cli.test_up import lines_until
from tests.environment import without_settings

CONFIG = """
service: {database: "sqlite:///shared.db", shutdown_timeout: 2s}
schedules:
  - {id: tick, every: 1s, run: {command: [echo, tock]}}
  - {id: heavy, every: 1s, queue: heavy, run: {command: [echo, lifted]}}
"""
SLOW = """
service: {shutdown_timeout: 60s}
schedules:
  - {id: slow, every: 1h, run: {command: [sh, -c, "trap '' TERM; sleep 60"]}}
"""


def start(folder: Path, *fields: str) -> subprocess.Popen[str]:
    command = Path(sys.executable).parent / "everwhen"
    return subprocess.Popen(
        [command, *fields], cwd=folder, stderr=subprocess.PIPE, text=True, env=without_settings()
    )


def stop(process: subprocess.Popen[str]) -> list[str]:
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    lines = rest.splitlines()
    assert lines[-1] == "stopped"
    return lines


def test_workers_run_what_a_scheduler_fires_each_its_own_queue(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG)
    scheduler = start(tmp_path, "scheduler")
    assert (
        "everwhen scheduler: 2 schedules on sqlite:///shared.db (2 new)"
        in lines_until(scheduler.stderr, "Ctrl-C", 1)[-1]
    )
    external = tmp_path / "elsewhere"
    external.mkdir()
    light = start(tmp_path, "worker", "--queue", "default")
    heavy = start(external, "worker", "--queue", "heavy,gpu", "--database", f"sqlite:///{tmp_path}/shared.db")
    assert lines_until(heavy.stderr, "Ctrl-C", 1)[-1].startswith("everwhen worker of heavy, gpu on sqlite")
    lines_until(light.stderr, "succeeded  tock", 2)
    lines_until(heavy.stderr, "succeeded  lifted", 2)
    said = [stop(process) for process in (scheduler, light, heavy)]
    assert not any("started" in line for line in said[0])  # a scheduler runs nothing
    assert not any("heavy" in line for line in said[1])
    assert not any("tick" in line for line in said[2])
    stack = open_stack(f"sqlite:///{tmp_path}/shared.db")
    with store_of(stack.runtime).ledger.history() as history:
        assert check_ledger(history, stack.runtime.clock.now()).is_clean
    nodes = store_of(stack.runtime).upkeep.nodes()
    assert sorted(node.role for node in nodes) == ["scheduler", "worker", "worker"]
    assert all(node.stopped_at is not None for node in nodes)
    stack.close()


def test_a_scheduler_without_a_file_fires_what_the_database_holds(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG)
    first = start(tmp_path, "scheduler")
    lines_until(first.stderr, "Ctrl-C", 1)
    stop(first)
    (tmp_path / "everwhen.yaml").unlink()
    second = start(tmp_path, "scheduler", "--database", "sqlite:///shared.db")
    assert lines_until(second.stderr, "Ctrl-C", 1)[-1].startswith("everwhen scheduler on sqlite:///shared.db")
    worker = start(tmp_path, "worker", "--database", "sqlite:///shared.db")
    lines_until(worker.stderr, "succeeded  tock", 1)
    stop(worker)
    stop(second)


@pytest.mark.parametrize("role", ["up", "worker"])
def test_a_second_signal_kills_what_runs(tmp_path: Path, role: str) -> None:
    (tmp_path / "everwhen.yaml").write_text(SLOW)
    scheduler = start(tmp_path, "scheduler") if role == "worker" else None
    process = start(tmp_path, role)
    lines_until(process.stderr, "started", 1)
    process.send_signal(signal.SIGTERM)
    assert "waiting up to 60s for 1 running job" in lines_until(process.stderr, "stopping", 1)[-1]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 130
    if scheduler is not None:
        stop(scheduler)


def test_two_schedulers_that_start_at_once_apply_one_file(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG)
    schedulers = [start(tmp_path, "scheduler") for _ in range(3)]
    for scheduler in schedulers:
        lines_until(scheduler.stderr, "Ctrl-C", 1)
    for scheduler in schedulers:
        stop(scheduler)


def test_starting_with_a_file_that_drops_most_schedules_needs_a_yes(tmp_path: Path) -> None:
    many = [f"  - {{id: s{n}, every: 1h, run: {{command: [ls]}}}}" for n in range(12)]
    for ids, fields, is_up in ((many, [], True), (many[:1], [], False), (many[:1], ["--yes"], True)):
        (tmp_path / "everwhen.yaml").write_text("\n".join(["schedules:", *ids]))
        process = start(tmp_path, "scheduler", *fields)
        if is_up:
            lines_until(process.stderr, "Ctrl-C", 1)
            stop(process)
        else:
            _, said = process.communicate(timeout=60)
            assert process.returncode == 1 and "--yes" in said
