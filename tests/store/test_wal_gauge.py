"""How far the log reaches, told by its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from everwhen.store.sqlite.connection import connect_writer
from everwhen.store.sqlite.files import WalGauge

MEGABYTE = 1 << 20


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = connect_writer(str(tmp_path / "a.db"), 1, create=True)
    opened.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, body BLOB)")
    yield opened
    opened.close()


@pytest.fixture
def gauge(tmp_path: Path) -> Iterator[WalGauge]:
    made = WalGauge(str(tmp_path / "a.db"))
    yield made
    made.close()


def test_a_log_outgrows_what_was_written_to_it(connection: sqlite3.Connection, gauge: WalGauge) -> None:
    assert not gauge.outgrows(MEGABYTE)
    write_megabytes(connection, 2)
    assert gauge.outgrows(MEGABYTE)
    assert not gauge.outgrows(3 * MEGABYTE)


def test_a_log_that_began_again_is_small_though_its_file_is_not(
    connection: sqlite3.Connection, gauge: WalGauge, tmp_path: Path
) -> None:
    write_megabytes(connection, 4)
    gauge.fold_seen(checkpoint(connection))
    write_megabytes(connection, 1)
    assert (tmp_path / "a.db-wal").stat().st_size > 4 * MEGABYTE
    assert not gauge.outgrows(2 * MEGABYTE)
    write_megabytes(connection, 2)
    assert gauge.outgrows(2 * MEGABYTE)


def test_a_log_that_a_reader_pins_is_worth_folding_again_only_when_it_has_grown(
    connection: sqlite3.Connection, gauge: WalGauge, tmp_path: Path
) -> None:
    reader = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    write_megabytes(connection, 1)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM notes").fetchone()
    write_megabytes(connection, 2)
    assert gauge.outgrows(2 * MEGABYTE)
    gauge.fold_seen(checkpoint(connection))
    write_megabytes(connection, 1)
    assert not gauge.outgrows(2 * MEGABYTE)
    write_megabytes(connection, 2)
    assert gauge.outgrows(2 * MEGABYTE)
    reader.close()


def test_a_gauge_without_a_log_advises_nothing(tmp_path: Path) -> None:
    assert not WalGauge(str(tmp_path / "missing.db")).outgrows(0)


def write_megabytes(connection: sqlite3.Connection, count: int) -> None:
    connection.execute("INSERT INTO notes (body) VALUES (zeroblob(?))", (count * MEGABYTE,))


def checkpoint(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1])
