"""Every queue, with the same expectations: order, outcomes, crashes of each side, a drain that waits."""

from __future__ import annotations

import pytest

from everwhen.model.instants import SECOND
from everwhen.model.queue import Delivery
from tests.conformance.queues.site import CELERY, LEASE, PATIENCE, RQ, QueueSite
from tests.targets.running import is_alive, until

# Our own workers claim jobs from the database, so there is no message to lose.
carried = pytest.mark.parametrize("running_site", [RQ, CELERY], indirect=True, ids=lambda kind: kind.name)


def mark(site: QueueSite, job_id: str) -> Delivery:
    """Mark the job, the first step of a dispatcher; a test that stops here has crashed it before its message.

    Other ready jobs (the poison, rescued once more) are dispatched as usual.
    """
    now = site.runtime.clock.now()
    given = site.runtime.outbox.hand_over(now, limit=100, until=now + int(LEASE * SECOND))
    if others := [delivery for delivery in given if delivery.job_id != job_id]:
        send(site, others)
    (marked,) = [delivery for delivery in given if delivery.job_id == job_id]
    return marked


def send(site: QueueSite, deliveries: list[Delivery]) -> None:
    queue = site.open_queue()
    assert queue is not None
    queue.put(deliveries)
    queue.close()


def test_o1_jobs_run_once_each_and_those_of_one_schedule_in_order(site: QueueSite) -> None:
    site.add("line", site.note("line"))
    site.add("beside", site.note("line"), if_running="allow")
    in_line = [site.fire("line") for _ in range(4)]
    beside = [site.fire("beside") for _ in range(2)]
    assert {job.status for job in site.ended(*in_line, *beside)} == {"succeeded"}
    ran = [job_id for job_id, _, _ in site.notes("line")]
    assert [job_id for job_id in ran if job_id in in_line] == in_line
    assert sorted(ran) == sorted(in_line + beside)


def test_r9_a_job_past_its_timeout_is_ended_with_its_processes(site: QueueSite) -> None:
    site.add("slow", site.note("slow", gate=True), timeout="1s")
    (job,) = site.ended(site.fire("slow"))
    assert (job.status, job.attempt) == ("timed_out", 1)
    ((_, _, pid),) = site.notes("slow")
    until(lambda: not is_alive(pid), PATIENCE)


def test_a_cancel_reaches_a_running_job(site: QueueSite) -> None:
    site.add("long", site.note("long", gate=True))
    job_id = site.fire("long")
    _, _, pid = site.begun("long")
    site.cancel(job_id)
    until(lambda: not is_alive(pid), PATIENCE)
    until(lambda: site.job(job_id).released_at is not None, PATIENCE)
    assert (site.job(job_id).status, len(site.notes("long"))) == ("cancelled", 1)


def test_a_job_that_was_cancelled_in_the_queue_never_runs(site: QueueSite) -> None:
    site.add("never", site.note("later"))
    site.add("behind", site.note("later"))
    with site.busy_worker("later"):
        never = site.fire("never")
        if site.kind.has_broker:
            until(lambda: site.on_its_way(never) is not None, PATIENCE)
        site.cancel(never)
        until(lambda: not site.runtime.outbox.to_withdraw(limit=10), PATIENCE)
        behind = site.fire("behind")
    site.ended(behind)
    assert [job_id for job_id, _, _ in site.notes("later")] == [behind]
    assert site.job(never).status == "cancelled"


def test_r8_a_job_whose_worker_was_killed_runs_again_elsewhere(site: QueueSite) -> None:
    site.add("killed", site.note("killed", gate=True))
    job_id = site.fire("killed")
    _, _, pid = site.begun("killed")
    site.end_worker("default")
    until(lambda: not is_alive(pid), PATIENCE)  # its guardian ends it
    site.open_gate("killed")
    site.start_worker("default")
    (job,) = site.ended(job_id)
    assert (job.status, job.attempt, job.rescues) == ("succeeded", 2, 1)
    assert [attempt for _, attempt, _ in site.notes("killed")] == [1, 2]


