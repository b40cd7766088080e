"""Rows P and W6 with `dispatch: rq-chain`: no scheduler anywhere, only Valkey and two real RQ workers.

The schedules of this module are started at once and live side by side; each test looks at one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rq import Queue

from everwhen import recover_scheduled_jobs, start_scheduled_job
from everwhen.model.instants import SECOND
from everwhen.operations.schedules import pause_schedule
from tests.queues.rq_workers import ChainRuntime, chain_runtime
from tests.servers.valkey import ValkeyServer

GO_ON = ("steady", "slow", "selfish", "waiting")


@pytest.fixture(scope="module")
def runtime(valkey: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainRuntime]:
    valkey.flush()
    folder = tmp_path_factory.mktemp("chain")
    with chain_runtime(f"sqlite:///{folder}/a.db", valkey.url, folder) as runtime:
        runtime.add("steady")
        runtime.add("twice", total_repeats=2)
        runtime.add("broken", "fail", max_retries=2, retry_delay="1s", on_exhausted="stop")
        runtime.add("paused", first_run="after_interval")
        runtime.add("slow", "wait")
        runtime.add("selfish", "reschedule")
        runtime.add("waiting", every="24h", first_run="after_interval")
        for name in ("steady", "twice", "broken", "paused", "slow", "selfish"):
            assert start_scheduled_job(None, name)
        pause_schedule(runtime.runtime, "paused")
        for _ in range(2):
            runtime.worker()
        yield runtime
        runtime.go_file("slow").touch()
        for name in GO_ON:
            pause_schedule(runtime.runtime, name)
        runtime.until(lambda: all(runtime.state(name).outstanding == 0 for name in GO_ON))
        assert runtime.check().is_clean


def test_p1_each_run_is_a_one_shot_queue_job_that_enqueues_its_successor(runtime: ChainRuntime) -> None:
    runtime.until(lambda: runtime.succeeded("steady") >= 3)
    assert not any(node.is_scheduler for node in runtime.runtime.upkeep.nodes())  # no daemon
    runs = runtime.notes("steady")
    uid = runtime.state("steady").uid
    assert [job_id for job_id, *_ in runs] == [f"sched-{uid}-n{n}-rc0" for n in range(1, len(runs) + 1)]
    assert len({process for _, _, process, _ in runs}) == len(runs)  # RQ makes one for each job


def test_p2_the_chain_ends_when_paused_exhausted_or_after_too_many_failures(runtime: ChainRuntime) -> None:
    runtime.until(
        lambda: runtime.state("twice").status == "done" and runtime.state("broken").status == "dead"
    )
    runtime.until(lambda: not any(runtime.links(name) for name in ("twice", "broken", "paused")))
    assert [len(runtime.notes(name)) for name in ("twice", "broken", "paused")] == [2, 3, 0]


def test_p6_a_paused_job_stays_enqueued_and_does_nothing_when_it_fires(runtime: ChainRuntime) -> None:
    runtime.add("halted", first_run="after_interval")
    start_scheduled_job(None, "halted")
    state = pause_schedule(runtime.runtime, "halted")
    assert (state.status, state.next_run_at) == ("paused", None)
    assert len(runtime.links("halted")) == 1  # not removed
    runtime.until(lambda: not runtime.links("halted"))
    assert (runtime.jobs("halted"), runtime.notes("halted")) == ([], [])
    assert not start_scheduled_job(None, "halted")


def test_p7_a_run_still_going_skips_and_the_next_is_enqueued_at_the_normal_interval(
    runtime: ChainRuntime,
) -> None:
    runtime.until(lambda: "already_running" in runtime.reasons("slow"))
    runtime.until(lambda: runtime.state("slow").skip_count > 0)  # and so on: these are gathered (L5)
    assert len(runtime.notes("slow")) == 1
    runtime.go_file("slow").touch()
    runtime.until(lambda: runtime.succeeded("slow") >= 2)
    slots = [job.slot_at for job in runtime.jobs("slow")]
    assert all((slot - slots[0]) % (2 * SECOND) == 0 for slot in slots)


def test_p11_the_queue_id_is_made_of_the_schedule_the_run_and_the_retry(runtime: ChainRuntime) -> None:
    start_scheduled_job(None, "waiting")
    state = runtime.state("waiting")
    assert runtime.links("waiting") == [f"sched-{state.uid}-n1-rc0-at{state.next_run_at}"]


def test_p12_an_existing_id_makes_the_enqueue_a_no_op(runtime: ChainRuntime) -> None:
    start_scheduled_job(None, "waiting")
    before = runtime.links("waiting")
    assert [start_scheduled_job(None, "waiting") for _ in range(3)] == [False] * 3
    assert len(before) == 1 and runtime.links("waiting") == before


def test_p13_a_failed_run_is_enqueued_again_with_its_backoff(runtime: ChainRuntime) -> None:
    runtime.until(lambda: runtime.state("broken").status == "dead")
    first, *retries = [job for job in runtime.jobs("broken") if job.number == 1]
    assert [job.job_id[-3:] for job in (first, *retries)] == ["rc0", "rc1", "rc2"]
    before = (first, *retries)
    pauses = [job.not_before - last.ended_at for job, last in zip(retries, before, strict=False)]  # type: ignore[operator]
    assert pauses == [1 * SECOND, 2 * SECOND]
    assert all(job.started_at >= job.not_before for job in retries)  # type: ignore[operator]


def test_p14_recovery_starts_what_is_past_its_time_and_counts_it(
    valkey: ValkeyServer, tmp_path: Path
) -> None:
    with chain_runtime(f"sqlite:///{tmp_path}/a.db", valkey.url, tmp_path, queue="recovery") as runtime:
        for name in ("behind", "late", "paused", "over"):
            runtime.add(name, every="24h", total_repeats=1)
        runtime.add("ahead", every="24h", first_run="after_interval")
        pause_schedule(runtime.runtime, "paused")
        start_scheduled_job(None, "over")
        runtime.work_off()
        assert [recover_scheduled_jobs() for _ in range(3)] == [2, 0, 0]
        runtime.queue.lose_everything()
        assert [recover_scheduled_jobs(runtime.url) for _ in range(2)] == [2, 0]
        runtime.work_off()
        assert recover_scheduled_jobs() == 0
        names = ("behind", "late", "over", "paused", "ahead")
        assert [runtime.state(name).status for name in names] == ["done", "done", "done", "paused", "active"]
        assert [len(runtime.notes(name)) for name in names] == [1, 1, 1, 0, 0]
        assert runtime.check().is_clean


def test_w6_a_run_that_reschedules_itself_neither_corrupts_nor_duplicates_anything(
    runtime: ChainRuntime,
) -> None:
    runtime.until(lambda: runtime.succeeded("selfish") >= 3)
    runs = [(job_id, attempt) for job_id, attempt, *_ in runtime.notes("selfish")]
    uid = runtime.state("selfish").uid
    assert runs == [(f"sched-{uid}-n{number}-rc0", "1") for number in range(1, len(runs) + 1)]
    assert len(runtime.links("selfish")) <= 1


def test_w6_rq_itself_does_not_refuse_an_id_that_it_has(runtime: ChainRuntime) -> None:
    queue = Queue("plain", connection=runtime.queue.redis)
    for _ in range(2):
        queue.enqueue("time.time", job_id="same")
    assert queue.job_ids == ["same", "same"]
