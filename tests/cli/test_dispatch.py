"""`service.dispatch`: what `up` and `worker` do when RQ or Celery carries the jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_nodes import start, stop
from tests.cli.test_up import lines_until
from tests.environment import without_settings

BIN = Path(sys.executable).parent
CONFIG = """
service: {{database: "sqlite:///carried.db", dispatch: {dispatch}, redis: "{url}", celery_broker: "{url}"}}
schedules:
  - {{id: hello, every: 1h, queue: heavy, run: {{command: [echo, hi]}}}}
"""


def run(folder: Path, *fields: str) -> subprocess.CompletedProcess[str]:
    environment = {**without_settings(), "EVERWHEN_CONFIG": str(folder / "everwhen.yaml")}
    return subprocess.run(
        [str(BIN / fields[0]), *fields[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.parametrize(
    "dispatch, command",
    [
        ("rq", "rq worker -c everwhen.queue_workers.rq"),
        ("celery", "celery -A everwhen.queue_workers.celery worker -Q"),
    ],
)
def test_a_worker_of_ours_says_which_worker_to_start_instead(
    tmp_path: Path, dispatch: str, command: str
) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG.format(dispatch=dispatch, url="redis://127.0.0.1:1/0"))
    done = run(tmp_path, "everwhen", "worker")
    assert done.returncode == 2
    assert f"service.dispatch is {dispatch}" in done.stderr and command in done.stderr
    assert not (tmp_path / "carried.db").exists()


@pytest.mark.parametrize("dispatch, role", [("rq", "scheduler"), ("rq-chain", "up")])
def test_a_database_in_memory_cannot_be_shared_with_workers(tmp_path: Path, dispatch: str, role: str) -> None:
    text = CONFIG.format(dispatch=dispatch, url="redis://127.0.0.1:1/0").replace(
        "sqlite:///carried.db", "sqlite://"
    )
    (tmp_path / "everwhen.yaml").write_text(text)
    done = run(tmp_path, "everwhen", role)
    assert done.returncode == 2
    assert "needs a database that its workers can open" in done.stderr


def test_a_broker_that_cannot_be_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG.format(dispatch="celery", url="pigeon://coop"))
    done = run(tmp_path, "everwhen", "scheduler")
    assert done.returncode == 1
    assert "service.celery_broker pigeon://coop is not the address" in done.stderr
    assert not (tmp_path / "carried.db").exists()


def test_a_chain_needs_no_scheduler_to_be_well(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG.format(dispatch="rq-chain", url="redis://127.0.0.1:1/0"))
    assert run(tmp_path, "everwhen", "db", "migrate").returncode == 0
    assert "no scheduler" not in run(tmp_path, "everwhen", "system", "status").stdout


def test_up_hands_jobs_to_rq_and_a_plain_worker_runs_them(tmp_path: Path, valkey_url: str) -> None:
    (tmp_path / "everwhen.yaml").write_text(CONFIG.format(dispatch="rq", url=valkey_url))
    up = start(tmp_path, "scheduler")
    assert "jobs are handed over to RQ" in lines_until(up.stderr, "jobs are", 1)[-1]

    def has_run() -> bool:
        done = run(tmp_path, "rq", "worker", "-c", "everwhen.queue_workers.rq", "--burst", "heavy")
        assert done.returncode == 0, done.stderr
        return "hi" in run(tmp_path, "everwhen", "jobs", "list").stdout

    tries = 0
    while not has_run():
        tries += 1
        assert tries < 20
    # RQ's workers are nodes only while they have a job; that none is seen does not mean that none is there.
    assert "alive and on time" in run(tmp_path, "everwhen", "system", "status").stdout
    stop(up)
    nodes = run(tmp_path, "everwhen", "system", "status", "--json")
    assert nodes.returncode == 1, nodes.stderr  # no scheduler runs any more
