"""Chains whose workers are killed and whose queue loses everything: they go on, and nothing is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen import recover_scheduled_jobs, start_scheduled_job
from everwhen.model.instants import SECOND
from everwhen.operations.schedules import pause_schedule
from tests.crash.nodes import fate
from tests.queues.rq_workers import ChainRuntime, chain_runtime
from tests.servers.valkey import ValkeyServer


@pytest.fixture(params=["sqlite", "postgres"])
def runtime(request: pytest.FixtureRequest, valkey: ValkeyServer, tmp_path: Path) -> Iterator[ChainRuntime]:
    url = f"sqlite:///{tmp_path}/a.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    valkey.flush()
    with chain_runtime(url, valkey.url, tmp_path, lease="4s") as runtime:
        yield runtime


def test_a_chain_survives_its_killed_worker_and_a_queue_that_forgot_everything(
    runtime: ChainRuntime, valkey: ValkeyServer
) -> None:
    workers = {worker.pid: worker for worker in (runtime.worker(), runtime.worker())}
    runtime.add("a", "wait")
    start_scheduled_job(None, "a")
    runtime.until(lambda: len(runtime.notes("a")) == 1)
    ((first, _, horse, worker),) = runtime.notes("a")
    workers[int(worker)].kill(int(horse))
    runtime.go_file("a").touch()

    # The links that were in the queue go on, and one of them rescues what was running.
    runtime.until(lambda: runtime.succeeded("a") >= 2)
    attempts = [attempt for job_id, attempt, *_ in runtime.notes("a") if job_id == first]
    assert attempts == ["1", "2"]
    lost = [event for event in runtime.events("a") if event.type in ("job.lost", "job.rescued")]
    assert [event.job_id for event in lost] == [first, first]

    # It is past its time before long; or a link was under way, and puts the next one in by itself.
    count = runtime.succeeded("a")
    valkey.flush()
    runtime.until(lambda: recover_scheduled_jobs() == 1 or runtime.succeeded("a") >= count + 2)
    runtime.until(lambda: runtime.succeeded("a") >= count + 2)

    pause_schedule(runtime.runtime, "a")
    runtime.until(lambda: runtime.state("a").outstanding == 0)
    ran = [job_id for job_id, *_ in runtime.notes("a")]
    assert sorted(ran) == sorted([first, *(job.job_id for job in runtime.jobs("a"))])
    assert {job.status for job in runtime.jobs("a")} == {"succeeded"}
    assert runtime.check().is_clean


@pytest.mark.long
@pytest.mark.timeout(600)
def test_many_chains_under_a_rain_of_kills_and_losses_account_for_every_slot(
    runtime: ChainRuntime, valkey: ValkeyServer
) -> None:
    names = [f"s{number}" for number in range(12)]
    for name in names:
        runtime.add(name, every="3s", if_running="queue" if name[-1] in "02468" else "skip")
        start_scheduled_job(None, name)
    chance, workers = fate("rain on chains"), [runtime.worker() for _ in range(3)]
    pause, deadline = threading.Event(), time.monotonic() + 90
    kills = losses = 0
    while time.monotonic() < deadline:
        pause.wait(chance.uniform(0.5, 3))
        victim = chance.randrange(3)
        horses = [pid for pid in workers[victim].processes() if pid != workers[victim].pid]
        if chance.random() < 0.2:
            valkey.flush()
            losses += 1
        elif chance.random() < 0.5 and horses:
            workers[victim].strike(chance.choice(horses))
        else:
            workers[victim].end()
            workers[victim] = runtime.worker()
        kills += 1
        recover_scheduled_jobs()
    runtime.until(lambda: recover_scheduled_jobs() >= 0 and not _is_behind(runtime, names))
    for name in names:
        pause_schedule(runtime.runtime, name)
    runtime.until(
        lambda: recover_scheduled_jobs() >= 0 and not any(runtime.state(n).outstanding for n in names)
    )
    assert min(runtime.succeeded(name) for name in names) > 3
    assert kills > 20 and losses > 1
    assert runtime.check().is_clean
    for name in names:
        settled = {job.job_id for job in runtime.jobs(name) if job.status == "succeeded"}
        ran = {job_id for job_id, *_ in runtime.notes(name)}
        assert settled <= ran and ran <= {job.job_id for job in runtime.jobs(name)}


def _is_behind(runtime: ChainRuntime, names: list[str]) -> bool:
    now = runtime.runtime.clock.now()
    return any((runtime.state(name).next_run_at or 0) < now - 20 * SECOND for name in names)
