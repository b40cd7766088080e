"""The databases that the crash tests run on: each test gets a URL, and does not know of which kind.

PostgreSQL runs with fsync on: what it has committed must be there after a kill.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.postgres import PostgresServer


@pytest.fixture(scope="session")
def durable_postgres() -> Iterator[PostgresServer]:
    with PostgresServer(18, durable=True) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/crash.db"
        return
    server: PostgresServer = request.getfixturevalue("durable_postgres")
    url = server.fresh_database()
    yield url
    server.drop_database(url)
