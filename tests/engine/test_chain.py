"""The chain: what a link decides, which links follow, and that none of it can be lost or doubled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everwhen.engine.chain import Chain, ChainWatch
from everwhen.engine.job_runner import JobRunner
from everwhen.errors import QueueError, UnknownScheduleError
from everwhen.model.instants import MINUTE, SECOND
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.queue import Link
from everwhen.operations import schedules as operations
from everwhen.queues.rq import RqLinks
from everwhen.target import Run
from everwhen.testing.manual import ManualClock
from everwhen.timetable.interval import parse_seconds
from tests.conformance.stores import STORES, StoreKind
from tests.conformance.tenant import FAILED, LEASE, START, Tenant
from tests.queues.links_at_hand import LinksAtHand


class Outcomes:
    """A target that ends as it is told to, and has done before what it is told to do."""

    def __init__(self) -> None:
        self.outcome = SUCCEEDED
        self.meanwhile: Any = None
        self.ran: list[str] = []

    def run(self, _spec: str, run: Run) -> Outcome:
        self.ran.append(run.job_id)
        if self.meanwhile is not None:
            self.meanwhile()
        return self.outcome


class Chained:
    """Schedules that live by links alone, in a time that passes by hand."""

    def __init__(self, tenant: Tenant, url: str) -> None:
        self.tenant = tenant
        self.target = Outcomes()
        self.links = RqLinks(url)
        self.queue = LinksAtHand(url)
        self.chain = Chain(tenant.runtime, self.links)
        self.watch = ChainWatch(tenant.runtime, self.links)

    def close(self) -> None:
        self.links.close()
        self.queue.close()

    def add(self, schedule_id: str = "a", **fields: Any) -> str:
        return self.tenant.add(schedule_id, **{"every": "60s", "max_retries": 3, **fields}).uid

    def job_runner(self) -> JobRunner:
        return JobRunner(self.tenant.runtime, {"command": self.target}, lease=LEASE / SECOND)

    def execute(self, schedule_id: str, uid: str | None = None, at: int = 0) -> int:
        return self.chain.execute(self.job_runner(), schedule_id, uid, at)

    def recover(self) -> int:
        return self.chain.recover(self.job_runner())

    def hand_out(self) -> list[str]:
        return self.queue.hand_out(self.tenant.now, self.execute)

    def go_on(self, duration: str) -> list[str]:
        """Time passes, and what comes due is handed out."""
        done: list[str] = []
        for _ in range(parse_seconds(duration)):
            self.tenant.wait("1s")
            done += self.hand_out()
        return done


@pytest.fixture(
    params=STORES[1:3],
    ids=lambda kind: kind.name,
)
def chained(request: pytest.FixtureRequest, tmp_path: Path, valkey_url: str) -> Iterator[Chained]:
    kind: StoreKind = request.param
    site = kind.lay_out(tmp_path, None if kind.server is None else request.getfixturevalue(kind.server))
    tenant = Tenant(site, kind.capabilities, ManualClock(START))
    chained = Chained(tenant, valkey_url)
    yield chained
    chained.close()
    report = tenant.check()
    tenant.close()
    site.close()
    assert report.is_clean, report


def test_a_link_runs_its_slot_and_has_put_the_next_one_in_before(chained: Chained) -> None:
    uid = chained.add()
    seen: list[list[str]] = []
    chained.target.meanwhile = lambda: seen.append(chained.queue.ids)
    assert chained.chain.start("a")
    (first,) = chained.queue.ids
    assert first == f"sched-{uid}-n1-rc0-at{chained.tenant.now}"
    assert chained.hand_out() == [first]
    (second,) = chained.queue.ids
    assert second == f"sched-{uid}-n2-rc0-at{chained.tenant.now + MINUTE}"
    assert seen == [[second]]
    assert chained.tenant.statuses("a") == ["succeeded"]
    assert chained.go_on("2m") == [second, f"sched-{uid}-n3-rc0-at{chained.tenant.now}"]
    assert chained.tenant.statuses("a") == ["succeeded"] * 3


def test_nobody_is_left_in_the_table_of_nodes(chained: Chained) -> None:
    chained.add()
    chained.chain.start("a")
    chained.go_on("3m")
    nodes = [node.node for node in chained.tenant.runtime.upkeep.nodes()]
    assert nodes == [chained.tenant.node]


def test_starting_twice_puts_one_link_in(chained: Chained) -> None:
    chained.add()
    assert [chained.chain.start("a") for _ in range(3)] == [True, False, False]
    assert len(chained.queue.ids) == 1


def test_a_schedule_that_is_not_there_cannot_be_started_or_executed(chained: Chained) -> None:
    with pytest.raises(UnknownScheduleError):
        chained.chain.start("nobody")
    with pytest.raises(UnknownScheduleError):
        chained.execute("nobody")


def test_the_chain_ends_when_repeats_are_exhausted(chained: Chained) -> None:
    chained.add(total_repeats=2)
    chained.chain.start("a")
    chained.go_on("5m")
    assert chained.tenant.state("a").status == "done"
    assert (chained.tenant.statuses("a"), chained.queue.ids) == (["succeeded"] * 2, [])


def test_failures_are_retried_by_links_of_their_own_and_too_many_end_the_chain(chained: Chained) -> None:
    uid = chained.add(retry_delay="10s", max_retries=2, on_exhausted="stop")
    chained.target.outcome = FAILED
    chained.chain.start("a")
    done = chained.go_on("2m")
    retries = [name.partition("-at")[0] for name in done if "-rc0" not in name]
    assert retries == [f"sched-{uid}-n1-rc1", f"sched-{uid}-n1-rc2"]
    assert chained.tenant.state("a").status == "dead"
    assert chained.tenant.statuses("a") == ["failed"] * 3
    assert chained.queue.ids == []  # the link of the next slot was there, and did nothing


def test_a_paused_schedule_keeps_its_link_which_does_nothing(chained: Chained) -> None:
    chained.add()
    chained.chain.start("a")
    chained.hand_out()
    chained.tenant.pause("a")
    assert len(chained.queue.ids) == 1
    assert len(chained.go_on("5m")) == 1
    assert (chained.tenant.statuses("a"), chained.queue.ids) == (["succeeded"], [])
    assert not chained.chain.start("a")
    chained.tenant.resume("a")
    assert chained.chain.start("a")
    assert chained.queue.times() == [chained.tenant.now + MINUTE]
    chained.go_on("1m")
    assert chained.tenant.statuses("a") == ["succeeded"] * 2


def test_a_pause_with_an_end_is_ended_by_the_link_that_found_it(chained: Chained) -> None:
    chained.add()
    chained.chain.start("a")
    chained.hand_out()
    until = chained.tenant.now + 3 * MINUTE
    operations.pause_schedule(chained.tenant.runtime, "a", until=until)
    chained.go_on("1m")
    assert chained.queue.times() == [until]
    chained.go_on("3m")
    assert chained.tenant.statuses("a") == ["succeeded"] * 2


def test_a_deleted_schedule_leaves_a_link_that_does_nothing(chained: Chained) -> None:
    chained.add()
    chained.chain.start("a")
    chained.hand_out()
    chained.tenant.delete("a")
    chained.add("a", first_run="after_interval")  # the same id, and another uid
    assert len(chained.go_on("1m")) == 1
    assert chained.tenant.statuses("a") == ["succeeded"]
    assert chained.queue.ids == []


def test_a_run_still_going_skips_the_slot_and_the_link_after_it_comes_at_the_interval(
    chained: Chained,
) -> None:
    uid = chained.add()

    def another_worker() -> None:
        chained.target.meanwhile = None
        chained.go_on("1m")

    chained.target.meanwhile = another_worker
    chained.chain.start("a")
    chained.hand_out()
    assert chained.tenant.reasons("a") == ["already_running"]
    assert chained.queue.ids == [f"sched-{uid}-n2-rc0-at{chained.tenant.now + MINUTE}"]
    chained.go_on("1m")
    assert chained.tenant.statuses("a") == ["succeeded"] * 2


def test_what_was_queued_meanwhile_is_run_after_its_predecessor(chained: Chained) -> None:
    chained.add(if_running="queue")

    def another_worker() -> None:
        chained.target.meanwhile = None
        chained.go_on("2m")

    chained.target.meanwhile = another_worker
    chained.chain.start("a")
    chained.hand_out()
    assert chained.tenant.statuses("a") == ["succeeded"] * 3
    assert len(chained.queue.ids) == 1


def test_a_link_with_more_work_than_time_makes_space_for_others(chained: Chained) -> None:
    """Else its worker would come neither to another schedule nor, told to stop, to its end."""
    uid = chained.add(every="10s", if_running="queue")

    def another_worker() -> None:
        chained.target.meanwhile = None
        chained.go_on("12s")

    chained.target.meanwhile = another_worker
    chained.chain.start("a")
    first, handed_on = chained.hand_out()
    assert first.startswith(f"sched-{uid}-n1-rc0-at")
    assert handed_on == f"sched-{uid}-n2-rc0-at{chained.tenant.now}"
    assert chained.tenant.statuses("a") == ["succeeded"] * 2
    assert len(chained.queue.ids) == 1


def test_links_of_a_schedule_with_more_work_than_time_do_not_pile_up(chained: Chained) -> None:
    chained.add(every="10s", if_running="queue", misfire_grace="1h")
    chained.target.meanwhile = lambda: chained.tenant.wait("14s")
    chained.chain.start("a")
    for count in range(1, 10):
        link = chained.queue.take(chained.tenant.now)
        assert link is not None
        assert chained.execute(*link.args[1:], **link.kwargs) == 1
        link.delete()
        assert len(chained.queue.ids) == len(chained.chain.wanted(chained.tenant.now, 10)) == 1
        assert chained.tenant.statuses("a").count("succeeded") == count


def test_a_link_does_not_wait_for_the_slot_of_another(chained: Chained) -> None:
    """Short intervals would have a second link in every worker, for ever."""
    chained.add(every="3s")
    chained.chain.start("a")
    chained.hand_out()
    chained.tenant.wait("1s")
    chained.tenant.trigger("a")
    chained.watch.step()
    assert len(chained.hand_out()) == 1  # time stands still: whoever waits, waits for ever
    assert chained.tenant.statuses("a") == ["succeeded"] * 2


def test_a_link_that_comes_early_waits_for_its_instant(chained: Chained) -> None:
    uid = chained.add(every="30s", first_run="after_interval")
    chained.tenant.wait("29s")
    chained.tenant.beat()
    waits = threading.Timer(0.05, lambda: chained.tenant.wait("1s"))
    waits.start()
    assert chained.execute("a", uid, chained.tenant.now + SECOND) == 1
    waits.join()


def test_by_hand_all_of_it_is_run(chained: Chained) -> None:
    uid = chained.add(if_running="queue")
    chained.target.meanwhile = lambda: chained.tenant.wait("10s")
    chained.tenant.runtime.slots.tick_one(chained.tenant.now, uid)
    chained.tenant.trigger("a")
    assert chained.execute("a") == 2
    assert [name for name in chained.queue.ids if f"{uid}-n1-" in name] == []


def test_a_redelivered_link_changes_nothing(chained: Chained) -> None:
    uid = chained.add()
    chained.chain.start("a")
    chained.hand_out()
    before, ids = chained.tenant.everything(), chained.queue.ids
    assert chained.execute("a", uid) == 0
    assert (chained.tenant.everything(), chained.queue.ids) == (before, ids)


def test_recovery_puts_in_what_a_queue_lost_once(chained: Chained) -> None:
    for name in ("a", "b", "paused"):
        chained.add(name)
    chained.tenant.pause("paused")
    chained.add("ahead", first_run="after_interval")
    for name in ("a", "b"):
        chained.chain.start(name)
    chained.queue.redis.flushall()
    assert [chained.recover(), chained.recover()] == [2, 0]
    assert len(chained.hand_out()) == 2
    assert [chained.tenant.statuses(name) for name in ("a", "b")] == [["succeeded"]] * 2
    assert len(chained.queue.ids) == 2


def test_a_link_that_died_before_it_decided_is_replaced_and_not_before(chained: Chained) -> None:
    chained.add()
    chained.chain.start("a")
    dead = chained.queue.take(chained.tenant.now)
    assert dead is not None
    chained.queue.fail(dead)
    assert [chained.recover(), chained.recover()] == [1, 0]
    (again,) = chained.queue.ids
    assert again.startswith(f"{dead.id}-again")
    chained.hand_out()
    assert chained.tenant.statuses("a") == ["succeeded"]


def test_a_link_that_a_worker_took_out_of_the_queue_and_lost_is_replaced(chained: Chained) -> None:
    chained.add()
    chained.chain.start("a")
    assert chained.recover() == 0
    chained.queue.redis.lpop(chained.queue.queue.key)  # its record still says that it is queued
    assert [chained.recover(), chained.recover()] == [1, 0]
    chained.hand_out()
    assert chained.tenant.statuses("a") == ["succeeded"]


def test_a_link_that_rqs_scheduler_does_not_hand_out_is_replaced(chained: Chained) -> None:
    chained.add(first_run="after_interval")
    chained.chain.start("a")
    chained.tenant.wait("62s")
    assert chained.recover() == 0
    chained.tenant.wait("5s")
    assert [chained.recover(), chained.recover()] == [1, 0]
    assert len(chained.queue.queue.job_ids) == 1  # in the queue itself
    assert len(chained.hand_out()) == 2
    assert chained.tenant.statuses("a") == ["succeeded"]


def test_what_a_dead_link_was_running_is_rescued_by_any_other_link(chained: Chained) -> None:
    chained.add("a", every="24h")
    chained.add("b", every="24h", first_run="after_interval", start_at=None)
    dead = chained.tenant.neighbour("dead")
    chained.tenant.runtime.slots.tick_one(chained.tenant.now, chained.tenant.state("a").uid)
    (claimed,) = dead.claim()
    chained.tenant.wait("31s")
    chained.tenant.beat()
    assert chained.execute("b") == 0
    (link,) = [name for name in chained.queue.ids if claimed.job.job_id in name]
    chained.hand_out()
    assert chained.target.ran == [claimed.job.job_id]
    assert chained.tenant.job(claimed.job.job_id).attempt == 2
    assert link.startswith(claimed.job.job_id)


def test_a_trigger_by_hand_is_run_by_a_link_that_the_watch_puts_in(chained: Chained) -> None:
    chained.add(first_run="after_interval")
    chained.tenant.pause("a")
    assert chained.watch.step() == 0
    chained.tenant.trigger("a")
    assert [chained.watch.step() for _ in range(3)] == [1, 0, 0]
    chained.hand_out()
    assert [(job.origin, job.status) for job in chained.tenant.jobs("a")] == [("manual", "succeeded")]


def test_the_watch_puts_links_in_ahead_of_time_and_again_when_they_were_lost(chained: Chained) -> None:
    chained.add(first_run="after_interval")
    assert chained.watch.step() == 0
    chained.tenant.wait("50s")
    assert [chained.watch.step() for _ in range(3)] == [1, 0, 0]
    assert chained.queue.times() == [chained.tenant.now + 10 * SECOND]
    chained.queue.redis.flushall()
    chained.tenant.wait("12s")
    assert chained.watch.step() == 0  # it may just be late
    chained.tenant.wait("1s")
    assert chained.watch.step() == 1
    chained.hand_out()
    assert chained.tenant.statuses("a") == ["succeeded"]


def test_the_watch_leaves_a_job_to_the_run_that_fired_it(chained: Chained) -> None:
    uid = chained.add(every="1h")
    chained.tenant.runtime.slots.tick_one(chained.tenant.now, uid)
    assert chained.watch.step() == 0
    chained.tenant.wait("3s")  # nobody has begun it
    assert chained.watch.step() == 1
    chained.hand_out()
    assert chained.tenant.statuses("a") == ["succeeded"]


def test_a_held_slot_has_a_link_for_its_release(chained: Chained) -> None:
    chained.add("a", every="24h", group="g", max_concurrent=1)
    chained.add("b", every="24h", group="g", max_concurrent=1)

    def another_worker() -> None:
        chained.target.meanwhile = None
        chained.execute("b")
        assert chained.tenant.state("b").held_reason == "at_capacity"

    chained.target.meanwhile = another_worker
    chained.chain.start("a")
    chained.hand_out()
    assert chained.tenant.statuses("b") == ["succeeded"]


def test_a_slot_deferred_by_quiet_hours_has_a_link_for_the_opening(chained: Chained) -> None:
    chained.tenant.put_quiet_hours("07:00-08:10")
    chained.add(every="1h", quiet_hours="nights")
    chained.chain.start("a")
    chained.hand_out()
    assert chained.tenant.state("a").held_reason == "quiet_hours"
    chained.go_on("10m")
    assert chained.tenant.statuses("a") == ["succeeded"]


def test_a_job_without_a_place_is_tried_again_a_little_later(chained: Chained) -> None:
    chained.add("a", group="g", max_concurrent=1, if_running="queue", every="24h")
    chained.add("b", group="g", max_concurrent=1, if_running="queue", every="24h")
    chained.tenant.runtime.slots.tick_one(chained.tenant.now, chained.tenant.state("a").uid)
    running = chained.tenant.claim()
    assert chained.execute("b") == 0
    assert chained.tenant.statuses("b") == ["queued"]
    assert min(chained.queue.times()) == chained.tenant.now + 5 * SECOND
    chained.go_on("10s")
    assert chained.tenant.statuses("b") == ["queued"]
    chained.tenant.settle(*running)
    chained.go_on("5s")
    assert chained.tenant.statuses("b") == ["succeeded"]


def test_while_the_system_is_paused_links_come_again_and_decide_nothing(chained: Chained) -> None:
    chained.add()
    chained.chain.start("a")
    chained.tenant.pause_system()
    done = chained.go_on("1m")
    assert 5 <= len(done) <= 14 and chained.tenant.jobs() == []
    chained.tenant.resume_system()
    chained.go_on("80s")
    assert chained.tenant.statuses("a") == ["succeeded"]
    assert len(chained.queue.ids) == 1


class Unreachable:
    """A queue that is away for a while."""

    def __init__(self, links: RqLinks, times: int) -> None:
        self.links, self.times = links, times

    def put(self, link: Link, now: int) -> bool:
        if self.times:
            self.times -= 1
            raise QueueError("away")
        return self.links.put(link, now)

    def ping(self) -> None: ...

    def close(self) -> None: ...


def test_a_queue_that_is_away_keeps_no_work_from_being_done(chained: Chained) -> None:
    chained.add()
    chained.chain = Chain(chained.tenant.runtime, Unreachable(chained.links, 3))
    assert chained.execute("a") == 1
    assert chained.tenant.statuses("a") == ["succeeded"]
    assert chained.queue.times() == [chained.tenant.now + MINUTE]
