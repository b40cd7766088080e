"""A real process is killed in the middle of a restore: what is there is the old database, or the whole new one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from everwhen.clock import SystemClock
from everwhen.model.instants import to_datetime
from tests.conformance.tenant import Tenant
from tests.restore.places import Place

# Ends itself as kill -9 would, when that function has begun, or has done its work.
PROGRAM = """
import os, signal, sys
from importlib import import_module
_, module, name, when, path, url = sys.argv
module = import_module(module)
work = getattr(module, name)
def killed(*given, **words):
    if when == "after":
        work(*given, **words)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(module, name, killed)
from everwhen.wiring import restore_database
from pathlib import Path
restore_database(url, Path(path))
"""


def kill(place: Place, module: str, name: str, when: str) -> None:
    command = [sys.executable, "-c", PROGRAM, module, name, when, str(place.backup), place.url]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL


def backed_up(place: Place) -> list[object]:
    runtime = place.move_in()
    runtime.add("a", every="1m")
    runtime.step()
    place.back_up(runtime)
    runtime.wait_and_step("1m")
    runtime.run()
    everything = runtime.everything()
    place.leave(runtime)
    return everything


def opened(place: Place) -> Tenant:
    place.clock.set(to_datetime(SystemClock().now()))  # the program had no other
    return place.move_in("node-9")


@pytest.mark.parametrize(("name", "when"), [("_make_ready", "after"), ("_is_ours", "before")])
def test_before_its_last_step_a_file_is_the_old_one(sqlite_place: Place, name: str, when: str) -> None:
    everything = backed_up(sqlite_place)
    kill(sqlite_place, "everwhen.store.sqlite.restore", name, when)
    runtime = opened(sqlite_place)
    assert runtime.everything() == everything
    runtime.close()


def test_with_its_last_step_a_file_is_the_whole_new_one(sqlite_place: Place) -> None:
    backed_up(sqlite_place)
    kill(sqlite_place, "everwhen.store.sqlite.restore", "_put_in_place", "after")
    assert not Path(f"{sqlite_place.url.removeprefix('sqlite:///')}-wal").exists()
    runtime = opened(sqlite_place)
    assert [event.type for event in runtime.events(None, "system.restored")] == ["system.restored"]
    assert runtime.state("a").fire_count == 1_000_001
    assert runtime.check().is_clean, runtime.check()
    runtime.close()


@pytest.mark.parametrize("name", ["_fill", "go_on_from_backup"])
def test_before_its_commit_a_database_is_the_old_one(postgres_place: Place, name: str) -> None:
    everything = backed_up(postgres_place)
    kill(postgres_place, "everwhen.store.postgres.restore", name, "after")
    runtime = opened(postgres_place)
    assert runtime.everything() == everything
    runtime.close()
