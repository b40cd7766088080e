"""What is no whole backup of the database's kind is refused with a sentence, and nothing is changed."""

from __future__ import annotations

import gzip
import json
import os
import resource
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from everwhen.errors import BackupError, StoreError
from everwhen.model.instants import instant_of
from everwhen.operations.maintenance import back_up as write_backup
from everwhen.operations.maintenance import prove
from everwhen.store.postgres.database import PostgresDatabase
from everwhen.store.postgres.restore import RECORD, back_up, named
from everwhen.store.schema.migrate import migrate
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS as POSTGRES
from everwhen.store.schema.migrations import SQLITE_MIGRATIONS as SQLITE
from everwhen.store.sqlite import files
from everwhen.store.sqlite.database import open_sqlite
from everwhen.testing.manual import ManualClock
from tests.conformance.tenant import START
from tests.restore.places import Place, place_on_sqlite


def backed_up(place: Place) -> list[object]:
    """A backup, and what the database held when it was left."""
    runtime = place.move_in()
    runtime.add("a", every="1m")
    runtime.step()
    place.back_up(runtime)
    runtime.wait_and_step("1m")
    everything = runtime.everything()
    place.leave(runtime)
    return everything


def is_unchanged(place: Place, everything: list[object]) -> bool:
    runtime = place.move_in()
    found = runtime.everything()
    place.leave(runtime)
    return found == everything


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-900])


def garbled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = 4_096 if data.startswith(b"SQLite") else len(data) // 2
    for position in range(start, start + 600):
        data[position] ^= 0x55
    path.write_bytes(data)


def foreign(path: Path) -> None:
    path.write_text("-- a script\n")


def missing(path: Path) -> None:
    path.unlink()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def dumped(path: Path) -> None:
    path.write_bytes(b"PGDMP\x01\x0e\x00")


@pytest.mark.parametrize(
    ("spoil", "fields"),
    [
        (cut_off, "is damaged"),
        (garbled, "is damaged"),
        (foreign, "is not a backup of everwhen"),
        (missing, "cannot be read"),
        (pipe, "is not a file"),
        (dumped, "pg_restore into an empty database"),
    ],
)
def test_a_file_that_is_no_whole_backup_is_refused(
    place: Place, spoil: Callable[[Path], None], fields: str
) -> None:
    everything = backed_up(place)
    spoil(place.backup)
    with pytest.raises(BackupError, match=fields):
        place.restore()
    assert is_unchanged(place, everything)


def test_a_backup_of_the_other_kind_of_database_is_refused(place: Place, tmp_path: Path) -> None:
    everything = backed_up(place)
    is_sqlite = place.url.startswith("sqlite")
    if is_sqlite:
        with gzip.open(place.backup, "wb") as file:
            file.write(b"{}\n")
    else:
        (tmp_path / "other").mkdir()
        other = place_on_sqlite(tmp_path / "other")
        backed_up(other)
        place.backup = other.backup
    expected = "is a backup of PostgreSQL, and" if is_sqlite else "is a backup of SQLite, and"
    with pytest.raises(BackupError, match=expected):
        place.restore()
    assert is_unchanged(place, everything)


def test_the_schema_of_a_release_that_is_not_known_is_refused(place: Place) -> None:
    everything = backed_up(place)
    if place.url.startswith("sqlite"):
        with closing(sqlite3.connect(place.backup)) as connection:
            connection.execute("INSERT INTO everwhen_migrations VALUES (99, 'later', 'before', 0)")
            connection.commit()
    else:
        head, rest = gzip.decompress(place.backup.read_bytes()).split(b"\n", 1)
        fields = json.loads(head)
        fields["applied"].append([99, "before"])
        place.backup.write_bytes(gzip.compress(json.dumps(fields).encode() + b"\n" + rest))
    with pytest.raises(BackupError, match=r"is at migration 99.*newer release"):
        place.restore()
    assert is_unchanged(place, everything)


def test_the_schema_of_the_release_before_is_migrated(place: Place) -> None:
    is_sqlite = place.url.startswith("sqlite")
    if is_sqlite:
        old = open_sqlite(f"sqlite:///{place.backup}")
        migrate(old, SQLITE[:1], applied_at=0)
        old.close()
    else:
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        database = PostgresDatabase(place.url)
        migrate(database, POSTGRES[:1], applied_at=0)
        back_up(database, place.backup, lambda _share: None, place.clock)
        database.close()
        backed_up_beside = place.backup.read_bytes()
        runtime = place.move_in()
        place.leave(runtime)
        place.backup.write_bytes(backed_up_beside)
    restored = place.restore()
    runtime = place.move_in("node-2")
    runtime.add("a", every="1m")
    runtime.step()
    assert runtime.run()[0].number == 1
    assert prove(runtime.runtime).is_clean
    place.leave(runtime)
    assert restored.at == place.clock.now()


def test_a_database_that_is_not_there_or_empty_is_made(place: Place, tmp_path: Path) -> None:
    backed_up(place)
    if place.url.startswith("sqlite"):
        place.url = f"sqlite:///{tmp_path}/new.db"
    else:
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            connection.execute("CREATE TABLE mine (a int); INSERT INTO mine VALUES (1)")
    assert place.restore().schedules == 1
    runtime = place.move_in("node-2")
    assert runtime.state("a").firings == 1
    assert runtime.check().is_clean
    place.leave(runtime)


