"""A place on each kind of database."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.testing.manual import ManualClock
from tests.conformance.tenant import START
from tests.restore.places import Place, place_on_sqlite
from tests.servers.everwhen_database import PostgresDatabase


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    return place_on_sqlite(tmp_path)


@pytest.fixture
def postgres_place(tmp_path: Path, everwhen_on_18: PostgresDatabase) -> Place:
    return Place(everwhen_on_18.empty(), tmp_path / "everwhen.backup", ManualClock(START))


@pytest.fixture(params=["sqlite_place", "postgres_place"], ids=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found
