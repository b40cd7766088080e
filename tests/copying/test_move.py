"""`db copy`: what an installation was on SQLite it is on PostgreSQL, and everything pending happens there, once."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from everwhen import Scheduler
from everwhen.errors import CopyError, MovedError, StoreError
from everwhen.model.instants import instant_of, to_datetime
from everwhen.model.message import Message
from everwhen.model.vitals import Received
from everwhen.operations import tokens
from everwhen.operations.listening import position_of, steps_after
from everwhen.operations.maintenance import back_up, prove
from everwhen.store.opened import store_of
from everwhen.store.postgres.copy import CHUNK, TablePacker
from everwhen.store.sqlite.move import LEFT_BEHIND, SqliteTable, own_tables
from everwhen.testing import manual_scheduler
from everwhen.testing.manual import ManualScheduler
from everwhen.wiring import move_database, open_node_stack, open_stack, restore_database
from everwhen.worker_runtime import open_worker_runtime
from tests.copying.installation import MOVED, Installation, make_installation, on_target
from tests.servers.postgres import PostgresServer

MARKS = ("moved", "copied_from")


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return make_installation(tmp_path)


@pytest.fixture
def target(installation: Installation, postgres_url: str) -> Iterator[ManualScheduler]:
    move_database(installation.url, postgres_url)
    with on_target(postgres_url) as s:
        yield s


@dataclass(frozen=True, slots=True)
class Moved:
    """An installation that was moved, for tests that only look."""

    installation: Installation
    received: Received
    url: str
    target: ManualScheduler


@pytest.fixture(scope="module")
def moved(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    installation = make_installation(tmp_path_factory.mktemp("moved"))
    url = postgres.fresh_database()
    received = move_database(installation.url, url)
    with on_target(url) as s:
        yield Moved(installation, received, url, s)
    postgres.drop_database(url)


def path_of(installation: Installation) -> str:
    return installation.url.removeprefix("sqlite:///")


def comparable(value: object) -> object:
    """The value as both databases have it: an instant is a number, a document is sorted."""
    if isinstance(value, datetime):
        return instant_of(value)
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value


# -- what is copied --


def test_every_table_is_copied_or_named_as_left_behind_with_a_reason(moved: Moved) -> None:
    """A table that a later migration adds is copied by itself; what is not copied has to be named."""
    with psycopg.connect(moved.url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    copied = moved.received.rows
    assert set(copied) | set(LEFT_BEHIND) == {name for (name,) in found} == set(own_tables())
    assert not set(copied) & set(LEFT_BEHIND)
    assert all(reason for reason in LEFT_BEHIND.values())
    assert all(copied.values()), "the installation has nothing in some table, so nothing is shown of it"


def test_every_value_of_every_row_is_there(installation: Installation, postgres_url: str) -> None:
    received = move_database(installation.url, postgres_url)
    assert received.replaced_count == 0
    with (
        psycopg.connect(postgres_url) as there,
        closing(sqlite3.connect(path_of(installation))) as here,
    ):
        for table, count in received.rows.items():
            columns = [row[1] for row in here.execute(f"PRAGMA table_info({table})")]
            query = f"SELECT {', '.join(map(_quoted, columns))} FROM {table}"
            expected, found = here.execute(query).fetchall(), there.execute(query.encode()).fetchall()
            if table == "settings":  # each side has its mark
                expected, found = [[row for row in rows if row[0] not in MARKS] for rows in (expected, found)]
            assert Counter(map(_comparable_row, found)) == Counter(map(_comparable_row, expected)), table
            assert len(found) == count
        steps = "SELECT number, step, applied_at FROM everwhen_migrations ORDER BY number"
        assert here.execute(steps).fetchall() == [_comparable_row(row) for row in there.execute(steps)]


def _quoted(name: str) -> str:
    return f'"{name}"'


def _comparable_row(row: tuple[Any, ...]) -> tuple[object, ...]:
    return tuple(map(comparable, row))


def test_both_sides_are_clean_afterwards(moved: Moved) -> None:
    assert moved.target.check().is_clean, moved.target.check().faults
    stack = open_stack(moved.installation.url, is_existing=True)
    try:
        report = prove(stack.runtime, lambda _share: None)
        assert report.is_clean, report.faults
    finally:
        stack.close()


# -- what was pending --


def test_everything_pending_happens_once_on_the_target(target: ManualScheduler) -> None:
    s = target
    assert s.rescue() == 2  # what the dead node ran
    s.run_until("2026-01-05T11:30:00Z")
    by_slot = Counter((job.uid, job.slot_at) for job in s.jobs() if job.origin in ("schedule", "catch_up"))
    assert set(by_slot.values()) == {1}
    assert len({job.job_id for job in s.jobs()}) == len(s.jobs())
    assert not [job for job in s.jobs() if job.status in ("queued", "running")]

    def slots(name: str, origin: str = "schedule") -> list[tuple[str, int, str]]:
        jobs = [job for job in s.jobs(name) if job.origin == origin]
        return [(f"{to_datetime(job.slot_at):%H:%M}", job.attempt, job.status) for job in jobs]

    assert slots("g.held") == [("10:00", 1, "succeeded")]
    assert slots("g.running") == [("10:00", 2, "succeeded")]
    assert slots("retried", "retry") == [("10:00", 2, "succeeded")]
    assert slots("at") == [("11:30", 1, "succeeded")]
    assert slots("after") == [("11:00", 1, "succeeded")]
    assert ("10:20", 1, "succeeded") in slots("quiet")  # the newest that was deferred, at the opening
    busy = s.state("busy")
    assert (busy.status, busy.skip_count, busy.outstanding) == ("done", 0, 0)  # what was gathered is an event
    assert s.check().is_clean, s.check().faults


def test_the_numbers_of_jobs_go_on(target: ManualScheduler) -> None:
    before = target.state("interval").fire_count
    target.run_until("2026-01-05T11:00:00Z")
    assert target.jobs("interval")[-1].number == before + 2
    assert target.jobs("interval")[-1].retry == 0


def test_tokens_and_sessions_give_the_same_access(moved: Moved) -> None:
    runtime = store_of(moved.target.runtime)
    found = tokens.find_token(runtime, moved.installation.secret)
    assert found is not None and (found.name, found.owner, found.role) == ("ada's", "ada", "operator")
    assert tokens.find_session(runtime, moved.installation.session) == found


def test_a_plugin_remembers_and_a_breaker_stays_open(moved: Moved) -> None:
    runtime = store_of(moved.target.runtime)
    assert runtime.catalogue.plugin_state("p") == {"seen": 17}
    assert runtime.ledger.breaker("p:poll").state == "open"
    (running,) = [job for job in moved.target.jobs("g.running") if job.status == "running"]
    assert runtime.ledger.output(running.job_id)[0].data == b"bytes \x00\xff"


# -- streams --


def take(s: ManualScheduler) -> list[Message]:
    now = s.clock.now()
    return list(store_of(s.runtime).messages.take(now, "inbox", node=s.node, limit=100, held_until=now + 1))


def test_a_subscriber_goes_on_behind_the_last_message_that_it_had(
    installation: Installation, target: ManualScheduler
) -> None:
    kept = [message.id for message in store_of(target.runtime).messages.after(installation.cursor, limit=100)]
    target.run_until("2026-01-05T10:20:00Z")
    assert [message.id for message in take(target)] == [*kept, kept[-1] + 1]


def test_a_named_listener_goes_on_where_it_was(target: ManualScheduler) -> None:
    cursor = store_of(target.runtime).event_cursors.find("audit")
    assert cursor is not None
    position = position_of(target.runtime, cursor, follows=True)
    heard = steps_after(target.runtime, position, limit=10_000)
    jobs = {job.row_id for job in target.jobs() if job.status not in ("queued", "running")}
    assert {step.number for step in heard if step.kind == "end"} == {
        row for row in jobs if row > cursor.job_row
    }


def test_a_stream_of_events_goes_on_behind_its_cursor_in_the_order_of_commits(
    target: ManualScheduler,
) -> None:
    ledger = store_of(target.runtime).ledger
    everything = [recorded.id for recorded in ledger.events_after(0, limit=1_000)]
    assert everything == sorted(everything) and len(everything) > 10
    cursor, last = everything[4], everything[-1]
    assert [recorded.id for recorded in ledger.events_after(cursor, limit=1_000)] == everything[5:]
    target.pause("interval")
    assert [recorded.id for recorded in ledger.events_after(last, limit=1_000)] == [last + 1]


def test_a_number_of_a_message_that_was_forgotten_is_not_given_again(
    tmp_path: Path, postgres_url: str
) -> None:
    installation = make_installation(tmp_path)
    with closing(sqlite3.connect(path_of(installation))) as connection:
        (last,) = connection.execute("SELECT max(id) FROM messages").fetchone()
        connection.execute("DELETE FROM messages")
        connection.commit()
    move_database(installation.url, postgres_url)
    with on_target(postgres_url) as s:
        s.run_until("2026-01-05T10:20:00Z")
        assert [message.id for message in take(s)] == [last + 1]


# -- texts and values that one database holds and the other does not --


def test_characters_that_postgresql_cannot_hold_are_replaced_and_reported(
    installation: Installation, postgres_url: str
) -> None:
    with closing(sqlite3.connect(path_of(installation))) as connection:
        connection.execute("UPDATE schedules SET name = 'a' || char(0) || 'b' WHERE schedule_id = 'interval'")
        connection.execute(
            "UPDATE schedules SET last_error = CAST(x'61ff62' AS TEXT) WHERE schedule_id = 'cron'"
        )
        connection.execute(
            """UPDATE audit_events SET detail = '{"n": "\\u0000", "half": "\\ud800", "whole": "\\ud83d\\ude00"}'
            WHERE id = 1"""
        )
        connection.commit()
    received = move_database(installation.url, postgres_url)
    assert {(one.table, one.column) for one in received.replaced} == {
        ("schedules", "name"),
        ("schedules", "last_error"),
        ("audit_events", "detail"),
    }
    assert received.replaced_count == 3
    assert ("audit_events", "id 1") in {(one.table, one.key) for one in received.replaced}
    with psycopg.connect(postgres_url) as connection_there:
        names = connection_there.execute(
            "SELECT name, last_error FROM schedules WHERE schedule_id IN ('cron', 'interval') ORDER BY schedule_id"
        ).fetchall()
        assert (names[0][1], names[1][0]) == ("a\ufffdb", "a\ufffdb")
        (detail,) = connection_there.execute("SELECT detail FROM audit_events WHERE id = 1").fetchone() or (
            {},
        )
    assert detail == {"n": "\ufffd", "half": "?", "whole": "😀"}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (
            "UPDATE jobs SET fence = 'seven' WHERE row_id = 9",
            "row_id 9 of jobs cannot be copied: its fence is “seven”",
        ),
        ("UPDATE jobs SET is_ready = 5 WHERE row_id = 9", "row_id 9 of jobs cannot be copied: its is_ready"),
        (
            "UPDATE jobs SET slot_at = -9000000000000000000 WHERE row_id = 9",
            "row_id 9 of jobs cannot be copied: timestamp",
        ),
        (
            """UPDATE audit_events SET detail = '{"a": NaN}' WHERE id = 3""",
            "id 3 of audit_events cannot be copied",
        ),
        ("UPDATE audit_events SET detail = 'torn' WHERE id = 3", "id 3 of audit_events cannot be copied"),
    ],
)
def test_a_value_that_cannot_be_copied_is_named_with_its_row_and_nothing_happens(
    installation: Installation, postgres_url: str, change: str, fields: str
) -> None:
    with closing(sqlite3.connect(path_of(installation))) as connection:
        connection.execute(change)
        connection.commit()
    with pytest.raises(CopyError, match=fields):
        move_database(installation.url, postgres_url)
    with psycopg.connect(postgres_url) as there:
        assert there.execute("SELECT count(*) FROM schedules").fetchone() == (0,)
    open_node_stack(installation.url).close()  # not moved
    with closing(manual_scheduler(MOVED, database=installation.url)) as s:
        s.pause("interval")  # and open for writers


def test_tables_of_another_program_in_the_same_file_are_left_and_named(
    installation: Installation, postgres_url: str
) -> None:
    with closing(sqlite3.connect(path_of(installation))) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.execute("INSERT INTO customers VALUES ('ada')")
        connection.commit()
    assert move_database(installation.url, postgres_url).foreign == ["customers"]
    with closing(sqlite3.connect(path_of(installation))) as connection:
        connection.execute("INSERT INTO customers VALUES ('grace')")  # theirs goes on


# -- refusals --


def test_it_is_refused_while_a_node_beats_and_allowed_once_that_has_stopped(
    tmp_path: Path, postgres_url: str
) -> None:
    url = f"sqlite:///{tmp_path}/live.db"
    scheduler = Scheduler(url)
    scheduler.start()
    try:
        with pytest.raises(CopyError, match="is running"):
            move_database(url, postgres_url)
        scheduler.add("still", every="1h", run={"command": ["true"]})
    finally:
        scheduler.stop()
        scheduler.close()
    move_database(url, postgres_url)


def test_a_target_with_rows_is_refused_and_the_source_goes_on(
    installation: Installation, postgres_url: str
) -> None:
    with closing(manual_scheduler(MOVED, database=postgres_url)) as s:
        s.add("own", every="1h")
    with pytest.raises(CopyError, match=r"is not empty: its table .* has rows"):
        move_database(installation.url, postgres_url)
    open_node_stack(installation.url).close()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("postgresql://ada:secret@127.0.0.1/a", "postgresql://ada:secret@127.0.0.1/b"),
        ("sqlite:///a.db", "sqlite:///b.db"),
        ("postgresql://ada:secret@127.0.0.1/a", "sqlite:///b.db"),
    ],
)
def test_other_kinds_of_databases_are_refused_without_their_passwords(source: str, target: str) -> None:
    with pytest.raises(CopyError, match="only SQLite can be copied, and only to PostgreSQL") as caught:
        move_database(source, target)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        move_database(f"sqlite:///{tmp_path}/none.db", postgres_url)
    assert list(tmp_path.iterdir()) == []


# -- the source afterwards --


def test_nobody_who_has_the_source_open_since_before_can_write_to_it(
    installation: Installation, postgres_url: str
) -> None:
    """An API without a loop, a worker of a queue, a node that was frozen."""
    with closing(manual_scheduler(MOVED, database=installation.url)) as s:
        move_database(installation.url, postgres_url)
        jobs = len(s.jobs())
        for write in (s.beat, s.tick, s.claim, lambda: s.pause("cron"), lambda: s.add("new", every="1h")):
            s.clock.advance("10m")
            with pytest.raises(
                StoreError, match="moves this database to postgresql://everwhen@127"
            ) as caught:
                write()
            assert postgres_url.split(":")[2].split("@")[0] not in str(caught.value)
        assert len(s.jobs()) == jobs  # reading goes on


def test_every_start_on_the_source_names_the_new_address_without_its_password(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = moved.installation.url
    monkeypatch.setenv("EVERWHEN_DATABASE", url)
    scheduler = Scheduler(url)  # opens nothing yet
    for start in (scheduler.start, open_worker_runtime, lambda: open_node_stack(url)):
        with pytest.raises(MovedError, match="was moved to postgresql://everwhen@127") as caught:
            start()
        assert moved.url.split(":")[2].split("@")[0] not in str(caught.value)
        assert caught.value.to.startswith("postgresql://everwhen@")


def test_no_backup_takes_the_place_of_a_file_that_was_moved(
    installation: Installation, postgres_url: str, tmp_path: Path
) -> None:
    backup = tmp_path / "before.backup"
    with closing(open_stack(installation.url)) as stack:
        back_up(stack.runtime, backup)
    move_database(installation.url, postgres_url)
    with pytest.raises(MovedError, match="restore a backup of that one there"):
        restore_database(installation.url, backup)
    with pytest.raises(MovedError):
        open_node_stack(installation.url)


def test_force_takes_the_source_into_use_again(installation: Installation, postgres_url: str) -> None:
    move_database(installation.url, postgres_url)
    open_node_stack(installation.url, is_forced=True).close()
    open_node_stack(installation.url).close()
    with closing(manual_scheduler(MOVED, database=installation.url)) as s:
        s.pause("interval")
        assert s.check().is_clean


def test_asked_again_it_finds_its_copy_and_changes_nothing(
    installation: Installation, postgres_url: str
) -> None:
    first = move_database(installation.url, postgres_url)
    with on_target(postgres_url) as s:
        s.run_until("2026-01-05T11:00:00Z")  # the target lives on
        jobs = len(s.jobs())
        again = move_database(installation.url, postgres_url)
        assert (first.is_new, again.is_new) == (True, False)
        assert len(s.jobs()) == jobs
    with pytest.raises(MovedError):
        open_node_stack(installation.url)


def test_a_source_that_was_moved_goes_nowhere_else_without_force(
    installation: Installation, postgres_url: str, postgres: PostgresServer
) -> None:
    other = postgres.fresh_database()
    move_database(installation.url, postgres_url)
    with pytest.raises(CopyError, match="was moved to postgresql://everwhen@"):
        move_database(installation.url, other)
    assert move_database(installation.url, other, is_forced=True).is_new
    postgres.drop_database(other)


def test_a_large_table_does_not_pile_up_in_memory(tmp_path: Path) -> None:
    """What is in memory is one chunk, however large the table is."""
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        table = SqliteTable(connection, "t", ["n", "data"], ["n"], 0)
        packer = TablePacker(table, ["int8", "bytea"])
        rows = ((n, b"x" * 1_000) for n in range(10_000))
        sizes = [len(data) for data, _ in packer.chunks(rows)]
    assert max(sizes) <= CHUNK + 2_000 and len(sizes) > 30


def test_a_file_that_was_moved_is_backed_up_and_its_copy_is_restored_nowhere(
    moved: Moved, tmp_path: Path
) -> None:
    backup, other = tmp_path / "after.backup", tmp_path / "elsewhere.db"
    with closing(open_stack(moved.installation.url, is_existing=True)) as stack:
        back_up(stack.runtime, backup)
    with closing(open_stack(f"sqlite:///{backup}", is_existing=True)) as stack:
        assert prove(stack.runtime).is_clean
    with pytest.raises(MovedError, match="after that was moved to postgresql://"):
        restore_database(f"sqlite:///{other}", backup)
    assert not other.exists()
