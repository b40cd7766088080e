"""Whatever a file claims about itself, a restore of it succeeds, or is refused with a sentence and changes nothing."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from everwhen.errors import BackupError
from everwhen.store.backup_file import BackupReader, BackupWriter, Header, refuse_other_kind
from tests.restore.places import Place
from tests.restore.test_files import backed_up, is_unchanged

HEADER = {"everwhen_backup": 1, "taken_at": 0, "version": "0", "applied": [[1, "before"]]}
TABLE = b'{"table": "a", "columns": ["b"]}\n'
END = b'{"tables": 1}\n'


def header(**fields: object) -> bytes:
    return json.dumps({**HEADER, **fields}).encode() + b"\n"


def read(path: Path) -> list[tuple[str, bytes]]:
    """Read all of a file, as a restore does."""
    refuse_other_kind(path, is_postgres=True)
    with BackupReader(path) as reader:
        reader.header()
        return [(table.name, b"".join(table.pieces)) for table in reader.tables()]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"[]\n",
        b"null\n",
        b'"everwhen_backup"\n',
        b"[" * 900_000 + b"\n",
        b"{" * 2_000_000,
        b"\xff\xfe\n",
        header(everwhen_backup=0),
        header(everwhen_backup="1"),
        header(everwhen_backup=None),
        header(everwhen_backup=True),
        header(taken_at=10**30),
        header(taken_at=-1),
        header(taken_at=None),
        header(taken_at=[1]),
        header(taken_at="1"),
        header(taken_at=float("inf")),
        header(taken_at=float("nan")),
        header(version=None),
        header(applied=None),
        header(applied=1),
        header(applied=[1]),
        header(applied=[[1]]),
        header(applied=[[1.5, "before"]]),
        header(applied=[["1", "before"]]),
        header(applied=[[1, None]]),
        header(),
        header() + TABLE,
        header() + TABLE + b"0\n",
        header() + TABLE + b"-1\n" + END,
        header() + TABLE + b"9" * 10_000 + b"\n",
        header() + TABLE + b"9999999999\n",
        header() + TABLE + b"1073741824\nshort",
        header() + TABLE + b"\xc2\xb2\n",
        header() + TABLE + b"4\nab\n0\n" + END,
        header() + b'{"table": "a"}\n0\n' + END,
        header() + b'{"table": "a", "columns": 5}\n0\n' + END,
        header() + b'{"table": "a", "columns": "bc"}\n0\n' + END,
        header() + b'{"table": "a", "columns": []}\n0\n' + END,
        header() + b'{"table": "a", "columns": [1]}\n0\n' + END,
        header() + b'{"table": "a", "columns": ["b", "b"]}\n0\n' + END,
        header() + b'{"table": null, "columns": ["b"]}\n0\n' + END,
        header() + TABLE + b"0\n" + b'{"tables": 2}\n',
        header() + TABLE + b"0\n" + END + b"more",
    ],
    ids=lambda data: data[-40:].decode(errors="replace").strip() or "nothing",
)
def test_a_forged_backup_is_refused_with_what_is_wrong_and_what_to_do(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "forged"
    path.write_bytes(gzip.compress(data))
    with pytest.raises(
        BackupError, match=r"forged is (damaged: .*; restore another backup|no backup of everwhen)"
    ):
        read(path)


def test_a_backup_of_a_later_format_names_the_newer_release(tmp_path: Path) -> None:
    path = tmp_path / "later"
    path.write_bytes(gzip.compress(header(everwhen_backup=2)))
    with pytest.raises(BackupError, match="written by a newer release of everwhen; restore it with that one"):
        read(path)


def test_whatever_bit_is_flipped_or_wherever_it_is_cut_it_is_refused_or_read_as_written(
    tmp_path: Path,
) -> None:
    path, luck = tmp_path / "damaged", Random(16)
    with BackupWriter(path, Header(1, "0", frozenset({(1, "before")}))) as writer:
        writer.write_table("a", ["b"], (b"%d\n" % number for number in range(500)))
        writer.write_table("c", ["d"], iter(()))
    whole, written = path.read_bytes(), read(path)
    spoiled = [whole[:length] for length in range(0, len(whole), 7)]
    for _ in range(400):
        position = luck.randrange(len(whole))
        spoiled.append(
            bytes([*whole[:position], whole[position] ^ 1 << luck.randrange(8), *whole[position + 1 :]])
        )
    refused = 0
    for data in spoiled:
        path.write_bytes(data)
        try:
            assert (
                read(path) == written
            )  # a flag or the time in the head of gzip says nothing about the content
        except BackupError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > len(spoiled) * 9 // 10


def empty(path: Path) -> None:
    path.write_bytes(b"")


def loop(path: Path) -> None:
    path.symlink_to(path)


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def folder(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [empty, loop, link_to_pipe, link_to_nothing, folder, device])
def test_what_is_no_plain_file_is_refused_on_both_databases(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "odd"
    make(path)
    for is_postgres in (False, True):
        with pytest.raises(BackupError, match=r"odd (is no|cannot be read).*nothing was changed"):
            refuse_other_kind(path, is_postgres=is_postgres)


def test_a_link_to_a_backup_is_restored(sqlite_place: Place, tmp_path: Path) -> None:
    backed_up(sqlite_place)
    link = tmp_path / "link"
    link.symlink_to(sqlite_place.backup)
    sqlite_place.backup = link
    assert sqlite_place.restore().schedules == 1


ENDLESS_VIEW = """
ALTER TABLE everwhen_migrations RENAME TO kept;
CREATE VIEW everwhen_migrations AS
WITH RECURSIVE n(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n) SELECT number, 'before' AS step FROM n
"""
HIDDEN_VIEW = """
PRAGMA writable_schema = ON;
UPDATE sqlite_master SET sql = 'create /**/ view settings as select 1', rootpage = 0 WHERE name = 'settings'
"""


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE settings SET value = 'yesterday' WHERE key = 'backed_up_at'",
        "UPDATE settings SET value = '9999999999999999999999' WHERE key = 'backed_up_at'",
        "INSERT INTO settings VALUES ('numbers_skipped', 'many')",
        "DELETE FROM everwhen_migrations",
        "DELETE FROM everwhen_migrations WHERE number = 1",
        "UPDATE everwhen_migrations SET step = 'between'",
        "ALTER TABLE everwhen_migrations RENAME COLUMN step TO stop",
        "DROP TABLE jobs",
        "DROP TABLE settings",
        "ALTER TABLE schedules RENAME COLUMN uid TO uuid",
        ENDLESS_VIEW,
        "ALTER TABLE jobs RENAME TO kept; CREATE VIEW Jobs AS SELECT * FROM kept",
        "DROP TABLE job_output; CREATE VIRTUAL TABLE job_output USING fts5(job_id, attempt, stream, at, data)",
        "DROP VIEW schedule_entries; CREATE VIEW schedule_entries AS SELECT secret FROM schedules",
        HIDDEN_VIEW,
    ],
)
def test_a_forged_sqlite_backup_is_refused_and_nothing_is_changed(
    sqlite_place: Place, statement: str
) -> None:
    everything = backed_up(sqlite_place)
    with closing(sqlite3.connect(sqlite_place.backup)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.executescript(statement)
        connection.commit()
    with pytest.raises(
        BackupError, match=r"everwhen.backup is damaged: .*restore another backup; nothing was changed"
    ):
        sqlite_place.restore()
    assert is_unchanged(sqlite_place, everything)
    beside = {path.name for path in sqlite_place.backup.parent.iterdir()}
    assert beside <= {"everwhen.db", "everwhen.db.lock", "everwhen.backup"}


@pytest.mark.parametrize(
    "trigger",
    [
        "CREATE TRIGGER a AFTER INSERT ON audit_events BEGIN DELETE FROM audit_events; END",
        "CREATE TRIGGER everwhen_moved_jobs_insert AFTER UPDATE ON schedules BEGIN DELETE FROM tokens; END",
        "CREATE TRIGGER b INSTEAD OF INSERT ON outbox BEGIN SELECT 1; END",
        "CREATE TABLE theirs (id); CREATE TRIGGER c AFTER INSERT ON theirs BEGIN DELETE FROM tokens; END",
    ],
)
def test_a_backup_that_would_go_on_acting_by_itself_is_refused(sqlite_place: Place, trigger: str) -> None:
    everything = backed_up(sqlite_place)
    with closing(sqlite3.connect(sqlite_place.backup)) as connection:
        connection.executescript(trigger)
    with pytest.raises(BackupError, match=r"has a trigger, .*; nothing was changed"):
        sqlite_place.restore()
    assert is_unchanged(sqlite_place, everything)


def test_tables_of_a_program_in_the_same_file_are_restored_with_it(sqlite_place: Place) -> None:
    backed_up(sqlite_place)
    with closing(sqlite3.connect(sqlite_place.backup)) as connection:
        connection.executescript(
            "CREATE TABLE theirs (id); CREATE INDEX i ON theirs (id); CREATE VIEW v AS SELECT 1"
        )
    assert sqlite_place.restore().schedules == 1


def test_forged_rows_of_postgresql_are_refused_and_nothing_is_changed(postgres_place: Place) -> None:
    everything = backed_up(postgres_place)
    whole = gzip.decompress(postgres_place.backup.read_bytes())
    head = json.loads(whole.split(b"\n", 1)[0])
    for forged in _forged(whole, head):
        postgres_place.backup.write_bytes(gzip.compress(forged))
        with pytest.raises(BackupError, match="nothing was changed"):
            postgres_place.restore()
    assert is_unchanged(postgres_place, everything)
    postgres_place.backup.write_bytes(gzip.compress(whole))
    assert postgres_place.restore().schedules == 1


def _forged(whole: bytes, head: dict[str, Any]) -> list[bytes]:
    rest = whole.split(b"\n", 1)[1]
    tables = whole.count(b'{"table": ')
    start = whole.index(b'{"table": "jobs"')
    after = whole.index(b'{"table": ', start + 1)
    without_jobs = (whole[:start] + whole[after:]).replace(
        b'{"tables": %d}' % tables, b'{"tables": %d}' % (tables - 1)
    )
    return [
        json.dumps({**head, "applied": [[2, "before"]]}).encode() + b"\n" + rest,
        json.dumps({**head, "applied": [[1, "between"]]}).encode() + b"\n" + rest,
        json.dumps({**head, "applied": []}).encode() + b"\n" + rest,
        without_jobs,
        whole.replace(b'{"table": "jobs", "columns": ["', b'{"table": "jobs", "columns": ["x'),
        whole.replace(b'{"table": "settings"', b'{"table": "pg_class"'),
        whole.replace(b"\tactive\t", b"\tnumber\t"),
    ]