def test_tables_of_others_and_what_they_were_granted_stay(postgres_url: str, tmp_path: Path) -> None:
    place = Place(postgres_url, tmp_path / "b", ManualClock(START))
    place.leave(place.move_in())
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS mine (a int); INSERT INTO mine VALUES (1)")
        connection.execute("GRANT SELECT ON schedules TO PUBLIC")
        backed_up(place)
        place.restore()
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (1,)
        granted = connection.execute(
            "SELECT count(*) FROM information_schema.table_privileges "
            "WHERE table_name = 'schedules' AND grantee = 'PUBLIC'"
        )
        assert granted.fetchone() == (1,)


def test_every_table_and_every_column_of_the_schema_is_in_a_backup(postgres_url: str, tmp_path: Path) -> None:
    """Another table, made however, fails here until a backup has it."""
    place = Place(postgres_url, tmp_path / "b", ManualClock(START))
    runtime = place.move_in()
    place.back_up(runtime)
    place.leave(runtime)
    with psycopg.connect(postgres_url) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables "
            "USING (table_schema, table_name) WHERE table_schema = 'public' AND table_type = 'BASE TABLE' "
            "AND is_generated = 'NEVER' AND udt_name <> 'xid8'"
        ).fetchall()
    lines = gzip.decompress(place.backup.read_bytes()).split(b"\n")
    heads = [json.loads(line) for line in lines if line.startswith(b'{"table"')]
    assert {(head["table"], name) for head in heads for name in head["columns"]} == set(columns)
    assert {head["table"] for head in heads} == {RECORD, *named("TABLE")}


# -- only SQLite --


@pytest.fixture
def file(sqlite_place: Place) -> Place:
    return sqlite_place


def path_of(place: Place) -> Path:
    return Path(place.url.removeprefix("sqlite:///"))


def test_the_new_file_is_private_and_nothing_is_left_beside_it(file: Place) -> None:
    backed_up(file)
    file.backup.chmod(0o644)
    file.restore()
    folder = file.backup.parent
    assert stat.S_IMODE(path_of(file).stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.iterdir()) == [
        "everwhen.backup",
        "everwhen.db",
        "everwhen.db.lock",
    ]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Every further write of this process fails, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_where_there_is_no_room_no_backup_and_no_database_is_called_damaged(file: Place) -> None:
    everything = backed_up(file)
    with (
        files_of_at_most(65_536),
        pytest.raises(BackupError, match=r"cannot be copied to .*nothing was changed"),
    ):
        file.restore()
    runtime = file.move_in()
    with files_of_at_most(65_536), pytest.raises(BackupError, match="second cannot be written"):
        write_backup(runtime.runtime, file.backup.with_name("second"))
    assert runtime.everything() == everything
    file.leave(runtime)
    beside = {path.name for path in file.backup.parent.iterdir()}
    assert beside == {"everwhen.db", "everwhen.db.lock", "everwhen.backup"}


def test_a_database_that_another_process_has_open_is_not_replaced(file: Place) -> None:
    everything = backed_up(file)
    with closing(sqlite3.connect(path_of(file))) as other:
        other.execute("SELECT count(*) FROM jobs").fetchone()
        with pytest.raises(StoreError, match="is open in another process"):
            file.restore()
    assert is_unchanged(file, everything)


def test_a_damaged_database_is_replaced_and_kept_beside(file: Place) -> None:
    backed_up(file)
    path_of(file).write_bytes(b"not a database at all, " * 400)
    assert file.restore().schedules == 1
    kept = [path for path in file.backup.parent.iterdir() if ".damaged-" in path.name]
    assert len(kept) == 1 and kept[0].read_bytes().startswith(b"not a database")


def test_the_log_of_a_file_that_was_deleted_is_not_taken_for_the_new_one_s(file: Place) -> None:
    runtime = file.move_in()
    runtime.add("a", every="1m")
    runtime.step()
    file.back_up(runtime)
    log = Path(f"{path_of(file)}-wal").read_bytes()
    file.leave(runtime)
    path_of(file).unlink()
    Path(f"{path_of(file)}-wal").write_bytes(log)
    file.restore()
    assert not Path(f"{path_of(file)}-wal").exists()


def test_a_network_file_system_is_refused(file: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = backed_up(file)
    with monkeypatch.context() as patch:
        patch.setattr(files, "file_system_of", lambda *_: "nfs4")
        with pytest.raises(StoreError, match="network file system"):
            file.restore()
    assert is_unchanged(file, everything)


def test_the_database_itself_is_no_backup_of_it(file: Place) -> None:
    backed_up(file)
    file.backup = path_of(file)
    with pytest.raises(BackupError, match="is the database itself"):
        file.restore()


def test_a_copy_that_does_not_say_when_it_was_taken_was_taken_at_its_last_instant(file: Place) -> None:
    backed_up(file)
    with closing(sqlite3.connect(file.backup)) as connection:
        connection.execute("DELETE FROM settings WHERE key = 'backed_up_at'")
        connection.commit()
    assert file.restore().backed_up_at == instant_of(file.clock.moment) - 60_000_000
