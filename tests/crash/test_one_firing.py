"""Several schedulers and workers on one PostgreSQL with fsync on: each slot is fired once, no limit is overshot (E8).

The slots come due all at once, in the commit that adds their schedules, while every node is waiting for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest

from everwhen.model.node import Role
from everwhen.model.queries import JobFilter
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from tests.crash.nodes import NodeProcess, check, opened, running, wait_until
from tests.crash.witness import Peaks, install_witness, succeeded_jobs, witnessed_peaks
from tests.servers.postgres import PostgresServer
from tests.submissions import Submission, create_schedules

COUNT = 120
GUARDS, CAPACITIES = 3, 2
MOST_OUTSTANDING, MOST_RUNNING = 3, 2
WORK = Target("command", "brief")
ONCE: dict[str, Any] = {"every": "3650d", "misfire_grace": "1h"}  # one slot, now, however late it is decided


class Outage(NamedTuple):
    """What befalls the server when so many jobs have succeeded."""

    after: int
    is_kill: bool


@pytest.fixture
def url(durable_postgres: PostgresServer) -> Iterator[str]:
    url = durable_postgres.fresh_database()
    yield url
    durable_postgres.drop_database(url)


@pytest.mark.parametrize("schedulers", [2, 3])
def test_slots_that_come_due_at_once_are_each_fired_once_within_every_limit(
    url: str, schedulers: int
) -> None:
    install(url)
    with cluster(url, schedulers) as nodes:
        add_due_slots(url, COUNT)
        wait_until(lambda: succeeded_jobs(url) == COUNT, seconds=60)
        fired = [node.stop() for node in nodes]
    assert sum(fired) == COUNT
    assert sum(share > 0 for share in fired) >= 2  # one alone would prove nothing
    expect_each_once(url, COUNT)


@pytest.mark.long
@pytest.mark.parametrize("schedulers", [2, 3])
def test_ten_thousand_due_slots_while_the_server_is_restarted_and_killed(
    url: str, schedulers: int, durable_postgres: PostgresServer
) -> None:
    install(url)
    with cluster(url, schedulers) as nodes:
        add_due_slots(url, 10_000)
        for outage in (Outage(500, False), Outage(2_500, True), Outage(5_000, False), Outage(7_500, True)):
            befall(durable_postgres, url, outage)
        wait_until(lambda: succeeded_jobs(url) == 10_000, seconds=600)
        for node in nodes:
            node.stop()
    expect_each_once(url, 10_000)


def install(url: str) -> None:
    with opened(url):  # which makes the tables
        install_witness(url)


def cluster(url: str, schedulers: int) -> AbstractContextManager[list[NodeProcess]]:
    roles: list[Role] = ["worker", "worker"]
    roles += ["scheduler"] * schedulers
    return running(url, *roles)


def add_due_slots(url: str, count: int) -> None:
    with opened(url) as stack:
        create_schedules(stack.runtime, [due_now(number) for number in range(count)])


def due_now(number: int) -> Submission:
    """Six in ten share nothing; two share guards, two share capacities, of which half wait in the queue."""
    match number % 10:
        case 0 | 1:
            group = f"guard{number // 10 % GUARDS}"
            fields = {"command": "poll", "max_outstanding": MOST_OUTSTANDING}
        case 2 | 3:
            group = f"capacity{number // 10 % CAPACITIES}"
            how = "queue" if number % 10 == 2 else "skip"
            fields = {"max_concurrent": MOST_RUNNING, "if_running": how}
        case _:
            return Submission(f"s{number}", ONCE, WORK)
    return Submission(f"{group}.s{number}", ONCE | fields, WORK, group=group)


def befall(server: PostgresServer, url: str, outage: Outage) -> None:
    wait_until(lambda: succeeded_jobs(url) >= outage.after, seconds=600)
    if outage.is_kill:
        server.kill()
        server.start()
    else:
        server.restart()


def expect_each_once(url: str, count: int) -> None:
    with opened(url) as stack:
        jobs = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=2 * count)
    assert len(jobs) == count
    assert set(Counter((job.uid, job.slot_at) for job in jobs).values()) == {1}
    assert {(job.status, job.origin) for job in jobs} == {("succeeded", "schedule")}
    report = check(url)
    assert report.is_clean, report
    assert report.slots == count
    expect_no_limit_overshot(witnessed_peaks(url))


def expect_no_limit_overshot(peaks: Peaks) -> None:
    """Each was reached, so it was put to the test, and not passed."""
    assert set(peaks.outstanding.values()) == {MOST_OUTSTANDING}, peaks
    assert len(peaks.outstanding) == GUARDS
    assert set(peaks.running.values()) == {MOST_RUNNING}, peaks
    assert len(peaks.running) == CAPACITIES
    assert not any(peaks.left.values()), peaks
