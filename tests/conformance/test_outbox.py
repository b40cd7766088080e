"""The outbox: jobs on their way to a queue are not lost, doubled or reordered."""

from __future__ import annotations

import threading
from datetime import UTC
from typing import Any

from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import SECOND
from everwhen.model.message import MESSAGE
from everwhen.model.queue import Delivery
from everwhen.model.schedule import Target
from everwhen.operations.jobs import backfill
from everwhen.operations.why import why
from tests.conformance.tenant import FAILED, Tenant, clock_of

PATIENCE = 30 * SECOND
AGENT: dict[str, Any] = {"group": "reviewer", "max_concurrent": 1}


def send(runtime: Tenant, limit: int = 500) -> list[Delivery]:
    return runtime.runtime.outbox.hand_over(runtime.now, limit=limit, until=runtime.now + PATIENCE)


def take(runtime: Tenant, delivery: Delivery) -> ClaimedJob | None:
    return runtime.runtime.outbox.take(
        runtime.now, node=runtime.node, job_id=delivery.job_id, number=delivery.number
    )


def taken(runtime: Tenant, delivery: Delivery) -> ClaimedJob:
    claimed = take(runtime, delivery)
    assert claimed is not None
    return claimed


def overdue(runtime: Tenant) -> list[Delivery]:
    return runtime.runtime.outbox.overdue(runtime.now, limit=100)


def fire(runtime: Tenant, times: int, every: str = "1m") -> None:
    runtime.step()
    for _ in range(times - 1):
        runtime.wait_and_step(every)


# -- handing over --


def test_a_ready_job_goes_once_and_its_message_says_which_queue_and_for_how_long(runtime: Tenant) -> None:
    runtime.add("a", every="24h", queue="heavy", timeout="90s")
    runtime.add("b", every="24h", timeout="0s")
    runtime.step()
    a, b = send(runtime)
    (job,) = runtime.jobs("a")
    assert a == Delivery(job.job_id, 1, "heavy", runtime.now, 90.0)
    assert (b.queue, b.seconds) == ("default", None)
    assert send(runtime) == [] == runtime.claim()
    assert runtime.runtime.outbox.on_its_way(job.job_id) == a._replace(seconds=None)


