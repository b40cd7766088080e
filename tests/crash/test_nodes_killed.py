"""Schedulers and workers as processes of their own on one database, killed at random moments."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.model.node import Role
from everwhen.model.queries import EventFilter, JobFilter
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from everwhen.wiring import Stack
from tests.crash.nodes import NodeProcess, check, fate, opened, wait_until
from tests.servers.postgres import PostgresServer
from tests.submissions import Submission, create_schedules


def busy(stack: Stack) -> None:
    fields: list[dict[str, Any]] = [
        *({"every": "1s", "if_running": "allow"} for _ in range(10)),
        *({"every": "1s", "catch_up": "run_all"} for _ in range(3)),
        *({"every": "2s", "if_running": "queue", "max_concurrent": 2} for _ in range(4)),
        *({"every": "1s", "interval_from": "completion"} for _ in range(4)),
        *({"every": "3s", "max_outstanding": 1, "jitter": "1s"} for _ in range(4)),
    ]
    create_schedules(
        stack.runtime, [Submission(f"s{n}", keys, Target("command", "go")) for n, keys in enumerate(fields)]
    )


def test_schedulers_and_workers_killed_ten_times_lose_and_double_nothing(url: str) -> None:
    kill_and_check(url, kills=10)


@pytest.mark.long
def test_schedulers_and_workers_killed_fifty_times_lose_and_double_nothing(url: str) -> None:
    kill_and_check(url, kills=50)


def kill_and_check(url: str, *, kills: int) -> None:
    draw = fate(f"{kills} nodes")
    with opened(url) as stack:
        busy(stack)
    roles: list[Role] = ["scheduler", "scheduler", "worker", "worker"]
    nodes = [NodeProcess(url, role) for role in roles]
    for _ in range(kills):
        victim = draw.choice(nodes)
        victim.live_for(draw.uniform(0.02, 0.5))
        victim.kill()
        nodes[nodes.index(victim)] = NodeProcess(url, victim.role)
    with opened(url) as stack:
        # What the dead ones were running is taken over: it does not stay running on a node that is gone.
        wait_until(lambda: not unreleased_on_dead_nodes(stack))
        assert len(store_of(stack.runtime).ledger.events(EventFilter(types=["node.lost"]), limit=1_000)) >= 1
    for node in nodes:
        node.stop()
    report = check(url)
    assert report.is_clean, report
    assert report.jobs > 20


def unreleased_on_dead_nodes(stack: Stack) -> bool:
    alive = {
        n.node for n in store_of(stack.runtime).upkeep.nodes() if n.stopped_at is None and n.lost_at is None
    }
    running = store_of(stack.runtime).ledger.jobs(JobFilter(statuses=["running"]), limit=1_000)
    return any(job.node not in alive for job in running)


def test_schedulers_go_on_when_their_database_server_is_restarted_and_killed(
    durable_postgres: PostgresServer,
) -> None:
    """Two schedulers and a worker on one PostgreSQL with fsync on: what was committed is there, and nothing twice."""
    outages(durable_postgres, schedulers=2, rounds=2)


@pytest.mark.long
def test_three_schedulers_go_on_through_many_outages(durable_postgres: PostgresServer) -> None:
    outages(durable_postgres, schedulers=3, rounds=15)


def outages(server: PostgresServer, *, schedulers: int, rounds: int) -> None:
    draw = fate(f"{rounds} outages")
    url = server.fresh_database()
    with opened(url) as stack:
        busy(stack)
    nodes = [NodeProcess(url, "scheduler") for _ in range(schedulers)] + [NodeProcess(url, "worker")]
    for _ in range(rounds):
        nodes[0].live_for(draw.uniform(0.3, 1.5))
        server.restart()
        nodes[0].live_for(draw.uniform(0.3, 1.5))
        server.kill()
        server.start()
    with opened(url) as stack:
        fired = len(store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10_000))
        wait_until(lambda: len(store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10_000)) > fired + 20)
    for node in nodes:
        node.stop()
    report = check(url)
    assert report.is_clean, report
    server.drop_database(url)


def test_a_job_whose_worker_is_killed_four_times_keeps_its_id_and_is_lost(url: str) -> None:
    """SEMANTICS 12, case 14."""
    lease = 3.0  # nobody takes the job from a worker that a busy machine keeps waiting
    with opened(url) as stack:
        hanging = Submission("a", {"after": "1s"}, Target("command", "hang"))
        create_schedules(stack.runtime, [hanging])
        scheduler = NodeProcess(url, "scheduler", lease=lease)
        heard: list[str] = []
        for _ in range(4):
            worker = NodeProcess(url, "worker", lease=lease)
            heard.append(worker.heard("hanging"))
            worker.kill()
        wait_until(lambda: store_of(stack.runtime).ledger.jobs(JobFilter(), limit=2)[0].status == "lost")
        scheduler.stop()
        (job,) = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=2)
        assert heard == [f"hanging {job.job_id} {attempt}" for attempt in (1, 2, 3, 4)]
        assert (job.attempt, job.rescues) == (4, 3)
        schedule = store_of(stack.runtime).catalogue.get("a")
        assert schedule is not None and schedule.state.error_count == 1
    assert check(url).is_clean


def test_a_job_fired_in_one_process_starts_at_once_in_another(url: str) -> None:
    """And not at the next check, which is an hour away in both."""
    with opened(url) as stack:
        create_schedules(stack.runtime, [Submission("a", {"after": "2s"}, Target("command", "hang"))])
    worker = NodeProcess(url, "worker", check_interval=3_600.0)
    scheduler = NodeProcess(url, "scheduler", check_interval=3_600.0)
    assert worker.heard("hanging").endswith(" 1")
    worker.kill()
    scheduler.stop()
