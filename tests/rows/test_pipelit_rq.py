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
from tests.queues.rq_workers import ChainHouse, chain_house
from tests.servers.valkey import ValkeyServer

GO_ON = ("steady", "slow", "selfish", "waiting")


@pytest.fixture(scope="module")
def house(valkey: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainHouse]:
    valkey.flush()
    folder = tmp_path_factory.mktemp("chain")
    with chain_house(f"sqlite:///{folder}/a.db", valkey.url, folder) as house:
        house.add("steady")
        house.add("twice", total_repeats=2)
        house.add("broken", "fail", max_retries=2, retry_delay="1s", on_exhausted="stop")
        house.add("paused", first_run="after_interval")
        house.add("slow", "wait")
        house.add("selfish", "reschedule")
        house.add("waiting", every="24h", first_run="after_interval")
        for name in ("steady", "twice", "broken", "paused", "slow", "selfish"):
            assert start_scheduled_job(None, name)
        pause_schedule(house.house, "paused")
        for _ in range(2):
            house.worker()
        yield house
        house.go_file("slow").touch()
        for name in GO_ON:
            pause_schedule(house.house, name)
        house.until(lambda: all(house.state(name).outstanding == 0 for name in GO_ON))
        assert house.check().is_clean


def test_p1_each_run_is_a_one_shot_queue_job_that_enqueues_its_successor(house: ChainHouse) -> None:
    house.until(lambda: house.succeeded("steady") >= 3)
    assert not any(node.is_scheduler for node in house.house.upkeep.nodes())  # no daemon
    runs = house.notes("steady")
    uid = house.state("steady").uid
    assert [job_id for job_id, *_ in runs] == [f"sched-{uid}-n{n}-rc0" for n in range(1, len(runs) + 1)]
    assert len({process for _, _, process, _ in runs}) == len(runs)  # RQ makes one for each job


def test_p2_the_chain_ends_when_paused_exhausted_or_after_too_many_failures(house: ChainHouse) -> None:
    house.until(lambda: house.state("twice").status == "done" and house.state("broken").status == "dead")
    house.until(lambda: not any(house.links(name) for name in ("twice", "broken", "paused")))
    assert [len(house.notes(name)) for name in ("twice", "broken", "paused")] == [2, 3, 0]


def test_p6_a_paused_job_stays_enqueued_and_does_nothing_when_it_fires(house: ChainHouse) -> None:
    house.add("halted", first_run="after_interval")
    start_scheduled_job(None, "halted")
    state = pause_schedule(house.house, "halted")
    assert (state.status, state.next_run_at) == ("paused", None)
    assert len(house.links("halted")) == 1  # not removed
    house.until(lambda: not house.links("halted"))
    assert (house.jobs("halted"), house.notes("halted")) == ([], [])
    assert not start_scheduled_job(None, "halted")


def test_p7_a_run_still_going_skips_and_the_next_is_enqueued_at_the_normal_interval(
    house: ChainHouse,
) -> None:
    house.until(lambda: "already_running" in house.reasons("slow"))
    house.until(lambda: house.state("slow").skip_count > 0)  # and so on: these are gathered (L5)
    assert len(house.notes("slow")) == 1
    house.go_file("slow").touch()
    house.until(lambda: house.succeeded("slow") >= 2)
    slots = [job.slot_at for job in house.jobs("slow")]
    assert all((slot - slots[0]) % (2 * SECOND) == 0 for slot in slots)


def test_p11_the_queue_id_is_made_of_the_schedule_the_run_and_the_retry(house: ChainHouse) -> None:
    start_scheduled_job(None, "waiting")
    state = house.state("waiting")
    assert house.links("waiting") == [f"sched-{state.uid}-n1-rc0-at{state.next_run_at}"]


def test_p12_an_existing_id_makes_the_enqueue_a_no_op(house: ChainHouse) -> None:
    start_scheduled_job(None, "waiting")
    before = house.links("waiting")
    assert [start_scheduled_job(None, "waiting") for _ in range(3)] == [False] * 3
    assert len(before) == 1 and house.links("waiting") == before


def test_p13_a_failed_run_is_enqueued_again_with_its_backoff(house: ChainHouse) -> None:
    house.until(lambda: house.state("broken").status == "dead")
    first, *retries = [job for job in house.jobs("broken") if job.number == 1]
    assert [job.job_id[-3:] for job in (first, *retries)] == ["rc0", "rc1", "rc2"]
    before = (first, *retries)
    pauses = [job.not_before - last.ended_at for job, last in zip(retries, before, strict=False)]  # type: ignore[operator]
    assert pauses == [1 * SECOND, 2 * SECOND]
    assert all(job.started_at >= job.not_before for job in retries)  # type: ignore[operator]


def test_p14_recovery_starts_what_is_past_its_time_and_counts_it(
    valkey: ValkeyServer, tmp_path: Path
) -> None:
    with chain_house(f"sqlite:///{tmp_path}/a.db", valkey.url, tmp_path, queue="recovery") as house:
        for name in ("behind", "late", "paused", "over"):
            house.add(name, every="24h", total_repeats=1)
        house.add("ahead", every="24h", first_run="after_interval")
        pause_schedule(house.house, "paused")
        start_scheduled_job(None, "over")
        house.work_off()
        assert [recover_scheduled_jobs() for _ in range(3)] == [2, 0, 0]
        house.queue.lose_everything()
        assert [recover_scheduled_jobs(house.url) for _ in range(2)] == [2, 0]
        house.work_off()
        assert recover_scheduled_jobs() == 0
        names = ("behind", "late", "over", "paused", "ahead")
        assert [house.state(name).status for name in names] == ["done", "done", "done", "paused", "active"]
        assert [len(house.notes(name)) for name in names] == [1, 1, 1, 0, 0]
        assert house.check().is_clean


def test_w6_a_run_that_reschedules_itself_neither_corrupts_nor_duplicates_anything(house: ChainHouse) -> None:
    house.until(lambda: house.succeeded("selfish") >= 3)
    runs = [(job_id, attempt) for job_id, attempt, *_ in house.notes("selfish")]
    uid = house.state("selfish").uid
    assert runs == [(f"sched-{uid}-n{number}-rc0", "1") for number in range(1, len(runs) + 1)]
    assert len(house.links("selfish")) <= 1


def test_w6_rq_itself_does_not_refuse_an_id_that_it_has(house: ChainHouse) -> None:
    queue = Queue("plain", connection=house.queue.redis)
    for _ in range(2):
        queue.enqueue("time.time", job_id="same")
    assert queue.job_ids == ["same", "same"]
