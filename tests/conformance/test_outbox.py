"""The outbox: jobs on their way to a queue, of which nothing gets lost, doubled or out of order."""

from __future__ import annotations

import threading
from datetime import UTC
from typing import Any

from everwhen.model.claim import ClaimedJob
from everwhen.model.delivery import Delivery
from everwhen.model.instants import SECOND
from everwhen.model.message import MESSAGE
from everwhen.model.schedule import Target
from everwhen.operations.jobs import backfill
from everwhen.operations.why import why
from tests.conformance.tenant import FAILED, Tenant, clock_of

PATIENCE = 30 * SECOND
AGENT: dict[str, Any] = {"group": "reviewer", "max_concurrent": 1}


def send(house: Tenant, limit: int = 500) -> list[Delivery]:
    return house.house.outbox.hand_over(house.now, limit=limit, until=house.now + PATIENCE)


def take(house: Tenant, delivery: Delivery) -> ClaimedJob | None:
    return house.house.outbox.take(house.now, node=house.node, job_id=delivery.job_id, number=delivery.number)


def taken(house: Tenant, delivery: Delivery) -> ClaimedJob:
    claimed = take(house, delivery)
    assert claimed is not None
    return claimed


def overdue(house: Tenant) -> list[Delivery]:
    return house.house.outbox.overdue(house.now, limit=100)


def fire(house: Tenant, times: int, every: str = "1m") -> None:
    house.step()
    for _ in range(times - 1):
        house.wait_and_step(every)


# -- handing over --


def test_a_ready_job_goes_once_and_its_message_says_which_queue_and_for_how_long(house: Tenant) -> None:
    house.add("a", every="24h", queue="heavy", timeout="90s")
    house.add("b", every="24h", timeout="0s")
    house.step()
    a, b = send(house)
    (job,) = house.jobs("a")
    assert a == Delivery(job.job_id, 1, "heavy", house.now, 90.0)
    assert (b.queue, b.seconds) == ("default", None)
    assert send(house) == [] == house.claim()
    assert house.house.outbox.on_its_way(job.job_id) == a._replace(seconds=None)


