"""What one node does wakes the others at once, through LISTEN and NOTIFY (E6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Event
from typing import Any

import psycopg
import pytest

from everwhen.engine.service import ServiceOptions
from everwhen.model.instants import to_datetime
from everwhen.model.outcome import Outcome
from everwhen.store.postgres.listener import NotificationListener
from everwhen.store.postgres.transaction import ANNOUNCE
from everwhen.target import Run
from everwhen.wiring import build_service, open_stack
from tests.conformance.tenant import FAILED, Tenant, submission
from tests.submissions import create_schedule

ANNOUNCED = {"channels": "$1", "jobs": "$2", "soonest": "$3", "mark": "$4"}


class Ears:
    """Listens, and remembers what it was woken for."""

    def __init__(self, url: str) -> None:
        self.slots, self.jobs = Event(), Event()
        self._listener = NotificationListener(url, on_slots=self.slots.set, on_jobs=self.jobs.set)
        assert self._listener.is_listening.wait(30)
        assert self.jobs.wait(30)  # whoever begins to listen looks once by itself
        self.forget()

    def forget(self) -> None:
        self.slots.clear()
        self.jobs.clear()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def notes(runtime: Tenant) -> Iterator[Heard]:
    """Every notification so far, word for word, by a plain listener."""
    with psycopg.connect(runtime.site.url, autocommit=True) as connection:
        connection.execute("LISTEN everwhen")
        yield Heard(connection)


class Heard:
    """Reads what has been announced since it was last asked."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def __call__(self) -> list[str]:
        self._connection.execute("SELECT 1")  # notifications come with the answer
        return [notify.payload for notify in self._connection.notifies(timeout=0)]


def test_a_schedule_that_is_due_first_is_announced(runtime: Tenant, notes: Heard) -> None:
    runtime.add("later", every="2h", first_run="after_interval")
    assert notes() == ["slots"]
    runtime.add("sooner", every="1h", first_run="after_interval")
    assert notes() == ["slots"]


def test_a_schedule_that_is_due_after_others_is_not(runtime: Tenant, notes: Heard) -> None:
    runtime.add("sooner", every="1h", first_run="after_interval")
    notes()
    runtime.add("later", every="2h", first_run="after_interval")
    assert notes() == []


def test_to_announce_the_earliest_of_many_no_table_is_read(runtime: Tenant) -> None:
    runtime.add_many([f"s{number}" for number in range(500)], every="1h", first_run="after_interval")
    query = re.sub(r"%\((\w+)\)s", lambda match: ANNOUNCED[match[1]], ANNOUNCE.postgres.decode())
    with psycopg.connect(runtime.site.url, autocommit=True) as connection:
        connection.execute("ANALYZE schedules")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute(f"PREPARE announce (text, boolean, timestamptz, timestamptz) AS {query}".encode())
        explain = "EXPLAIN EXECUTE announce('slots', false, 'epoch', '-infinity')"
        plan = "\n".join(row[0] for row in connection.execute(explain.encode()))
    assert "idx_schedules_next_run" in plan
    assert "Seq Scan" not in plan


def test_a_tick_announces_its_jobs_once(runtime: Tenant, notes: Heard) -> None:
    runtime.add_many([f"s{number}" for number in range(5)], every="1h")
    notes()
    runtime.step()
    assert notes() == ["jobs"]
    claimed = runtime.claim()
    runtime.settle(*claimed)
    assert notes() == []


def test_a_place_that_comes_free_is_announced(runtime: Tenant, notes: Heard) -> None:
    agent: dict[str, Any] = {"group": "g", "max_concurrent": 1, "every": "24h"}
    runtime.add("g.a", **agent)
    runtime.add("g.b", **agent)
    runtime.step()
    claimed = runtime.claim()
    notes()
    runtime.settle(*claimed)
    assert notes() == ["slots"]


def test_a_job_behind_another_is_announced_when_its_turn_comes(runtime: Tenant, notes: Heard) -> None:
    runtime.add("a", every="1m", if_running="queue")
    runtime.step()
    claimed = runtime.claim()
    runtime.wait_and_step("1m")
    notes()
    runtime.settle(*claimed, outcome=FAILED)
    assert notes() == ["jobs"]


def test_a_listener_wakes_for_what_another_node_does(runtime: Tenant, other: Tenant) -> None:
    ears = Ears(runtime.site.url)
    try:
        other.add("a", every="1h")
        assert ears.slots.wait(30)
        other.step()
        assert ears.jobs.wait(30)
    finally:
        ears.close()


def test_a_listener_that_lost_its_connection_looks_again(runtime: Tenant) -> None:
    ears = Ears(runtime.site.url)
    try:
        with psycopg.connect(runtime.site.url, autocommit=True) as connection:
            connection.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE query = 'LISTEN everwhen' AND pid <> pg_backend_pid()"""
            )
        assert ears.slots.wait(30)
        assert ears.jobs.wait(30)
    finally:
        ears.close()


class Starts:
    """An observer that tells when a run has begun."""

    def __init__(self) -> None:
        self.begun = Event()

    def started(self, run: Run) -> None:
        self.begun.set()

    def ended(self, run: Run, outcome: Outcome) -> None:
        return None


def test_a_node_that_sleeps_for_an_hour_runs_at_once_what_another_declares(runtime: Tenant) -> None:
    """By the database's clock, and real loops."""
    stack, starts = open_stack(runtime.site.url), Starts()
    service = build_service(stack, ServiceOptions(check_interval=3_600.0, observer=starts))
    service.start()
    external = open_stack(runtime.site.url)
    try:
        create_schedule(external.runtime, submission("from-elsewhere", every="1h"))
        assert starts.begun.wait(30)
    finally:
        service.stop()
        # What was recorded lies not in the future.
        runtime.clock.set(to_datetime(stack.runtime.clock.now()))
        external.close()
        stack.close()
