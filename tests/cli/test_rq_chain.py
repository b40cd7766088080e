"""The command line with `dispatch: rq-chain`: a watch over schedules that go on by themselves, and nothing more."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from everwhen.cli.chained import watching
from everwhen.config.settings import Settings
from everwhen.operations.firing import trigger_schedule
from everwhen.operations.schedules import pause_schedule
from tests.cli.test_up import lines_until
from tests.queues.rq_workers import ChainHouse, chain_house
from tests.servers.valkey import ValkeyServer

EVERWHEN = Path(sys.executable).parent / "everwhen"


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_roles_that_nobody_needs_say_what_to_start_instead(tmp_path: Path, role: str) -> None:
    (tmp_path / "everwhen.yaml").write_text("service: {dispatch: rq-chain}\n")
    done = subprocess.run(
        [EVERWHEN, role], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert f"there is no {role} to run" in done.stderr
    assert "rq worker --with-scheduler" in " ".join(done.stderr.split())
    assert not (tmp_path / "everwhen.db").exists()


def start(house: ChainHouse, role: str, *schedules: str) -> subprocess.Popen[str]:
    fixed = 'every: 2s, misfire_grace: 60s, run: {python: "tests.queues.work:note"}'
    lines = [
        f'  - {{id: {name}, {fixed}, payload: {{file: "{house.folder}/{name}.notes"}}}}' for name in schedules
    ]
    (house.folder / "everwhen.yaml").write_text("\n".join(["schedules:", *lines] if lines else ["{}"]))
    return subprocess.Popen(
        [EVERWHEN, role],
        cwd=house.folder,
        env=house.environ,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (0, "stopped")


def end(process: subprocess.Popen[str]) -> None:
    """Also where the test failed."""
    process.kill()
    process.communicate(timeout=60)


def test_up_starts_chains_watches_over_them_and_runs_nothing_itself(
    valkey: ValkeyServer, tmp_path: Path
) -> None:
    valkey.flush()
    with chain_house(f"sqlite:///{tmp_path}/a.db", valkey.url, tmp_path) as house:
        up = start(house, "up", "a", "b")
        try:
            worker = house.worker()
            lines_until(up.stderr, "schedules go on by RQ", 1)
            house.until(lambda: house.succeeded("a") >= 1 and house.succeeded("b") >= 1)
            valkey.flush()  # every link is gone, and nobody calls for a recovery
            counts = {name: house.succeeded(name) for name in "ab"}
            house.until(lambda: all(house.succeeded(name) > counts[name] + 1 for name in "ab"))
            assert {by for name in "ab" for *_, by in house.notes(name)} == {str(worker.pid)}
            for name in "ab":
                pause_schedule(house.house, name)
            house.until(lambda: not any(house.state(name).outstanding for name in "ab"))
            assert house.check().is_clean
            stop(up)
        finally:
            end(up)


def test_an_api_alone_watches_over_chains_too(valkey: ValkeyServer, tmp_path: Path) -> None:
    valkey.flush()
    with chain_house(f"sqlite:///{tmp_path}/a.db", valkey.url, tmp_path, queue="watched") as house:
        with watching(house.stack, Settings(dispatch="rq-chain", redis=valkey.url)):
            house.add("a", every="24h")
            house.until(lambda: len(house.links("a")) == 1)
            house.add("later", every="24h", first_run="after_interval")
            trigger_schedule(house.house, "later")
            house.until(lambda: len(house.links("later")) == 1)
        house.work_off()
        assert [len(house.notes(name)) for name in ("a", "later")] == [1, 1]