@carried
def test_a_message_that_comes_twice_runs_its_job_once(site: QueueSite) -> None:
    site.add("twice", site.note("twice"))
    site.add("after", site.note("twice"))
    with site.busy_worker("twice"):
        site.stop_scheduler()
        job_id = site.fire("twice")
        delivery = mark(site, job_id)
        send(site, [delivery])
        again = delivery._replace(number=9)  # a new id for the queue, an unknown number for the claim
        send(site, [delivery, again])
        after = site.fire("after")
        send(site, [mark(site, after)])
    site.ended(job_id, after)
    send(site, [delivery])  # and once more when the job is over
    site.start_scheduler()
    then = site.fire("after")
    site.ended(then)
    ran = [(job, attempt) for job, attempt, _ in site.notes("twice")]
    assert ran == [(job_id, 1), (after, 1), (then, 1)]


@carried
def test_a_dispatcher_that_dies_before_its_message_loses_nothing(site: QueueSite) -> None:
    site.stop_scheduler()
    site.add("unsent", site.note("unsent"))
    job_id = site.fire("unsent")
    assert mark(site, job_id).number == 1
    site.start_scheduler()
    (job,) = site.ended(job_id)
    assert (job.status, job.attempt, job.rescues) == ("succeeded", 1, 0)
    assert len(site.notes("unsent")) == 1


@carried
def test_a_dispatcher_that_dies_after_its_message_doubles_nothing(site: QueueSite) -> None:
    site.stop_scheduler()
    site.add("sent", site.note("sent"))
    job_id = site.fire("sent")
    send(site, [mark(site, job_id)])
    site.ended(job_id)
    site.start_scheduler()
    site.add("then", site.note("sent"))
    then = site.fire("then")
    site.ended(then)
    assert [(job, attempt) for job, attempt, _ in site.notes("sent")] == [(job_id, 1), (then, 1)]


@carried
def test_a_broker_that_restarts_with_its_data_changes_nothing(site: QueueSite) -> None:
    assert site.broker is not None
    site.add("kept", site.note("kept"), if_running="allow")
    with site.busy_worker("kept"):
        jobs = [site.fire("kept") for _ in range(3)]
        until(lambda: all(site.on_its_way(job_id) for job_id in jobs), PATIENCE)
        site.broker.kill()
        site.broker.start()
    assert {(job.status, job.attempt) for job in site.ended(*jobs, is_supervised=True)} == {("succeeded", 1)}
    assert sorted(job for job, _, _ in site.notes("kept")) == sorted(jobs)


@carried
def test_a_broker_that_loses_its_data_loses_no_job(site: QueueSite) -> None:
    assert site.broker is not None
    site.add("flushed", site.note("flushed"), if_running="allow")
    with site.busy_worker("flushed"):
        jobs = [site.fire("flushed") for _ in range(3)]
        until(lambda: all(site.on_its_way(job_id) for job_id in jobs), PATIENCE)
        site.broker.flush()
    ended = site.ended(*jobs)
    assert {(job.status, job.attempt, job.rescues) for job in ended} == {("succeeded", 1, 0)}
    assert sorted(job for job, _, _ in site.notes("flushed")) == sorted(jobs)


@carried
def test_jobs_wait_while_the_broker_is_away_and_go_when_it_is_back(site: QueueSite) -> None:
    assert site.broker is not None
    site.broker.kill()
    site.add("patient", site.note("patient"))
    job_id = site.fire("patient")
    # It may be marked as handed over, if the dispatcher asked the broker a moment before it was killed.
    assert (site.job(job_id).status, site.notes("patient")) == ("queued", [])
    site.broker.start()
    (job,) = site.ended(job_id, is_supervised=True)
    assert (job.status, job.attempt, len(site.notes("patient"))) == ("succeeded", 1, 1)


def test_r8_a_job_that_kills_its_workers_ends_lost(site: QueueSite) -> None:
    """The job was fired when the site was opened, because four leases take time."""
    (job,) = site.ended(site.poison())
    assert (job.status, job.attempt, job.rescues) == ("lost", 4, 3)


def test_g1_a_worker_that_is_asked_to_stop_ends_its_job_first(site: QueueSite) -> None:
    site.add("draining", site.note("draining", gate=True))
    job_id = site.fire("draining")
    site.begun("draining")
    worker = site.workers["default"]
    worker.terminate()
    behind = site.fire("draining")
    assert not worker.has_ended
    site.open_gate("draining")
    (job,) = site.ended(job_id)
    until(lambda: worker.has_ended, PATIENCE)
    assert (job.status, job.attempt, site.job(behind).status) == ("succeeded", 1, "queued")
    site.cancel(behind)
