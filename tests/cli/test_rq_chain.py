"""The command line with `dispatch: rq-chain`: a watch over schedules that go on by themselves, and nothing more."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from everwhen.cli.node_resources import watching
from everwhen.config.settings import Settings
from everwhen.operations.jobs import trigger_schedule
from everwhen.operations.schedules import pause_schedule
from tests.cli.test_up import lines_until
from tests.queues.rq_workers import ChainRuntime, chain_runtime
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


def start(runtime: ChainRuntime, role: str, *schedules: str) -> subprocess.Popen[str]:
    fixed = 'every: 2s, misfire_grace: 60s, run: {python: "tests.queues.work:note"}'
    lines = [
        f'  - {{id: {name}, {fixed}, payload: {{file: "{runtime.folder}/{name}.notes"}}}}'
        for name in schedules
    ]
    (runtime.folder / "everwhen.yaml").write_text("\n".join(["schedules:", *lines] if lines else ["{}"]))
    return subprocess.Popen(
        [EVERWHEN, role],
        cwd=runtime.folder,
        env=runtime.environ,
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
    with chain_runtime(f"sqlite:///{tmp_path}/a.db", valkey.url, tmp_path) as runtime:
        up = start(runtime, "up", "a", "b")
        try:
            worker = runtime.worker()
            lines_until(up.stderr, "RQ advances the schedules", 1)
            runtime.until(lambda: runtime.succeeded("a") >= 1 and runtime.succeeded("b") >= 1)
            valkey.flush()  # every link is gone, and nobody calls for a recovery
            counts = {name: runtime.succeeded(name) for name in "ab"}
            runtime.until(lambda: all(runtime.succeeded(name) > counts[name] + 1 for name in "ab"))
            assert {by for name in "ab" for *_, by in runtime.notes(name)} == {str(worker.pid)}
            for name in "ab":
                pause_schedule(runtime.runtime, name)
            runtime.until(lambda: not any(runtime.state(name).outstanding for name in "ab"))
            assert runtime.check().is_clean
            stop(up)
        finally:
            end(up)


def test_an_api_alone_watches_over_chains_too(valkey: ValkeyServer, tmp_path: Path) -> None:
    valkey.flush()
    with chain_runtime(f"sqlite:///{tmp_path}/a.db", valkey.url, tmp_path, queue="watched") as runtime:
        with watching(runtime.stack, Settings(dispatch="rq-chain", redis=valkey.url)):
            runtime.add("a", every="24h")
            runtime.until(lambda: len(runtime.links("a")) == 1)
            runtime.add("later", every="24h", first_run="after_interval")
            trigger_schedule(runtime.runtime, "later")
            runtime.until(lambda: len(runtime.links("later")) == 1)
        runtime.work_off()
        assert [len(runtime.notes(name)) for name in ("a", "later")] == [1, 1]