def test_what_a_message_brings_is_claimed_and_settled_as_ever(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (delivery,) = send(house)
    claimed = taken(house, delivery)
    assert (claimed.job.status, claimed.job.attempt, claimed.job.node) == ("running", 1, house.node)
    assert house.state("a").running_jobs == 1
    assert house.house.outbox.on_its_way(delivery.job_id) is None
    assert house.settle(claimed) == 1
    assert house.statuses("a") == ["succeeded"]


def test_a_message_that_comes_twice_is_taken_once(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (delivery,) = send(house)
    other = house.neighbour()
    claimed = taken(house, delivery)
    assert take(other, delivery) is None
    house.settle(claimed)
    assert take(other, delivery) is None
    assert [job.attempt for job in house.jobs("a")] == [1]


def test_a_message_about_nothing_is_dropped(house: Tenant) -> None:
    assert take(house, Delivery("sched-unknown-n1-rc0", 1, "default", 0)) is None


def test_two_dispatchers_hand_each_job_over_once(house: Tenant) -> None:
    house.add_many([f"s{n}" for n in range(40)], every="24h")
    house.step()
    nodes = [house, house.neighbour("node-2"), house.neighbour("node-3")]
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
    sent += send(house)  # one that was overtaken thrice gives up for now
    assert sorted(d.job_id for d in sent) == sorted(job.job_id for job in house.jobs())


def test_o4_of_a_capacity_no_more_go_than_may_run(house: Tenant) -> None:
    for name in "abc":
        house.add(f"reviewer.{name}", every="24h", if_running="queue", **AGENT)
    house.add("free", every="24h")
    house.step()
    first = send(house)
    assert sorted(house.job(d.job_id).schedule_id for d in first) == ["free", "reviewer.a"]
    claimed = [taken(house, delivery) for delivery in first]
    assert send(house) == []
    house.settle(*claimed)
    (second,) = send(house)
    assert house.job(second.job_id).schedule_id == "reviewer.b"


def test_o4_a_thousand_that_wait_for_a_place_do_not_hide_the_one_behind_them(house: Tenant) -> None:
    house.add_many([f"reviewer.{n}" for n in range(60)], every="24h", if_running="queue", **AGENT)
    house.step()
    house.add("free", every="24h")
    house.step()
    assert [len(send(house, limit=5)) for _ in range(3)] == [1, 1, 0]


def test_o1_of_a_line_one_goes_and_the_next_when_it_has_ended(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    fire(house, 3)
    order = []
    while given := send(house):
        (delivery,) = given
        claimed = taken(house, delivery)
        order.append(clock_of(claimed.job.slot_at))
        assert send(house) == []
        house.settle(claimed)
    assert order == ["08:00:00", "08:01:00", "08:02:00"]


def test_o1_those_that_may_overlap_go_side_by_side(house: Tenant) -> None:
    house.add("a", every="1m", if_running="allow")
    fire(house, 3)
    assert len(send(house)) == 3


def test_x3_a_backfill_in_line_goes_one_by_one(house: Tenant) -> None:
    house.add("a", cron="0 * * * *")
    house.wait("4h")
    house.step()
    house.run()
    day = house.clock.moment.replace(hour=0, minute=0)
    house.pause("a")
    house.resume("a")
    house.wait("2h")
    start, end = day.replace(hour=8, tzinfo=UTC), day.replace(hour=12, tzinfo=UTC)
    backfill(house.house, "a", start, end)
    order = []
    while given := send(house):
        (delivery,) = given
        claimed = taken(house, delivery)
        order.append(claimed.job.slot_at)
        house.settle(claimed)
    assert order == sorted(order) and len(order) >= 2


def test_x8_nothing_goes_while_the_system_is_paused_and_what_arrives_is_put_back(house: Tenant) -> None:
    house.add("a", every="24h")
    house.add("b", every="24h")
    house.step()
    (delivery,) = send(house, limit=1)
    house.pause_system()
    assert send(house) == []
    assert take(house, delivery) is None
    house.resume_system()
    again = send(house)
    assert sorted((d.job_id, d.number) for d in again) == sorted(
        (job.job_id, 2 if job.job_id == delivery.job_id else 1) for job in house.jobs()
    )


def test_r6_a_retry_waits_for_its_breaker_before_it_goes(house: Tenant) -> None:
    words: dict[str, Any] = {"max_retries": 9, "retry_delay": "10s"}
    house.add("a", every="24h", circuit_breaker={"threshold": 1, "reset_after": "30m"}, **words)
    house.step()
    house.settle(taken(house, send(house)[0]), outcome=FAILED)
    house.wait("10s")
    assert send(house) == []
    house.wait("30m")
    (probe,) = send(house)
    assert taken(house, probe).job.is_probe


def test_o4_a_job_that_finds_no_place_after_all_is_handed_over_again(house: Tenant) -> None:
    house.add("reviewer.a", every="24h", if_running="queue", **AGENT)
    house.step()
    (delivery,) = send(house)
    house.add("reviewer.b", every="24h", if_running="queue", **AGENT)
    house.step()
    (ahead,) = house.claim()  # by a worker of ours, who knows nothing of queues
    assert ahead.job.schedule_id == "reviewer.b"
    assert take(house, delivery) is None
    assert send(house) == []
    house.settle(ahead)
    (again,) = send(house)
    assert (again.job_id, again.number) == (delivery.job_id, 2)
    assert take(house, delivery) is None
    house.settle(taken(house, again))
    assert house.statuses("reviewer.a") == ["succeeded"]


def test_jobs_of_programs_and_messages_never_go(house: Tenant) -> None:
    house.add("bound", every="24h", queue="default@shop")
    house.add("said", every="24h", target=Target(MESSAGE, '{"text": "hello"}'), **AGENT)
    house.step()
    assert send(house) == []
    assert house.statuses("bound") == ["queued"]


# -- looking after --


def test_a_job_that_nobody_took_is_overdue_and_goes_again_when_its_message_is_gone(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (delivery,) = send(house)
    assert overdue(house) == []
    house.wait("31s")
    (late,) = overdue(house)
    assert late == delivery._replace(seconds=None)
    assert house.house.outbox.put_back(house.now, [late]) == 1
    (again,) = send(house)
    assert (again.job_id, again.number, again.message_id) == (
        delivery.job_id,
        2,
        f"{delivery.job_id}-d2",
    )
    assert take(house, delivery) is None
    assert (taken(house, again).job.attempt, house.job(again.job_id).rescues) == (1, 0)


def test_a_message_that_waits_is_looked_after_later(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (delivery,) = send(house)
    house.wait("31s")
    until = house.now + 60 * SECOND
    house.house.outbox.leave([(delivery, until)])
    assert (overdue(house), house.house.outbox.next_at(house.now)) == ([], until)
    house.wait("60s")
    assert len(overdue(house)) == 1
    taken(house, delivery)  # it was only slow


def test_what_was_taken_meanwhile_is_neither_put_back_nor_left_nor_failed(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (delivery,) = send(house)
    house.wait("31s")
    claimed = taken(house, delivery)
    outbox = house.house.outbox
    assert outbox.put_back(house.now, [delivery]) == 0
    assert outbox.count_failed(house.now, [(delivery, "too late")]) == 0
    outbox.leave([(delivery, house.now + SECOND)])
    outbox.withdrawn([delivery])
    assert house.settle(claimed) == 1
    assert (house.events("a", "job.lost"), send(house)) == ([], [])


def test_r8_a_worker_that_fails_before_the_job_begins_is_a_rescue_and_the_fourth_is_lost(
    house: Tenant,
) -> None:
    house.add("a", every="24h", on_lost="fail")
    house.step()
    for number in range(1, 5):
        (delivery,) = send(house)
        assert delivery.number == number
        assert house.house.outbox.count_failed(house.now, [(delivery, "No module named 'shop'")]) == 1
    (job,) = house.jobs("a")
    assert (job.status, job.rescues, job.error) == ("lost", 3, "No module named 'shop'")
    state = house.state("a")
    assert (state.error_count, state.outstanding, state.running_jobs) == (1, 0, 0)
    assert len(house.events("a", "job.lost")) == 4
    assert [event.detail["began"] for event in house.events("a", "job.rescued")] == [False] * 3


def test_r8_a_rescued_job_goes_as_the_next_message_and_the_old_one_is_dropped(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (first,) = send(house)
    claimed = taken(house, first)
    house.wait("31s")
    other = house.neighbour()
    assert other.rescue() == 1
    assert take(other, first) is None
    (second,) = send(other)
    again = taken(other, second)
    assert (second.number, again.job.attempt, again.job.rescues) == (2, 2, 1)
    assert house.settle(claimed) == 0
    assert other.settle(again) == 1


# -- withdrawing --


def test_a_cancelled_job_takes_its_message_back_and_lets_the_next_go(house: Tenant) -> None:
    house.add("a", every="1m", if_running="queue")
    fire(house, 2)
    (delivery,) = send(house)
    house.cancel(delivery.job_id)
    assert house.house.outbox.to_withdraw(limit=10) == [delivery._replace(seconds=None)]
    assert take(house, delivery) is None
    house.house.outbox.withdrawn([delivery])
    assert house.house.outbox.to_withdraw(limit=10) == []
    (after,) = send(house)
    assert house.job(after.job_id).number == 2


def test_x1_a_pause_takes_the_messages_of_queued_jobs_back(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (delivery,) = send(house)
    house.pause("a")
    assert [d.job_id for d in house.house.outbox.to_withdraw(limit=10)] == [delivery.job_id]
    assert take(house, delivery) is None


def test_a_job_that_a_worker_of_ours_took_after_all_needs_no_message(house: Tenant) -> None:
    house.add("a", every="24h")
    house.step()
    (delivery,) = send(house)
    house.wait("31s")  # dispatch was set to local, and nobody looks after it any more
    (claimed,) = house.claim()
    assert take(house, delivery) is None
    assert house.house.outbox.to_withdraw(limit=10) == []  # should it be rescued, it may go again
    assert house.settle(claimed) == 1
    assert [d.job_id for d in house.house.outbox.to_withdraw(limit=10)] == [delivery.job_id]
    house.house.outbox.withdrawn([delivery])
    assert house.house.outbox.to_withdraw(limit=10) == []


# -- telling --


def test_l3_why_says_in_which_queue_a_job_waits_and_since_when(house: Tenant) -> None:
    house.add("a", every="24h", queue="heavy")
    house.step()
    assert "its job waits (" in why(house.house, "a").sentence
    send(house)
    told = why(house.house, "a").sentence
    assert 'its job waits for a worker of the queue "heavy", which has it since' in told
    house.wait("31s")
    house.house.outbox.put_back(house.now, overdue(house))
    (again,) = send(house)
    assert "(message 2)" in why(house.house, "a").sentence
    taken(house, again)
    assert "its job is running" in why(house.house, "a").sentence
