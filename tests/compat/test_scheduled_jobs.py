"""Pipelit's functions without a queue, and what they do when there is nothing to work with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen import execute_scheduled_job, recover_scheduled_jobs, start_scheduled_job
from everwhen.errors import QueueError, StoreError, UnknownScheduleError
from everwhen.wiring import migrate_database
from tests.queues.rq_workers import ChainRuntime, chain_runtime
from tests.targets.running import until

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ChainRuntime]:
    with chain_runtime(f"sqlite:///{tmp_path}/a.db", NOBODY, tmp_path) as runtime:
        yield runtime
        assert runtime.check().is_clean


@pytest.fixture
def local(runtime: ChainRuntime, monkeypatch: pytest.MonkeyPatch) -> ChainRuntime:
    monkeypatch.setenv("EVERWHEN_DISPATCH", "local")
    return runtime


def test_without_a_queue_a_schedule_is_executed_here_and_now(local: ChainRuntime) -> None:
    local.add("a", every="24h")
    assert [execute_scheduled_job(local.url, "a") for _ in range(2)] == [1, 0]
    assert [job.status for job in local.jobs("a")] == ["succeeded"]
    assert len(local.notes("a")) == 1


def test_without_a_queue_starting_decides_what_is_due(local: ChainRuntime) -> None:
    local.add("a", every="24h")
    assert [start_scheduled_job(local.url, "a") for _ in range(2)] == [True, False]
    assert [job.status for job in local.jobs("a")] == ["queued"]
    assert execute_scheduled_job(local.url, "a") == 1


def test_a_schedule_or_a_database_that_is_not_there_is_named(local: ChainRuntime) -> None:
    for function in (start_scheduled_job, execute_scheduled_job):
        with pytest.raises(UnknownScheduleError):
            function(local.url, "nobody")
        with pytest.raises(StoreError, match="there is no database"):
            function("sqlite:///elsewhere.db", "a")
    # Seen from where this process happens to be, so that is told, too.
    with pytest.raises(StoreError, match=f"there is no database sqlite:///elsewhere.db in {Path.cwd()};"):
        recover_scheduled_jobs("sqlite:///elsewhere.db")


def test_a_queue_that_cannot_be_reached_is_named_by_starting_and_recovering(runtime: ChainRuntime) -> None:
    runtime.add("a", every="24h")
    with pytest.raises(QueueError, match=r"redis://127\.0\.0\.1:1/0 cannot be used"):
        start_scheduled_job(None, "a")
    with pytest.raises(QueueError):
        recover_scheduled_jobs()
    assert runtime.jobs("a") == []


def test_a_run_by_hand_does_not_wait_long_for_a_queue_that_is_away(
    runtime: ChainRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everwhen.engine.chain.PATIENCE_BY_HAND", 0.2)
    runtime.add("a", every="24h")
    assert execute_scheduled_job(None, "a") == 1
    assert [job.status for job in runtime.jobs("a")] == ["succeeded"]


def test_a_link_waits_for_a_database_that_is_away(
    local: ChainRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/later.db"
    ran: list[int] = []
    link = threading.Thread(target=lambda: ran.append(execute_scheduled_job(url, "a", uid="0" * 12)))
    link.start()
    until(lambda: "a link waits for the database" in caplog.text)
    migrate_database(url)
    until(lambda: not link.is_alive())
    assert ran == [0]  # the schedule is gone, and its link did nothing
