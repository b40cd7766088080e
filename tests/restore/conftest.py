"""A place on each kind of database."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.testing.manual import ManualClock
from tests.conformance.tenant import START
from tests.restore.places import Place, place_on_sqlite


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return place_on_sqlite(tmp_path)
    url = request.getfixturevalue("everwhen_on_18").empty()
    return Place(url, tmp_path / "everwhen.backup", ManualClock(START))
