"""The previous release beside this one: a database that is taken over, and processes of both on one database.

Release 0.2 is taken from the history (`tests/servers/previous_release.py`). Its processes are the commands that its
users start; so are those of this release.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everwhen.wiring import is_postgres
from tests.crash.nodes import opened
from tests.crash.two_releases import LEASE, TwoReleases, now, two_releases
from tests.crash.witness import install_witness, witnessed_peaks
from tests.proof.schedules import (
    MOST_OUTSTANDING,
    MOST_RUNNING,
    WORK,
    configuration,
    submission,
    submissions,
)
from tests.servers.previous_release import install_previous_release
from tests.submissions import create_schedule

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

SLOWER = 2
ONE_SHOTS = 20.0  # seconds from the start in which one-shots are due
COUNTERS = "fire_count, run_count, error_count, current_repeat"
HELD = "SELECT held_slot_at, held_reason, fire_count FROM schedules WHERE schedule_id = 'held'"


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_previous_release(tmp_path_factory.mktemp("previous"))


@pytest.fixture
def releases(url: str, tmp_path: Path, previous: Path) -> Iterator[TwoReleases]:
    with two_releases(url, tmp_path, previous) as releases:
        yield releases


def declare(releases: TwoReleases, *more: dict[str, Any]) -> None:
    """Write a file with the schedules of the proof, in words that release 0.2 knows, and further ones."""
    fields = configuration(now(), releases.folder, ONE_SHOTS, service={}, slower=SLOWER)
    fields["budgets"] = {"asker": {"fires_per_hour": 400}}
    closed = f"{now() - timedelta(minutes=5):%H:%M}-{now() + timedelta(hours=3):%H:%M}"
    fields["quiet_hours"]["for-hours"] = {"windows": [{"between": closed}], "action": "defer"}
    releases.write_file(fields | {"schedules": [*fields["schedules"], *more]})


def work(schedule_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": schedule_id, "run": {"python": WORK}, **fields}


# -- a database that is taken over --


def test_a_database_of_the_previous_release_is_taken_over_with_everything_pending(
    releases: TwoReleases,
) -> None:
    go = releases.folder / "go"
    program = ["sh", str(releases.folder / "wait.sh"), str(releases.runs), str(go)]
    declare(
        releases,
        {"id": "unfinished", "after": "1s", "run": {"command": program}},
        work("held", every="24h", quiet_hours="for-hours"),
        work("retried", every="24h", max_retries=3, retry_delay="15s", payload={"fails": 1.0}),
        work("later", after="30d"),
    )
    releases.create_by_previous(submissions(SLOWER))
    scheduler, worker = releases.node("previous", "scheduler"), releases.node("previous", "worker")
    for pending in (
        "jobs WHERE schedule_id = 'unfinished' AND status = 'running'",
        "schedules WHERE schedule_id = 'held' AND held_slot_at IS NOT NULL",
        "schedules WHERE status = 'done'",
        "schedules WHERE schedule_id = 'breaks' AND error_count > 0",
        "jobs WHERE schedule_id = 'crowded.1' AND status = 'succeeded'",
        "messages",
    ):
        releases.await_rows(pending)
    releases.await_begun(30, worker)
    worker.kill()
    scheduler.kill()

    assert releases.count("everwhen_migrations WHERE number = 3") == 0
    before = counters(releases)
    held = releases.rows(HELD)
    messages = releases.count("messages")
    assert "applied migration 3" in releases.command("this", "db", "migrate")
    assert counters(releases) == before
    assert "exactly one entry" in releases.command("this", "db", "check")

    _, worker = releases.node("this", "scheduler"), releases.node("this", "worker")
    go.touch()
    releases.await_begun(30, worker)
    for over in (
        "jobs WHERE schedule_id = 'unfinished' AND status = 'succeeded' AND attempt = 2 AND rescues = 1",
        "jobs WHERE schedule_id = 'retried' AND origin = 'retry' AND status = 'failed'",
    ):
        releases.await_rows(over)
    releases.until(lambda: releases.count("messages") > messages, "more messages")
    regular = ["tick-1", "chain", "queues", "skips", "all", "crowded.1", "guarded.1", "program", "played-2"]
    releases.until(
        lambda: all(counters(releases)[name][0] > before[name][0] + 1 for name in regular), "more firings"
    )
    after = counters(releases)
    assert all(now >= then for name in before for now, then in zip(after[name], before[name], strict=True))
    assert releases.rows(HELD) == held
    with opened(releases.url) as stack:
        releases.bring_to_rest(stack)
        releases.check(stack)
    releases.command("this", "db", "migrate", "--after")
    assert "start the newer release" in releases.command("previous", "scheduler", status=1)


def counters(releases: TwoReleases) -> dict[str, tuple[int, ...]]:
    """Return the counters of every schedule, by its id."""
    return {
        name: tuple(rest) for name, *rest in releases.rows(f"SELECT schedule_id, {COUNTERS} FROM schedules")
    }


# -- side by side --


def test_processes_of_both_releases_fire_and_run_side_by_side_and_survive_each_other(
    releases: TwoReleases,
) -> None:
    declare(releases)
    releases.create_by_previous(submissions(SLOWER))
    if is_postgres(releases.url):
        install_witness(releases.url)
    old_scheduler, old_worker = releases.node("previous", "scheduler"), releases.node("previous", "worker")
    releases.await_begun(20, old_worker)
    scheduler, worker = releases.node("this", "scheduler"), releases.node("this", "worker")
    releases.await_begun(40, old_worker, worker)

    old_scheduler.kill()
    releases.await_fired(40)  # by this release alone, run by both
    releases.await_begun(10, old_worker, worker)
    releases.revive(old_scheduler)  # a start of the previous release on the schema of this one
    scheduler.kill()
    releases.await_fired(40)  # by the previous release alone, run by both
    releases.await_begun(10, old_worker, worker)
    releases.revive(scheduler)
    old_worker.kill()
    releases.await_begun(30, worker)  # what the other had in hand is taken over
    releases.revive(old_worker)
    worker.kill()
    releases.await_begun(30, old_worker)
    releases.revive(worker)
    releases.await_begun(20, old_worker, worker)
    with opened(releases.url) as stack:
        releases.bring_to_rest(stack)
        releases.check(stack)
    if is_postgres(releases.url):
        peaks = witnessed_peaks(releases.url)
        assert all(peak <= MOST_RUNNING for key, peak in peaks.running.items() if "crowded" in key)
        assert all(peak <= MOST_OUTSTANDING for key, peak in peaks.outstanding.items() if "guarded" in key)


# -- queues --


@pytest.mark.parametrize("queue", ["rq", "celery"])
def test_queue_workers_of_either_release_run_the_jobs_of_the_other(
    queue: str, url: str, tmp_path: Path, previous: Path, valkey_url: str
) -> None:
    with two_releases(
        url, tmp_path, previous, EVERWHEN_REDIS=valkey_url, EVERWHEN_CELERY_BROKER=valkey_url
    ) as releases:
        start = releases.rq_worker if queue == "rq" else releases.celery_worker
        releases.write_file(on_queue(queue))
        old_scheduler = releases.node("previous", "scheduler")
        old_worker = start("previous", f"everwhen.queue_workers.{queue}")
        releases.await_begun(5, old_worker)

        assert "applied migration 3" in releases.command("this", "db", "migrate")
        worker = start("this", f"everwhen.queue_workers.{queue}")
        releases.await_begun(5, worker)
        releases.stop(worker, old_worker)
        alias = start("this", f"everwhen.carried.{queue}")
        releases.await_begun(10, alias)  # jobs of the previous release's scheduler, by the name of 0.1
        scheduler = releases.node("this", "scheduler")
        releases.stop(alias, old_scheduler)
        releases.revive(old_worker)
        with opened(url) as stack:
            failing = submission("made-1", after="1s", payload={"fails": 1.0})
            create_schedule(stack.runtime, failing)
            releases.await_begun(10, old_worker)  # jobs of this release's scheduler
            releases.await_rows("jobs WHERE schedule_id = 'made-1' AND status = 'failed'")
            releases.revive(worker)
            releases.await_begun(5, old_worker, worker)
            assert scheduler.is_alive
            releases.bring_to_rest(stack)
            releases.check(stack)


def on_queue(queue: str) -> dict[str, Any]:
    """A file whose jobs go through the queue: each costs a process, or a round trip at least."""
    service = {"dispatch": queue, "check_interval": "1s", "lease": f"{LEASE}s", "shutdown_timeout": "15s"}
    return {
        "service": service,
        "agents": {},
        "schedules": [
            *(work(f"tick-{number}", every="2s", if_running="allow") for number in range(1, 4)),
            work("chain", every="2s", interval_from="completion"),
            work("queues", every="3s", if_running="queue", payload={"seconds": 0.5}),
            work("retries", every="4s", max_retries=2, retry_delay="1s", payload={"fails": 0.4}),
            {
                "id": "message",
                "every": "4s",
                "run": {"message": {"text": "still here", "thread_id": "proof"}},
            },
        ],
    }
