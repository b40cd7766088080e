"""Inside the program's own transaction on PostgreSQL: in effect with its commit, or not at all."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from everwhen import (
    AsyncScheduler,
    ConfigError,
    DuplicateScheduleError,
    RefusedRequestError,
    RequestHandle,
    Scheduler,
    SchedulerError,
    SourceError,
    TimetableError,
    UncommittedRequestError,
    UnknownScheduleError,
)
from tests.scheduler import signatures
from tests.scheduler.waiting import until
from tests.servers.everwhen_database import PostgresDatabase

LONG = 30.0
NEVER = "0 0 1 1 *"


@pytest.fixture
def url(everwhen_on_18: PostgresDatabase) -> str:
    return everwhen_on_18.empty()


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    """One that looks by itself once a minute: whatever happens sooner was notified."""
    with Scheduler(url, name="shop", check_interval=60.0) as running:
        yield running


@pytest.fixture
def idle(url: str) -> Iterator[Scheduler]:
    """One that is not started: nobody carries anything out."""
    scheduler = Scheduler(url, name="shop")
    yield scheduler
    scheduler.close()


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url) as connection:
        yield connection
        connection.rollback()


def written(connection: psycopg.Connection[Any]) -> int:
    ((count,),) = connection.execute("SELECT count(*) FROM requests").fetchall()
    return int(count)


# -- commit, or nothing --


def test_an_added_schedule_appears_with_the_commit_and_fires_once(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    handle = scheduler.add("once", signatures.defaults, after="1s", connection=connection)
    assert (handle.status, handle.result, handle.error) == ("uncommitted", None, None)
    assert scheduler.schedules() == []
    connection.commit()
    assert handle.wait(LONG).id == "once"
    assert handle.status == "done"
    until(lambda: scheduler.get_schedule("once").run_count == 1)
    assert [job.result for job in scheduler.jobs("once")] == ["3"]


def test_a_rollback_leaves_nothing(scheduler: Scheduler, connection: psycopg.Connection[Any]) -> None:
    lost = scheduler.add("lost", signatures.defaults, cron=NEVER, connection=connection)
    connection.rollback()
    kept = scheduler.add("kept", signatures.defaults, cron=NEVER, connection=connection)
    connection.commit()
    kept.wait(LONG)
    assert [one.id for one in scheduler.schedules()] == ["kept"]
    assert (lost.status, written(connection)) == ("uncommitted", 1)


def test_waiting_before_the_commit_is_refused_at_once(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    scheduler.add("a", signatures.defaults, cron=NEVER)
    handle = scheduler.trigger("a", connection=connection)
    with pytest.raises(UncommittedRequestError, match="commit first"):
        handle.wait()
    connection.commit()
    assert handle.wait(LONG).result == "3"


def test_a_trigger_waits_for_its_job_and_merges_the_payload(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    scheduler.add("a", signatures.job_of, cron=NEVER)
    handle = scheduler.trigger("a", {"order": 7}, connection=connection)
    connection.commit()
    ended = handle.wait(LONG)
    assert (ended.status, ended.result) == ("succeeded", handle.job_id)
    assert handle.result == ended


def test_a_trigger_that_makes_no_job_says_why(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    scheduler.add("a", signatures.defaults, cron=NEVER, queue="nobody")
    scheduler.trigger("a")
    handle = scheduler.trigger("a", if_running="skip", connection=connection)
    connection.commit()
    ended = handle.wait(LONG)
    assert (ended.status, ended.skip_reason) == ("skipped", "already_running")


def test_requests_of_one_transaction_are_carried_out_in_their_order(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    scheduler.add("a", signatures.defaults, cron=NEVER)
    removed = scheduler.remove("a", connection=connection)
    added = scheduler.add("a", signatures.defaults, args=[5], cron=NEVER, connection=connection)
    ran = scheduler.trigger("a", connection=connection)
    connection.commit()
    assert ran.wait(LONG).result == "7"
    removed.wait(LONG)
    assert added.wait(LONG).revision == 1
    assert removed.status == "done"


def test_an_update_changes_the_named_keys_and_leaves_what_others_changed_meanwhile(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    scheduler.add("a", signatures.defaults, cron=NEVER, max_retries=2)
    handle = scheduler.update("a", every="1h", name="Sum", connection=connection)
    twice = scheduler.update("a", payload={"n": 1}, connection=connection)
    scheduler.update("a", description="from elsewhere")
    connection.commit()
    assert handle.wait(LONG).id == twice.wait(LONG).id == "a"
    (shown,) = scheduler.schedules()
    assert (shown.trigger, shown.revision) == ("every hour", 4)
    ((words,),) = connection.execute(
        "SELECT words FROM schedule_revisions ORDER BY revision DESC LIMIT 1"
    ).fetchall()
    for part in ('"name":"Sum"', '"description":"from elsewhere"', '"max_retries":2', '\\"n\\": 1'):
        assert part in words


def test_replacing_keeps_the_counters(scheduler: Scheduler, connection: psycopg.Connection[Any]) -> None:
    first = scheduler.add("a", signatures.defaults, cron=NEVER)
    scheduler.trigger("a").wait(LONG)
    handle = scheduler.add(
        "a", signatures.defaults, args=[5], cron=NEVER, replace_existing=True, connection=connection
    )
    new = scheduler.add(
        signatures.greet, id="b", args=["Ada"], cron=NEVER, replace_existing=True, connection=connection
    )
    connection.commit()
    changed = handle.wait(LONG)
    assert (changed.revision, changed.uid, changed.fire_count) == (2, first.uid, 1)
    assert new.wait(LONG).revision == 1


def test_on_a_connection_with_autocommit_it_takes_effect_at_once(scheduler: Scheduler, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        handle = scheduler.add("a", signatures.defaults, cron=NEVER, connection=connection)
        assert handle.wait(LONG).id == "a"
        assert connection.autocommit


# -- refusals --


def test_a_mistake_is_refused_by_the_call_and_nothing_is_written(
    idle: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    idle.add("a", signatures.defaults, cron=NEVER)
    with pytest.raises(SchedulerError, match="often"):
        idle.add("b", signatures.defaults, every="often", connection=connection)
    with pytest.raises(SchedulerError, match="past"):
        idle.add("b", signatures.defaults, at="2001-01-01T00:00:00Z", connection=connection)
    with pytest.raises(ConfigError, match="cannot be imported"):
        idle.add("b", lambda: None, every="1h", connection=connection)
    with pytest.raises(DuplicateScheduleError):
        idle.add("a", signatures.defaults, every="1h", connection=connection)
    with pytest.raises(SchedulerError, match="jitter"):
        idle.update("a", every="1h", jitter="2h", connection=connection)
    with pytest.raises(TimetableError, match="JSON"):
        idle.trigger("a", {"n": {1, 2}}, connection=connection)
    with pytest.raises(UnknownScheduleError):
        idle.update("b", every="1h", connection=connection)
    with pytest.raises(UnknownScheduleError):
        idle.trigger("b", connection=connection)
    with pytest.raises(UnknownScheduleError):
        idle.remove("b", connection=connection)
    assert written(connection) == 0  # and the transaction goes on


def test_what_a_decorator_declares_is_not_changed_by_a_request(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    scheduler.every("1h", id="declared")(signatures.defaults)
    with pytest.raises(SourceError):
        scheduler.update("declared", every="2h", connection=connection)
    with pytest.raises(SourceError):
        scheduler.add(
            "declared", signatures.defaults, every="2h", replace_existing=True, connection=connection
        )


def test_an_id_that_was_taken_before_the_commit_is_refused_then(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    handle = scheduler.add("a", signatures.defaults, every="1h", connection=connection)
    scheduler.add("a", signatures.defaults, args=[5], cron=NEVER)
    connection.commit()
    with pytest.raises(RefusedRequestError, match="duplicate schedule id"):
        handle.wait(LONG)
    assert (handle.status, handle.error) == ("refused", 'duplicate schedule id "a"')
    ((schedule_id, actor, detail),) = connection.execute(
        "SELECT schedule_id, actor, detail FROM audit_events WHERE type = 'request.refused'"
    ).fetchall()
    assert (schedule_id, actor) == ("a", "shop")
    assert detail == {"request_id": handle.request_id, "action": "add", "error": handle.error}
    assert scheduler.trigger("a").wait(LONG).result == "7"


def test_a_schedule_that_was_removed_before_the_commit_is_unknown_then(
    scheduler: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    scheduler.add("a", signatures.defaults, cron=NEVER)
    handles: list[RequestHandle[Any]] = [
        scheduler.trigger("a", connection=connection),
        scheduler.update("a", name="A", connection=connection),
        scheduler.remove("a", connection=connection),
    ]
    scheduler.remove("a")
    connection.commit()
    for handle in handles:
        with pytest.raises(RefusedRequestError, match="not found"):
            handle.wait(LONG)


def test_sqlite_and_other_connections_are_refused(
    idle: Scheduler, connection: psycopg.Connection[Any], url: str
) -> None:
    in_memory = Scheduler("sqlite://", name="shop")
    with pytest.raises(ConfigError, match="needs PostgreSQL"):
        in_memory.add("a", signatures.defaults, every="1h", connection=connection)
    in_memory.close()
    something: Any = object()
    with pytest.raises(ConfigError, match="psycopg 3, not builtins"):
        idle.add("a", signatures.defaults, every="1h", connection=something)

    async def hand_over() -> None:
        asynchronous: Any = await psycopg.AsyncConnection.connect(url)
        async with asynchronous:
            with pytest.raises(ConfigError, match="AsyncScheduler"):
                idle.add("a", signatures.defaults, every="1h", connection=asynchronous)

    asyncio.run(hand_over())


def test_a_connection_to_another_database_is_refused(idle: Scheduler, postgres_url: str) -> None:
    with (
        psycopg.connect(postgres_url) as connection,
        pytest.raises(ConfigError, match="no tables of everwhen"),
    ):
        idle.add("a", signatures.defaults, every="1h", connection=connection)
    other = Scheduler(postgres_url, name="other")
    other.schedules()
    with psycopg.connect(postgres_url) as connection, pytest.raises(ConfigError, match="another database"):
        idle.add("a", signatures.defaults, every="1h", connection=connection)
    other.close()


# -- the program's connection stays the program's --


def test_the_call_locks_nothing_but_its_row_and_changes_no_setting(
    idle: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    idle.add("a", signatures.defaults, cron=NEVER)
    settings = "SELECT name, setting FROM pg_settings ORDER BY name"
    before = connection.execute(settings).fetchall()
    connection.commit()
    idle.add("b", signatures.defaults, every="1h", connection=connection)
    idle.update("a", name="A", connection=connection)
    idle.trigger("a", connection=connection)
    idle.remove("a", connection=connection)
    locks = connection.execute("""
