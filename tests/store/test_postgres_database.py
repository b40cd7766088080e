"""PostgreSQL under a store: exact instants, whole transactions, lost races and lost connections."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from threading import Barrier, Thread
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import Connection

from everwhen.errors import StoreError
from everwhen.store.postgres.adapters import At, Flags, Instants, Integers, Texts
from everwhen.store.postgres.database import (
    ATTEMPTS,
    MOST_CONNECTIONS,
    PostgresDatabase,
    describe_connection,
    where,
)
from tests.servers.postgres import PostgresServer
from tests.targets.running import until

INSTANTS = st.integers(-(1 << 55), (1 << 57))


@pytest.fixture(scope="module")
def database(postgres: Any) -> Iterator[PostgresDatabase]:
    url = postgres.fresh_database()
    found = PostgresDatabase(url)
    found.transact(lambda c: c.execute("CREATE TABLE notes (id int PRIMARY KEY, text text)"))
    yield found
    found.close()
    postgres.drop_database(url)


@pytest.fixture(autouse=True)
def two_notes(database: PostgresDatabase) -> None:
    database.transact(lambda c: c.execute("DELETE FROM notes"))
    database.transact(lambda c: c.execute("INSERT INTO notes VALUES (1, 'a'), (2, 'b')"))


def rows(database: PostgresDatabase, query: str, *values: object) -> list[Any]:
    with database.connection() as connection:
        return connection.cursor(binary=True).execute(query.encode(), values).fetchall()


def texts(database: PostgresDatabase) -> list[str]:
    return [row[0] for row in rows(database, "SELECT text FROM notes ORDER BY id")]


@settings(max_examples=60, deadline=None)
@given(instant=INSTANTS, several=st.lists(st.none() | INSTANTS, min_size=1, max_size=9))
def test_an_instant_comes_back_to_the_microsecond(
    database: PostgresDatabase, instant: int, several: list[int | None]
) -> None:
    assert rows(database, "SELECT %s", At(instant)) == [(instant,)]
    assert rows(database, "SELECT unnest(%s)", Instants(several)) == [(one,) for one in several]


def backend(database: PostgresDatabase) -> int:
    found: int = database.ask("SELECT pg_backend_pid()")[0][0]
    return found


def test_single_questions_go_to_one_connection_however_many_there_are(database: PostgresDatabase) -> None:
    with database.connection(), database.connection(), database.connection():
        pass
    assert len({backend(database) for _ in range(10)}) == 1


_LOSE = """
CREATE OR REPLACE FUNCTION pg_temp.lose(state text) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'lost a race' USING ERRCODE = state; END $$"""


def lose_in_a_connection(database: PostgresDatabase, state: str) -> None:
    with database.connection() as connection:
        connection.execute(_LOSE)
        connection.execute("SELECT pg_temp.lose(%s)", [state])


def lose_in_a_snapshot(database: PostgresDatabase, state: str) -> None:
    with database.snapshot() as connection:
        connection.execute(f"ROLLBACK; {_LOSE}; BEGIN")
        connection.execute("SELECT pg_temp.lose(%s)", [state])


@pytest.mark.parametrize("lose", [lose_in_a_connection, lose_in_a_snapshot])
@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_race_that_is_lost_outside_a_transaction_is_an_error_of_the_store(
    database: PostgresDatabase, lose: Callable[[PostgresDatabase, str], None], state: str
) -> None:
    with pytest.raises(StoreError, match=r"gave another transaction the precedence .lost a race.*try again"):
        lose(database, state)
    assert texts(database) == ["a", "b"]


def test_a_transaction_that_was_idle_for_too_long_runs_again(database: PostgresDatabase) -> None:
    backends: list[int] = []

    def write(connection: Connection[Any]) -> None:
        connection.execute("UPDATE notes SET text = text || '!'")
        backends.append(connection.info.backend_pid)
        if len(backends) == 1:
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
            alive = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
            until(lambda: not rows(database, alive, backends[0]))

    database.transact(write)
    assert len(set(backends)) == 2
    assert texts(database) == ["a!", "b!"]


def test_a_question_does_not_wait_for_another_one(database: PostgresDatabase) -> None:
    with database.connection() as holder:
        holder.execute("BEGIN")
        holder.execute("SELECT pg_advisory_xact_lock(7)")
        waiting = Thread(target=lambda: database.ask("SELECT pg_advisory_xact_lock(7)"))
        waiting.start()
        while not database.ask("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
            pass
        assert database.ask("SELECT 1") == [(1,)]
        holder.execute("ROLLBACK")
    waiting.join()


def test_a_question_finds_another_connection_when_its_own_is_gone(database: PostgresDatabase) -> None:
    gone = backend(database)
    rows(database, "SELECT pg_terminate_backend(%s, 5000)", gone)
    with pytest.raises(StoreError, match="was lost"):
        backend(database)
    assert backend(database) != gone


def test_closing_leaves_no_connection_behind(postgres: Any, database: PostgresDatabase) -> None:
    closed = PostgresDatabase(database.url)
    own = backend(closed)
    closed.close()
    query = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
    while rows(database, query, own) != [(0,)]:
        pass  # the server takes a moment
    with pytest.raises(StoreError, match="was closed"):
        backend(closed)


def test_an_instant_is_what_the_server_takes_it_for(database: PostgresDatabase) -> None:
    second = 1_774_735_200
    query = "SELECT to_char(%s AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
    assert rows(database, query, At(second * 1_000_000 + 1)) == [("2026-03-28 22:00:00.000001",)]


@settings(max_examples=60, deadline=None)
@given(fields=st.lists(st.none() | st.text(max_size=20), min_size=1, max_size=9))
def test_texts_come_back_but_for_what_postgresql_cannot_hold(
    database: PostgresDatabase, fields: list[str | None]
) -> None:
    kept = [None if w is None else w.replace("\0", "\ufffd") for w in fields]
    assert [row[0] for row in rows(database, "SELECT unnest(%s)", Texts(fields))] == kept


def test_a_lone_surrogate_does_not_lose_the_rest(database: PostgresDatabase) -> None:
    assert rows(database, "SELECT unnest(%s)", Texts(["a\ud800b"])) == [("a?b",)]


def test_numbers_and_flags_come_back(database: PostgresDatabase) -> None:
    numbers, flags = [0, -1, 1 << 62, None], [True, False, True, False]
    found = rows(database, "SELECT * FROM unnest(%s, %s)", Integers(numbers), Flags(flags))
    assert found == list(zip(numbers, flags, strict=True))


def test_work_that_raises_leaves_nothing(database: PostgresDatabase) -> None:
    def work(connection: Connection[Any]) -> None:
        connection.execute("DELETE FROM notes")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.transact(work)
    assert texts(database) == ["a", "b"]


def test_a_transaction_that_lost_a_deadlock_runs_again(database: PostgresDatabase) -> None:
    barrier = Barrier(2)
    attempts: list[int] = []

    def crosswise(first: int, second: int) -> None:
        def work(connection: Connection[Any]) -> None:
            attempts.append(first)
            connection.execute("UPDATE notes SET text = text || 'x' WHERE id = %s", (first,))
            if len(attempts) <= 2:
                barrier.wait(30)  # both hold one row, and want the other's
            connection.execute("UPDATE notes SET text = text || 'y' WHERE id = %s", (second,))

        database.transact(work)

    threads = [Thread(target=crosswise, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # The loser may take its row again before the winner wakes up, and lose once more.
    assert len(attempts) > 2
    assert [sorted(text) for text in texts(database)] == [["a", "x", "y"], ["b", "x", "y"]]


def test_a_change_of_the_schema_gives_way_to_nodes_that_lock_its_tables_in_another_order(
    database: PostgresDatabase,
) -> None:
    """Each round of the node would be a deadlock, whose victim is the one that waits longer: the change."""
    database.transact(lambda c: c.execute("CREATE TABLE first (a integer); CREATE TABLE second (a integer)"))
    script = "ALTER TABLE first ADD COLUMN b integer; ALTER TABLE second ADD COLUMN b integer;"
    failed: list[Exception] = []

    def change() -> None:
        try:
            database.build(lambda builder: builder.run(script))
        except Exception as error:
            failed.append(error)

    changing = Thread(target=change)
    with psycopg.connect(database.url) as node, psycopg.connect(database.url, autocommit=True) as watcher:
        for number in range(ATTEMPTS):
            node.execute("LOCK TABLE second IN ROW EXCLUSIVE MODE")
            if number == 0:
                changing.start()
            while changing.is_alive() and not _waits_for_a_table(watcher):
                pass
            node.execute("LOCK TABLE first IN ROW EXCLUSIVE MODE")
            node.commit()
    changing.join()
    assert not failed
    assert database.ask("SELECT b FROM first") == database.ask("SELECT b FROM second") == []


def _waits_for_a_table(watcher: Connection[Any]) -> bool:
    query = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    return watcher.execute(query).fetchone() is not None


def test_a_lost_connection_is_a_store_error_and_the_next_request_works(database: PostgresDatabase) -> None:
    def work(connection: Connection[Any]) -> None:
        connection.execute("DELETE FROM notes")
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreError, match="was lost"):
        database.transact(work)
    assert texts(database) == ["a", "b"]


def test_idle_connections_that_were_lost_cost_one_request_at_most(database: PostgresDatabase) -> None:
    texts(database)
    with psycopg.connect(database.url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'everwhen'"
        )
    try:
        texts(database)
    except StoreError:
        assert texts(database) == ["a", "b"]


def test_a_broken_constraint_passes_as_it_is(database: PostgresDatabase) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        database.transact(lambda c: c.execute("INSERT INTO notes VALUES (1, 'again')"))


def test_a_statement_that_is_refused_says_where_and_shows_no_password(database: PostgresDatabase) -> None:
    with pytest.raises(StoreError, match='relation "nothing" does not exist') as raised:
        database.transact(lambda c: c.execute("SELECT * FROM nothing"))
    password = database.url.split(":")[2].split("@")[0]
    assert password not in str(raised.value)
    assert where(database.url) in str(raised.value)


def test_settings_hold_on_every_connection(database: PostgresDatabase) -> None:
    names = ("plan_cache_mode", "synchronous_commit", "lock_timeout", "idle_in_transaction_session_timeout")
    found = rows(database, "SELECT current_setting(name) FROM unnest(%s) AS name", Texts(names))
    assert found == [("force_generic_plan",), ("on",), ("20s",), ("5s",)]


def test_a_url_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        PostgresDatabase("postgresql://[")


def test_a_server_that_refuses_says_why_at_once(database: PostgresDatabase) -> None:
    with pytest.raises(StoreError, match=r"refuses connections .*password authentication failed"):
        PostgresDatabase(database.url.replace("everwhen:", "everwhen:not-"), patience=3_600)


def test_whoever_waits_for_a_server_looks_again_and_again_whether_it_is_back() -> None:
    """The pool by itself would wait twice as long each time, beside a server that has long been back."""
    asked: list[None] = []

    def hang_up(listening: socket.socket) -> None:
        with suppress(OSError):  # closed: the test is over
            while True:
                listening.accept()[0].close()
                asked.append(None)

    def wait_for_it(database: PostgresDatabase) -> None:
        with suppress(StoreError):  # closed: the test is over
            database.transact(lambda c: c.execute("SELECT 1"))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        Thread(target=hang_up, args=(listening,), daemon=True).start()
        port = listening.getsockname()[1]
        url = f"postgresql://everwhen@127.0.0.1:{port}/e?sslmode=disable&gssencmode=disable"
        with closing(PostgresDatabase(url, patience=3_600)) as database:
            waiting = Thread(target=wait_for_it, args=(database,), daemon=True)
            waiting.start()
            until(lambda: len(asked) > 20)  # with the pauses of the pool that takes minutes
        waiting.join(60)
        with (
            closing(PostgresDatabase(url, patience=0.5)) as hurried,
            pytest.raises(StoreError, match=r"gave no connection within 0\.5s"),
        ):
            hurried.transact(lambda c: c.execute("SELECT 1"))
        listening.shutdown(socket.SHUT_RDWR)


def test_a_database_without_a_free_connection_says_so(database: PostgresDatabase) -> None:
    hurried = PostgresDatabase(database.url, patience=5.0)  # also for each connection that is opened
    with closing(hurried), ExitStack() as held:
        for _ in range(MOST_CONNECTIONS):
            held.enter_context(hurried.connection())
        with pytest.raises(StoreError, match="all connections are in use"):
            hurried.ask("SELECT 1")


def test_a_server_that_went_silent_is_noticed_within_seconds(database: PostgresDatabase) -> None:
    """What the kernel was told; a cable that is pulled out is more than a test may do to a machine."""
    with database.connection() as connection, socket.socket(fileno=os.dup(connection.fileno())) as plug:
        assert plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
        assert plug.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [plug.getsockopt(socket.IPPROTO_TCP, name) for name in names] == [5, 2, 3]


def test_a_server_that_hangs_while_its_kernel_goes_on_is_waited_for_so_long_and_no_longer(
    database: PostgresDatabase,
) -> None:
    impatient = PostgresDatabase(database.url, longest_wait=0.5)
    with closing(impatient):
        hung = [backend(impatient)]

        def hang(connection: Connection[Any]) -> None:
            hung.append(connection.info.backend_pid)
            connection.execute("DELETE FROM notes")
            os.kill(hung[-1], signal.SIGSTOP)
            connection.execute("DELETE FROM notes")

        try:
            os.kill(hung[0], signal.SIGSTOP)
            with pytest.raises(StoreError, match=r"was lost \(no answer within 0.5s\)"):
                impatient.ask("SELECT 1")
            with pytest.raises(StoreError, match="no answer within"):
                impatient.transact(hang)
        finally:
            for process in hung:
                os.kill(process, signal.SIGCONT)
        assert texts(impatient) == ["a", "b"]


def test_what_a_url_says_about_silence_stays(database: PostgresDatabase) -> None:
    fields = describe_connection(f"{database.url}?tcp_user_timeout=77&options=-c%20work_mem%3D1MB")
    assert "tcp_user_timeout" not in fields
    assert fields["keepalives_idle"] == 5
    assert fields["options"].endswith(" -c work_mem=1MB")


def test_a_server_that_is_back_after_an_outage_is_used_at_once() -> None:
    """A pool that were left alone would try again after 1, 3, 7, 15 … seconds."""
    with PostgresServer(18) as server, closing(PostgresDatabase(server.url, patience=0.5)) as database:
        database.ask("SELECT 1")
        server.stop()
        down = time.monotonic()
        while time.monotonic() - down < 3.5:
            with pytest.raises(StoreError, match=r"was lost|gave no connection.*refused"):
                database.ask("SELECT 1")
        server.start()
        until(lambda: answers(database))


def answers(database: PostgresDatabase) -> bool:
    try:
        return bool(database.ask("SELECT 1"))
    except StoreError:
        return False


def test_the_pool_writes_no_lines_of_its_own_where_nobody_asked_for_logs() -> None:
    assert logging.getLogger("psycopg.pool").handlers


def test_a_row_that_somebody_keeps_is_no_lost_connection(database: PostgresDatabase) -> None:
    hurried = PostgresDatabase(
        f"{database.url}?options=-c%20lock_timeout%3D50ms%20-c%20statement_timeout%3D2s"
    )
    with closing(hurried), database.connection() as keeper:
        keeper.execute("BEGIN; SELECT * FROM notes FOR UPDATE")
        try:
            with pytest.raises(StoreError, match="another transaction kept a row"):
                hurried.transact(lambda c: c.execute("DELETE FROM notes"))
        finally:
            keeper.execute("ROLLBACK")
        with pytest.raises(StoreError, match=r"ended a statement .*statement timeout"):
            hurried.ask("SELECT pg_sleep(30)::text")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s#cret/secret@127.0.0.1/db",
        "postgresql://me:sec/ret@127.0.0.1/db",
        "postgresql://me:secret%zz@127.0.0.1/db",
        "postgresql://me@127.0.0.1/db?password=secret&nothing=@127.0.0.1",
    ],
)
def test_a_mistyped_url_shows_nothing_of_its_password(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be read") as raised:
        PostgresDatabase(url)
    assert not any(word in str(raised.value) for word in ("secret", "s#cret", "sec/", "ret@"))
