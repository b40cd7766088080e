"""Rows about the database itself, on a file and on PostgreSQL: M10, P12."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest

from everwhen import recover_scheduled_jobs
from everwhen.clock import SystemClock
from everwhen.model.instants import SECOND, to_datetime
from everwhen.model.queries import JobFilter
from everwhen.model.schedule import Target
from everwhen.store.opened import store_of
from everwhen.testing import ManualClock, manual_scheduler
from everwhen.wiring import open_stack
from tests.boundaries.tap import Boundary, installed, tapped
from tests.crash.nodes import check, opened, wait_until
from tests.submissions import Submission, create_schedules

INDEX = "idx_schedules_next_run"
LOOK = re.compile(r"\bnext_run_at\b.* FROM schedules\s+WHERE enabled\b", re.DOTALL)
START = "2026-01-05T08:00:00Z"
MANY = 2_000
PROCESSES = 4


def add_many(url: str) -> None:
    """Many, of which a few are due within a minute, and some of these have been so for a while."""
    with closing(open_stack(url, clock=ManualClock(START))) as stack:
        intervals = ["1m"] * 5 + ["30s"] * 5 + ["24h"] * (MANY - 10)
        fields = [{"every": interval, "first_run": "after_interval"} for interval in intervals]
        create_schedules(
            stack.runtime,
            [Submission(f"s{n}", given, Target("command", "{}")) for n, given in enumerate(fields)],
        )


def tick_in_a_minute(url: str, meet: Callable[[Boundary], None] = lambda boundary: None) -> None:
    """Both lanes of one evaluation, as the loop asks for them."""
    clock = ManualClock(START)
    clock.advance("1m")
    with closing(open_stack(url, clock=clock)) as stack, tapped(meet):
        assert store_of(stack.runtime).slots.tick(clock.now(), limit=500, behind=False).fired == 5
        assert store_of(stack.runtime).slots.tick(clock.now(), limit=500, behind=True).fired == 5
        assert store_of(stack.runtime).slots.next_wake_at() == clock.now() + 30 * SECOND


def test_m10_on_a_file_every_look_for_due_rows_goes_through_the_partial_index(tmp_path: Path) -> None:
    url, looks = f"sqlite:///{tmp_path}/a.db", set[str]()

    def note(boundary: Boundary) -> None:
        if LOOK.search(boundary.statement):
            looks.add(boundary.statement)

    with installed():
        add_many(url)
        tick_in_a_minute(url, note)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        definition = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [INDEX]).fetchone()
        plans = [
            connection.execute(f"EXPLAIN QUERY PLAN {look}", values_of(look)).fetchall() for look in looks
        ]
    assert definition[0].endswith("ON schedules (next_run_at) WHERE enabled")
    assert len(plans) == 3  # two lanes, and when to wake
    for plan in plans:
        steps = [row[-1] for row in plan]
        assert any(INDEX in step for step in steps)
        assert not any(re.search(r"^SCAN schedules(?! USING)|TEMP B-TREE FOR ORDER", step) for step in steps)


def values_of(look: str) -> Any:
    """Something for each of its parameters: the plan does not depend on them."""
    names = re.findall(r":(\w+)", look)
    return dict.fromkeys(names, 0) if names else [0] * look.count("?")


def test_m10_on_postgresql_every_look_for_due_rows_goes_through_the_partial_index(postgres_url: str) -> None:
    add_many(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ANALYZE schedules")
        before = scans(connection)
        tick_in_a_minute(postgres_url)
        wanted = "SELECT indexdef FROM pg_indexes WHERE indexname = %s"
        (definition,) = connection.execute(wanted, [INDEX]).fetchone()  # type: ignore[misc]
        index, table = (now - then for now, then in zip(scans(connection), before, strict=True))
    assert definition.endswith("(next_run_at) WHERE enabled")
    assert index >= 2  # one for each lane
    assert table == 0  # the whole table is read by nobody


def scans(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """How often the index was used so far, and how often the whole table was read."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    wait_until(
        lambda: connection.execute(others).fetchone() == (0,)
    )  # a session counts in full when it is over
    found = connection.execute(
        """SELECT i.idx_scan, t.seq_scan FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid)
        WHERE i.indexrelname = %s""",
        [INDEX],
    ).fetchone()
    assert found is not None
    return found[0], found[1]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield (
        f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )


def insert_again(url: str, job_id: str) -> None:
    """What nothing in the package does: the same job once more."""
    is_file = url.startswith("sqlite")
    connect: Any = sqlite3.connect if is_file else psycopg.connect
    with closing(connect(url.removeprefix("sqlite:///"))) as connection:
        names = [name for name, *_ in connection.execute("SELECT * FROM jobs").description]
        columns = ", ".join(name for name in names if name not in ("row_id", "job_id"))
        mark = "?" if is_file else "%s"
        connection.execute(
            f"INSERT INTO jobs (job_id, {columns}) SELECT {mark}, {columns} FROM jobs", [job_id]
        )


def test_p12_an_existing_id_makes_the_enqueue_a_no_op_so_recovery_is_idempotent(url: str) -> None:
    down = manual_scheduler(to_datetime(SystemClock().now()) - timedelta(minutes=10), database=url)
    uid = down.add("job", every="5h", first_run="immediately", catch_up="run_once").uid
    down.close()
    together = Barrier(PROCESSES)

    def recover(_number: int) -> int:
        together.wait(30)
        return recover_scheduled_jobs(url)

    with ThreadPoolExecutor(PROCESSES) as starting:
        recovered = list(starting.map(recover, range(PROCESSES)))  # each with connections of its own
    assert sorted(recovered) == [0] * (PROCESSES - 1) + [1]
    assert recover_scheduled_jobs(url) == 0
    with opened(url) as stack:
        (job,) = store_of(stack.runtime).ledger.jobs(JobFilter(), limit=10)
    assert (job.job_id, job.status) == (f"sched-{uid}-n1-rc0", "queued")
    for again in (job.job_id, "another-id-for-the-same-slot"):
        with pytest.raises((sqlite3.IntegrityError, psycopg.errors.UniqueViolation)):
            insert_again(url, again)
    assert check(url).is_clean