SELECT DISTINCT c.relname, l.mode FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
WHERE l.pid = pg_backend_pid() AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace""").fetchall()
    assert {name for name, _ in locks} == {"requests"}
    assert {mode for _, mode in locks} <= {"RowExclusiveLock", "AccessShareLock"}
    others = connection.execute("""
SELECT locktype FROM pg_locks WHERE pid = pg_backend_pid() AND locktype IN ('advisory', 'tuple', 'object')""")
    assert others.fetchall() == []
    assert connection.execute(settings).fetchall() == before
    assert written(connection) == 4


def test_a_connection_may_have_other_rows_cursors_and_search_paths(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute('CREATE SCHEMA "the Scheduler"')
    url = f"{postgres_url}?options=-csearch_path%3D%22the%5C%20Scheduler%22"
    connection: Any = psycopg.connect(postgres_url, row_factory=dict_row, cursor_factory=psycopg.RawCursor)
    with Scheduler(url, name="shop", check_interval=60.0) as scheduler, connection:
        scheduler.add("a", signatures.defaults, cron=NEVER)
        handle = scheduler.trigger("a", connection=connection)
        with connection.pipeline():
            other = scheduler.trigger("a", connection=connection)
        connection.commit()
        assert (handle.wait(LONG).result, other.wait(LONG).result) == ("3", "3")


# -- asyncio --


def test_an_asyncio_program_awaits_the_same(url: str) -> None:
    async def main() -> None:
        async with AsyncScheduler(url, name="shop", check_interval=60.0) as scheduler:
            async with await psycopg.AsyncConnection.connect(url) as connection:
                added = await scheduler.add("a", signatures.defaults, cron=NEVER, connection=connection)
                ran = await scheduler.trigger("a", connection=connection)
                assert await added.status() == "uncommitted"
                with pytest.raises(UncommittedRequestError):
                    await ran.wait()
                await connection.commit()
                assert (await ran).result == "3"
                assert (await added.wait(LONG)).id == "a"
                assert await ran.job_id() is not None
                changed = await scheduler.update("a", name="Sum", connection=connection)
                await connection.commit()
                assert (await changed).revision == 2
                removed = await scheduler.remove("a", connection=connection)
                await connection.rollback()
                assert await removed.status() == "uncommitted"
                with pytest.raises(UnknownScheduleError):
                    await scheduler.remove("b", connection=connection)
            with psycopg.connect(url) as plain:
                gone = await scheduler.remove("a", connection=plain)
                plain.commit()
                await gone
            assert await scheduler.schedules() == []

    asyncio.run(main())


# -- many processes --


def test_a_program_that_runs_no_scheduler_hands_over_to_one_that_does(
    scheduler: Scheduler, idle: Scheduler, connection: psycopg.Connection[Any]
) -> None:
    handle = idle.add("a", signatures.defaults, cron=NEVER, connection=connection)
    ran = idle.trigger("a", connection=connection)
    connection.commit()
    assert ran.wait(LONG).result == "3"
    assert handle.wait(LONG).revision == 1


def test_a_process_that_is_killed_with_an_open_transaction_leaves_nothing(
    scheduler: Scheduler, url: str
) -> None:
    program = f"""
import os, psycopg, signal
from everwhen import Scheduler
from tests.scheduler import signatures
connection = psycopg.connect({url!r})
Scheduler({url!r}, name="shop").add("a", signatures.defaults, every="1h", connection=connection)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], env=dict(os.environ), check=False)
    assert ended.returncode == -signal.SIGKILL
    with psycopg.connect(url) as connection:
        handle = scheduler.add("b", signatures.defaults, every="1h", connection=connection)
        connection.commit()
        handle.wait(LONG)
        assert written(connection) == 1
    assert [one.id for one in scheduler.schedules()] == ["b"]