def test_what_a_message_brings_is_claimed_and_settled_as_ever(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (delivery,) = send(runtime)
    claimed = taken(runtime, delivery)
    assert (claimed.job.status, claimed.job.attempt, claimed.job.node) == ("running", 1, runtime.node)
    assert runtime.state("a").running_jobs == 1
    assert runtime.runtime.outbox.on_its_way(delivery.job_id) is None
    assert runtime.settle(claimed) == 1
    assert runtime.statuses("a") == ["succeeded"]


def test_a_message_that_comes_twice_is_taken_once(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (delivery,) = send(runtime)
    other = runtime.neighbour()
    claimed = taken(runtime, delivery)
    assert take(other, delivery) is None
    runtime.settle(claimed)
    assert take(other, delivery) is None
    assert [job.attempt for job in runtime.jobs("a")] == [1]


def test_a_message_about_nothing_is_dropped(runtime: Tenant) -> None:
    assert take(runtime, Delivery("sched-unknown-n1-rc0", 1, "default", 0)) is None


def test_two_dispatchers_hand_each_job_over_once(runtime: Tenant) -> None:
    runtime.add_many([f"s{n}" for n in range(40)], every="24h")
    runtime.step()
    nodes = [runtime, runtime.neighbour("node-2"), runtime.neighbour("node-3")]
    sent: list[Delivery] = []
    guard = threading.Lock()

    def dispatch(node: Tenant) -> None:
        while given := send(node, limit=7):
            with guard:
                sent.extend(given)

    threads = [threading.Thread(target=dispatch, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    sent += send(runtime)  # a process that was overtaken three times gives up for now
    assert sorted(d.job_id for d in sent) == sorted(job.job_id for job in runtime.jobs())


def test_o4_of_a_capacity_no_more_go_than_may_run(runtime: Tenant) -> None:
    for name in "abc":
        runtime.add(f"reviewer.{name}", every="24h", if_running="queue", **AGENT)
    runtime.add("free", every="24h")
    runtime.step()
    first = send(runtime)
    assert sorted(runtime.job(d.job_id).schedule_id for d in first) == ["free", "reviewer.a"]
    claimed = [taken(runtime, delivery) for delivery in first]
    assert send(runtime) == []
    runtime.settle(*claimed)
    (second,) = send(runtime)
    assert runtime.job(second.job_id).schedule_id == "reviewer.b"


def test_o4_a_thousand_that_wait_for_a_place_do_not_hide_the_one_behind_them(runtime: Tenant) -> None:
    runtime.add_many([f"reviewer.{n}" for n in range(60)], every="24h", if_running="queue", **AGENT)
    runtime.step()
    runtime.add("free", every="24h")
    runtime.step()
    assert [len(send(runtime, limit=5)) for _ in range(2)] == [2, 0]


def test_o1_of_a_line_one_goes_and_the_next_when_it_has_ended(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    fire(runtime, 3)
    order = []
    while given := send(runtime):
        (delivery,) = given
        claimed = taken(runtime, delivery)
        order.append(clock_of(claimed.job.slot_at))
        assert send(runtime) == []
        runtime.settle(claimed)
    assert order == ["08:00:00", "08:01:00", "08:02:00"]


def test_o1_those_that_may_overlap_go_side_by_side(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="allow")
    fire(runtime, 3)
    assert len(send(runtime)) == 3


def test_x3_a_backfill_in_line_goes_one_by_one(runtime: Tenant) -> None:
    runtime.add("a", cron="0 * * * *")
    runtime.wait("4h")
    runtime.step()
    runtime.run()
    day = runtime.clock.moment.replace(hour=0, minute=0)
    runtime.pause("a")
    runtime.resume("a")
    runtime.wait("2h")
    start, end = day.replace(hour=8, tzinfo=UTC), day.replace(hour=12, tzinfo=UTC)
    backfill(runtime.runtime, "a", start, end)
    order = []
    while given := send(runtime):
        (delivery,) = given
        claimed = taken(runtime, delivery)
        order.append(claimed.job.slot_at)
        runtime.settle(claimed)
    assert order == sorted(order) and len(order) >= 2


def test_x8_nothing_goes_while_the_system_is_paused_and_what_arrives_is_put_back(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.add("b", every="24h")
    runtime.step()
    (delivery,) = send(runtime, limit=1)
    runtime.pause_system()
    assert send(runtime) == []
    assert take(runtime, delivery) is None
    runtime.resume_system()
    again = send(runtime)
    assert sorted((d.job_id, d.number) for d in again) == sorted(
        (job.job_id, 2 if job.job_id == delivery.job_id else 1) for job in runtime.jobs()
    )


def test_r6_a_retry_waits_for_its_breaker_before_it_goes(runtime: Tenant) -> None:
    fields: dict[str, Any] = {"max_retries": 9, "retry_delay": "10s"}
    runtime.add("a", every="24h", circuit_breaker={"threshold": 1, "reset_after": "30m"}, **fields)
    runtime.step()
    runtime.settle(taken(runtime, send(runtime)[0]), outcome=FAILED)
    runtime.wait("10s")
    assert send(runtime) == []
    runtime.wait("30m")
    (probe,) = send(runtime)
    assert taken(runtime, probe).job.is_probe


def test_o4_a_job_that_finds_no_place_after_all_is_handed_over_again(runtime: Tenant) -> None:
    runtime.add("reviewer.a", every="24h", if_running="queue", **AGENT)
    runtime.step()
    (delivery,) = send(runtime)
    runtime.add("reviewer.b", every="24h", if_running="queue", **AGENT)
    runtime.step()
    (ahead,) = runtime.claim()  # by one of our own workers, which ignores queues
    assert ahead.job.schedule_id == "reviewer.b"
    assert take(runtime, delivery) is None
    assert send(runtime) == []
    runtime.settle(ahead)
    (again,) = send(runtime)
    assert (again.job_id, again.number) == (delivery.job_id, 2)
    assert take(runtime, delivery) is None
    runtime.settle(taken(runtime, again))
    assert runtime.statuses("reviewer.a") == ["succeeded"]


def test_jobs_of_programs_and_messages_never_go(runtime: Tenant) -> None:
    runtime.add("bound", every="24h", bound_to="shop")
    runtime.add("said", every="24h", target=Target(MESSAGE, '{"text": "hello"}'), **AGENT)
    runtime.step()
    assert send(runtime) == []
    assert runtime.statuses("bound") == ["queued"]


# -- overdue messages --


def test_a_job_that_nobody_took_is_overdue_and_goes_again_when_its_message_is_gone(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (delivery,) = send(runtime)
    assert overdue(runtime) == []
    runtime.wait("31s")
    (late,) = overdue(runtime)
    assert late == delivery._replace(seconds=None)
    assert runtime.runtime.outbox.put_back(runtime.now, [late]) == 1
    (again,) = send(runtime)
    assert (again.job_id, again.number, again.message_id) == (
        delivery.job_id,
        2,
        f"{delivery.job_id}-d2",
    )
    assert take(runtime, delivery) is None
    assert (taken(runtime, again).job.attempt, runtime.job(again.job_id).rescues) == (1, 0)


def test_a_message_that_waits_is_looked_after_later(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (delivery,) = send(runtime)
    runtime.wait("31s")
    until = runtime.now + 60 * SECOND
    runtime.runtime.outbox.leave([(delivery, until)])
    assert (overdue(runtime), runtime.runtime.outbox.next_at(runtime.now)) == ([], until)
    runtime.wait("60s")
    assert len(overdue(runtime)) == 1
    taken(runtime, delivery)  # it was only slow


def test_what_was_taken_meanwhile_is_neither_put_back_nor_left_nor_failed(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (delivery,) = send(runtime)
    runtime.wait("31s")
    claimed = taken(runtime, delivery)
    outbox = runtime.runtime.outbox
    assert outbox.put_back(runtime.now, [delivery]) == 0
    assert outbox.count_failed(runtime.now, [(delivery, "too late")]) == 0
    outbox.leave([(delivery, runtime.now + SECOND)])
    outbox.withdrawn([delivery])
    assert runtime.settle(claimed) == 1
    assert (runtime.events("a", "job.lost"), send(runtime)) == ([], [])


def test_r8_a_worker_that_fails_before_the_job_begins_is_a_rescue_and_the_fourth_is_lost(
    runtime: Tenant,
) -> None:
    runtime.add("a", every="24h", on_lost="fail")
    runtime.step()
    for number in range(1, 5):
        (delivery,) = send(runtime)
        assert delivery.number == number
        assert runtime.runtime.outbox.count_failed(runtime.now, [(delivery, "No module named 'shop'")]) == 1
    (job,) = runtime.jobs("a")
    assert (job.status, job.rescues, job.error) == ("lost", 3, "No module named 'shop'")
    state = runtime.state("a")
    assert (state.error_count, state.outstanding, state.running_jobs) == (1, 0, 0)
    assert len(runtime.events("a", "job.lost")) == 4
    assert [event.detail["began"] for event in runtime.events("a", "job.rescued")] == [False] * 3


def test_r8_a_rescued_job_goes_as_the_next_message_and_the_old_one_is_dropped(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (first,) = send(runtime)
    claimed = taken(runtime, first)
    runtime.wait("31s")
    other = runtime.neighbour()
    assert other.rescue() == 1
    assert take(other, first) is None
    (second,) = send(other)
    again = taken(other, second)
    assert (second.number, again.job.attempt, again.job.rescues) == (2, 2, 1)
    assert runtime.settle(claimed) == 0
    assert other.settle(again) == 1


# -- withdrawing --


def test_a_cancelled_job_takes_its_message_back_and_lets_the_next_go(runtime: Tenant) -> None:
    runtime.add("a", every="1m", if_running="queue")
    fire(runtime, 2)
    (delivery,) = send(runtime)
    runtime.cancel(delivery.job_id)
    assert runtime.runtime.outbox.to_withdraw(limit=10) == [delivery._replace(seconds=None)]
    assert take(runtime, delivery) is None
    runtime.runtime.outbox.withdrawn([delivery])
    assert runtime.runtime.outbox.to_withdraw(limit=10) == []
    (after,) = send(runtime)
    assert runtime.job(after.job_id).number == 2


def test_x1_a_pause_takes_the_messages_of_queued_jobs_back(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (delivery,) = send(runtime)
    runtime.pause("a")
    assert [d.job_id for d in runtime.runtime.outbox.to_withdraw(limit=10)] == [delivery.job_id]
    assert take(runtime, delivery) is None


def test_a_job_that_a_worker_of_ours_took_after_all_needs_no_message(runtime: Tenant) -> None:
    runtime.add("a", every="24h")
    runtime.step()
    (delivery,) = send(runtime)
    runtime.wait("31s")  # dispatch was set to local, and no dispatcher looks after it any more
    (claimed,) = runtime.claim()
    assert take(runtime, delivery) is None
    assert runtime.runtime.outbox.to_withdraw(limit=10) == []  # if it is rescued, it may be sent again
    assert runtime.settle(claimed) == 1
    assert [d.job_id for d in runtime.runtime.outbox.to_withdraw(limit=10)] == [delivery.job_id]
    runtime.runtime.outbox.withdrawn([delivery])
    assert runtime.runtime.outbox.to_withdraw(limit=10) == []


# -- why --


def test_l3_why_says_in_which_queue_a_job_waits_and_since_when(runtime: Tenant) -> None:
    runtime.add("a", every="24h", queue="heavy")
    runtime.step()
    assert "its job waits (" in why(runtime.runtime, "a").sentence
    send(runtime)
    reported = why(runtime.runtime, "a").sentence
    assert 'its job waits for a worker of the queue "heavy", which has it since' in reported
    runtime.wait("31s")
    runtime.runtime.outbox.put_back(runtime.now, overdue(runtime))
    (again,) = send(runtime)
    assert "(message 2)" in why(runtime.runtime, "a").sentence
    taken(runtime, again)
    assert "its job is running" in why(runtime.runtime, "a").sentence
