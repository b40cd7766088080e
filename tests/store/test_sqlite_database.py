"""One process and its SQLite database: transactions, lanes, snapshots, checkpoints, and errors in our words."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.errors import StoreError
from everwhen.store.lanes import Lane
from everwhen.store.sqlite.database import SqliteDatabase, open_sqlite, path_of
from everwhen.store.sqlite.files import FileLock
from tests.store.notes import a_database, bodies, create_notes, note, noted, noting, until

MEGABYTE = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "everwhen.db"


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    opened = a_database(path)
    yield opened
    opened.close()


@pytest.fixture(params=["file", "memory"])
def either(request: pytest.FixtureRequest, path: Path) -> Iterator[SqliteDatabase]:
    opened = a_database(path if request.param == "file" else None)
    yield opened
    opened.close()


# Transactions


def test_a_write_returns_what_its_work_returns_and_readers_see_it(either: SqliteDatabase) -> None:
    note(either, "first")
    assert either.write(Lane.API, bodies) == ["first"]
    assert noted(either) == ["first"]


def test_work_that_raises_leaves_nothing_behind_and_its_error_reaches_the_caller(
    either: SqliteDatabase,
) -> None:
    def work(connection: sqlite3.Connection) -> None:
        noting("lost")(connection)
        raise LookupError("on purpose")

    with pytest.raises(LookupError, match="on purpose"):
        either.write(Lane.TICK, work)
    note(either, "kept")
    assert noted(either) == ["kept"]


def test_a_broken_constraint_reaches_the_caller_as_sqlite_raised_it(either: SqliteDatabase) -> None:
    note(either, "once")
    with pytest.raises(sqlite3.IntegrityError):
        note(either, "once")
    assert noted(either) == ["once"]


def test_foreign_keys_are_enforced(either: SqliteDatabase) -> None:
    either.write(Lane.API, lambda c: c.execute("CREATE TABLE child (note INTEGER REFERENCES notes (id))"))
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        either.write(Lane.API, lambda c: c.execute("INSERT INTO child VALUES (1)"))


def test_a_write_inside_a_write_is_refused_and_the_writer_stays_usable(either: SqliteDatabase) -> None:
    with pytest.raises(StoreError, match="already has one"):
        either.write(Lane.TICK, lambda connection: note(either, "inner"))
    note(either, "later")
    assert noted(either) == ["later"]


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK", "executescript"])
def test_work_that_ends_the_transaction_itself_gets_an_error(either: SqliteDatabase, ending: str) -> None:
    def work(connection: sqlite3.Connection) -> None:
        if ending == "executescript":
            connection.executescript("SELECT 1;")
        else:
            connection.execute(ending)

    with pytest.raises(StoreError, match="ended the writer's transaction itself"):
        either.write(Lane.API, work)
    note(either, "later")
    assert noted(either) == ["later"]


def test_a_file_is_kept_in_wal_mode_with_full_synchronisation_and_without_automatic_checkpoints(
    database: SqliteDatabase,
) -> None:
    def settings(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "wal_autocheckpoint")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert database.write(Lane.API, settings) == ["wal", 2, 0]


# Lanes


def test_waiting_writes_are_served_by_lane_and_first_come_first_served_within_one(
    either: SqliteDatabase,
) -> None:
    is_held, release = threading.Event(), threading.Event()

    def hold(connection: sqlite3.Connection) -> None:
        is_held.set()
        release.wait()

    holder = threading.Thread(target=either.write, args=(Lane.RETENTION, hold), daemon=True)
    holder.start()
    is_held.wait()
    arrivals = [Lane.RETENTION, Lane.API, Lane.OUTPUT, Lane.TICK, Lane.API, Lane.CLAIM, Lane.SETTLE]
    threads = [queued(either, lane, f"{lane.name} {place}") for place, lane in enumerate(arrivals)]
    release.set()
    for thread in [holder, *threads]:
        thread.join()
    assert noted(either) == ["TICK 3", "SETTLE 6", "CLAIM 5", "API 1", "API 4", "OUTPUT 2", "RETENTION 0"]


def queued(database: SqliteDatabase, lane: Lane, body: str) -> threading.Thread:
    before = database.queue_length
    thread = threading.Thread(target=note, args=(database, body, lane), daemon=True)
    thread.start()
    until(lambda: database.queue_length == before + 1)
    return thread


def test_an_error_in_one_thread_does_not_disturb_the_writes_of_others(database: SqliteDatabase) -> None:
    def write_some(name: str) -> None:
        for count in range(50):
            if count % 5 == 0:
                with pytest.raises(ZeroDivisionError):
                    database.write(Lane.SETTLE, lambda connection: 1 // 0)
            note(database, f"{name} {count}")

    threads = [threading.Thread(target=write_some, args=(name,), daemon=True) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(noted(database)) == sorted(f"{name} {count}" for name in "abc" for count in range(50))


# Readers


def test_a_reader_sees_one_snapshot_and_never_holds_up_the_writer(database: SqliteDatabase) -> None:
    note(database, "before")
    with database.read() as connection:
        assert bodies(connection) == ["before"]
        note(database, "meanwhile")  # by the same thread: had the reader blocked it, it would never return
        assert bodies(connection) == ["before"]
    assert noted(database) == ["before", "meanwhile"]


def test_a_reader_does_not_see_what_is_not_committed(database: SqliteDatabase) -> None:
    def work(connection: sqlite3.Connection) -> list[str]:
        noting("pending")(connection)
        return noted(database)

    assert database.write(Lane.API, work) == []


def test_a_reader_cannot_write(either: SqliteDatabase) -> None:
    with pytest.raises(StoreError, match="only be read here") as refusal, either.read() as connection:
        noting("forbidden")(connection)
    assert isinstance(refusal.value.__cause__, sqlite3.OperationalError)
    note(either, "allowed")
    assert noted(either) == ["allowed"]


def test_an_error_of_a_reader_becomes_a_store_error_and_the_next_read_works(either: SqliteDatabase) -> None:
    with pytest.raises(StoreError, match="no such table: missing"), either.read() as connection:
        connection.execute("SELECT * FROM missing")
    assert noted(either) == []


def test_read_connections_are_used_again_and_readers_inside_readers_have_their_own(
    database: SqliteDatabase,
) -> None:
    with database.read() as outer, database.read() as inner:
        assert outer is not inner
        assert bodies(outer) == bodies(inner) == []
    with database.read() as again:
        assert again in (outer, inner)


def test_many_readers_at_once_are_served_and_only_a_few_connections_are_kept(
    database: SqliteDatabase,
) -> None:
    all_reading = threading.Barrier(12)
    seen: list[list[str]] = []

    def look() -> None:
        with database.read() as connection:
            all_reading.wait()
            seen.append(bodies(connection))

    threads = [threading.Thread(target=look, daemon=True) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [[]] * 12


# Checkpoints


def test_a_write_that_came_alone_folds_a_long_log_back(database: SqliteDatabase, path: Path) -> None:
    first = SqliteDatabase(str(path))  # its first write: nothing was written just before
    first.write(Lane.API, noting(bytes(5 * MEGABYTE)))
    assert path.stat().st_size > 5 * MEGABYTE
    first.close()


def test_a_tick_leaves_the_log_to_an_idle_moment(database: SqliteDatabase, path: Path) -> None:
    first = SqliteDatabase(str(path))
    first.write(Lane.TICK, noting(bytes(5 * MEGABYTE)))
    assert path.stat().st_size < MEGABYTE
    first.fold()
    assert path.stat().st_size > 5 * MEGABYTE
    assert first.checkpoint_error is None
    first.close()


def test_an_idle_moment_leaves_a_short_log_alone(database: SqliteDatabase, path: Path) -> None:
    note(database, "short")
    before = path.stat().st_size
    database.fold()
    assert path.stat().st_size == before


def test_the_log_stays_bounded_however_much_a_burst_writes(database: SqliteDatabase, path: Path) -> None:
    note(database, "empty")
    overwrite = "UPDATE notes SET body = zeroblob(?)"
    for _ in range(45):
        database.write(Lane.TICK, lambda c: c.execute(overwrite, (4 * MEGABYTE,)))
    assert Path(f"{path}-wal").stat().st_size < 70 * MEGABYTE


def test_a_checkpoint_that_fails_does_not_fail_the_write_and_its_error_is_kept_until_one_succeeds(
    database: SqliteDatabase,
) -> None:
    cursors = []

    def work(connection: sqlite3.Connection) -> None:
        noting(bytes(70 * MEGABYTE))(connection)
        noting("second")(connection)
        # A cursor that outlives its turn: SQLite refuses to checkpoint beside it.
        cursors.append(connection.execute("SELECT id FROM notes"))

    database.write(Lane.TICK, work)
    assert "locked" in str(database.checkpoint_error)
    cursors.clear()
    note(database, "third", Lane.TICK)
    assert database.checkpoint_error is None


def test_closing_empties_the_log_and_leaves_the_data(path: Path) -> None:
    database = a_database(path)
    note(database, "kept")
    database.close()
    assert not Path(f"{path}-wal").exists()
    again = a_database(path)
    assert noted(again) == ["kept"]
    again.close()


def test_a_closed_database_says_so_and_closes_twice(either: SqliteDatabase) -> None:
    either.close()
    either.close()
    with pytest.raises(StoreError, match="was closed"):
        note(either, "too late")
    with pytest.raises(StoreError, match="was closed"):
        noted(either)


def test_the_change_counter_of_a_closed_file_says_so(database: SqliteDatabase) -> None:
    database.close()
    with pytest.raises(StoreError, match="was closed"):
        database.change_counter()


def test_closing_beside_a_reader_of_another_connection_neither_waits_nor_fails(path: Path) -> None:
    database = a_database(path, busy_timeout=3_600)  # longer than a test may take
    note(database, "kept")
    other = a_database(path)
    with other.read() as connection:
        assert bodies(connection) == ["kept"]
        note(database, "later")
        database.close()
        assert bodies(connection) == ["kept"]
    assert noted(other) == ["kept", "later"]
    other.close()


def test_closing_empties_the_log_for_those_who_go_on(database: SqliteDatabase, path: Path) -> None:
    other = a_database(path)
    note(other, "kept")
    other.close()
    assert Path(f"{path}-wal").stat().st_size == 0
    assert noted(database) == ["kept"]


def test_a_reader_that_is_still_reading_when_the_database_closes_may_finish(path: Path) -> None:
    database = a_database(path)
    note(database, "kept")
    with database.read() as connection:
        database.close()
        assert bodies(connection) == ["kept"]


# The change counter


def test_the_change_counter_moves_with_every_commit_and_with_nothing_else(either: SqliteDatabase) -> None:
    before = either.change_counter()
    noted(either)
    with pytest.raises(ZeroDivisionError):
        either.write(Lane.API, lambda connection: 1 // 0)
    assert either.change_counter() == before
    note(either, "news")
    after = either.change_counter()
    assert after != before
    assert either.change_counter() == after


def test_a_checkpoint_is_no_change(database: SqliteDatabase) -> None:
    note(database, bytes(5 * MEGABYTE), Lane.TICK)
    before = database.change_counter()
    database.fold()
    assert database.change_counter() == before


# Errors


def test_a_full_disk_fails_the_write_alone_and_the_next_works_once_there_is_space(
    either: SqliteDatabase,
) -> None:
    note(either, "before")
    pages = either.write(Lane.API, lambda c: int(c.execute("PRAGMA page_count").fetchone()[0]))
    either.write(Lane.API, lambda c: c.execute(f"PRAGMA max_page_count = {pages + 2}").fetchone())
    with pytest.raises(StoreError, match=r"no room left.*free some space") as refusal:
        note(either, bytes(MEGABYTE))
    assert isinstance(refusal.value.__cause__, sqlite3.OperationalError)
    assert noted(either) == ["before"]
    either.write(Lane.API, lambda c: c.execute(f"PRAGMA max_page_count = {pages + 1_000}").fetchone())
    note(either, "after")
    assert noted(either) == ["before", "after"]


def test_a_connection_broken_beyond_use_is_opened_again(database: SqliteDatabase) -> None:
    note(database, "before")
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        database.write(Lane.API, lambda connection: connection.close())
    note(database, "after")
    assert noted(database) == ["before", "after"]


def test_a_cursor_that_outlives_its_turn_costs_one_write_at_most(
    database: SqliteDatabase, path: Path
) -> None:
    for body in ("a", "b", "c"):
        note(database, body)
    cursor = database.write(Lane.API, lambda c: c.execute("SELECT id FROM notes"))
    other = a_database(path)
    note(other, "d")
    other.close()
    with pytest.raises(StoreError, match="locked"):
        note(database, "lost")
    note(database, "e")
    assert noted(database) == ["a", "b", "c", "d", "e"]
    del cursor


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: Path) -> None:
    path.write_text("dear diary, " * 1_000)
    with pytest.raises(StoreError, match="not an SQLite database; name another file"):
        SqliteDatabase(str(path))
    assert path.read_text() == "dear diary, " * 1_000


def test_a_damaged_database_is_reported_as_such(path: Path) -> None:
    database = a_database(path)
    rows = [(f"{count:0100}",) for count in range(2_000)]
    database.write(Lane.API, lambda c: c.executemany("INSERT INTO notes (body) VALUES (?)", rows))
    database.close()
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xff" * (len(content) - 4_096)
    path.write_bytes(content)
    damaged = SqliteDatabase(str(path))
    with pytest.raises(StoreError, match=r"damaged.*restore a backup"):
        noted(damaged)
    with pytest.raises(StoreError, match=r"damaged.*restore a backup"):
        damaged.write(Lane.API, bodies)
    damaged.close()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"missing/everwhen\.db does not exist; create it"):
        SqliteDatabase(str(tmp_path / "missing" / "everwhen.db"))


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a directory; name a file"):
        SqliteDatabase(str(tmp_path))


def test_a_write_beside_a_foreign_transaction_ends_in_a_store_error_and_works_afterwards(path: Path) -> None:
    database = a_database(path, busy_timeout=0.02)
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another program keeps it locked"):
        note(database, "blocked")
    shell.execute("ROLLBACK")
    shell.close()
    note(database, "after")
    assert noted(database) == ["after"]
    database.close()


def test_a_writer_that_waits_too_long_for_the_lock_names_it_and_stays_usable(path: Path) -> None:
    patient, impatient = a_database(path), a_database(path, busy_timeout=0.02)

    def work(connection: sqlite3.Connection) -> None:
        noting("first")(connection)
        with pytest.raises(StoreError, match=r"everwhen\.db\.lock was held by another process"):
            note(impatient, "blocked")

    patient.write(Lane.API, work)
    note(impatient, "second")
    assert noted(patient) == ["first", "second"]
    patient.close()
    impatient.close()


def test_a_checkpoint_waits_for_the_lock_like_any_write(path: Path) -> None:
    database = a_database(path, busy_timeout=0.02)
    lock = FileLock(f"{path}.lock", timeout=1)
    with lock, pytest.raises(StoreError, match="was held by another process"):
        database.fold()
    lock.close()
    database.close()


def test_closing_beside_a_held_lock_leaves_the_log_to_its_holder_and_does_not_fail(path: Path) -> None:
    database = a_database(path, busy_timeout=0.02)
    other = a_database(path)
    note(database, "kept")
    other.write(Lane.API, lambda connection: database.close())
    assert noted(other) == ["kept"]
    other.close()


def test_two_names_of_one_file_share_one_lock(path: Path, tmp_path: Path) -> None:
    database = a_database(path)
    (tmp_path / "alias.db").symlink_to(path)
    alias = a_database(tmp_path / "alias.db", busy_timeout=0.02)

    def work(connection: sqlite3.Connection) -> None:
        with pytest.raises(StoreError, match=r"everwhen\.db\.lock"):
            note(alias, "blocked")

    database.write(Lane.API, work)
    assert not (tmp_path / "alias.db.lock").exists()
    alias.close()
    database.close()


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_a_file_that_went_away_is_not_written_to_in_silence(
    database: SqliteDatabase, path: Path, fate: str
) -> None:
    note(database, "before")
    path.rename(path.with_suffix(".moved"))
    if fate == "replaced":
        path.touch()
    with pytest.raises(StoreError, match="deleted, moved or replaced"):
        note(database, "lost")
    path.with_suffix(".moved").rename(path)
    note(database, "after")
    assert noted(database) == ["before", "after"]


def test_a_name_full_of_special_characters_is_only_a_name(tmp_path: Path) -> None:
    database = a_database(tmp_path / "50% of #1, really?mode=memory.db")
    note(database, "kept")
    assert noted(database) == ["kept"]
    database.close()
    assert (tmp_path / "50% of #1, really?mode=memory.db").is_file()


# Memory


def test_two_databases_in_memory_share_nothing() -> None:
    one, other = open_sqlite("sqlite://"), open_sqlite("sqlite://")
    one.write(Lane.API, create_notes)
    with pytest.raises(StoreError, match="in memory answered “no such table: notes”"):
        noted(other)
    one.close()
    other.close()


def test_in_memory_a_read_is_a_turn_and_refused_inside_another() -> None:
    database = a_database(None)
    with pytest.raises(StoreError, match="already has one"):
        database.write(Lane.API, lambda connection: noted(database))
    with pytest.raises(StoreError, match="already has one"), database.read():
        note(database, "inner")
    assert noted(database) == []
    database.fold()
    database.close()


def test_in_memory_threads_see_the_same_data() -> None:
    database = a_database(None)
    threads = [threading.Thread(target=note, args=(database, str(count)), daemon=True) for count in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(noted(database), key=int) == [str(count) for count in range(20)]
    database.close()


# Addresses


def test_a_url_names_a_relative_or_an_absolute_file_or_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///relative.db", f"sqlite:///{tmp_path}/absolute.db", "sqlite://"):
        open_sqlite(url).close()
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.suffix == ".db") == [
        "absolute.db",
        "relative.db",
    ]


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("sqlite:///", "does not name a file"),
        ("sqlite:///:memory:", "sqlite:// for memory"),
        ("sqlite://everwhen.db", "write sqlite:///everwhen.db"),
        ("sqlite:///a.db?mode=ro", "takes no options"),
        ("sqlite:///a\x00.db", "nothing more"),
        ("postgresql://me:secret@host/db", "does not name an SQLite file"),
        ("mysql://me:secret@host/db", "or postgresql://USER:PASSWORD@HOST/DATABASE"),
        ("postgresql:me:secret@host/db", "“postgresql:…@host/db” does not name an SQLite file"),
        ("everwhen.db", "“everwhen.db” does not name an SQLite file"),
        ("", "does not name an SQLite file"),
    ],
)
def test_any_other_url_is_refused_with_the_right_way_to_write_it(url: str, answer: str) -> None:
    with pytest.raises(StoreError) as refusal:
        path_of(url)
    assert answer in str(refusal.value)
    assert "secret" not in str(refusal.value)
