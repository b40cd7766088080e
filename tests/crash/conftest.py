"""The databases that the crash tests run on: each test gets a URL, and does not know of which kind.

PostgreSQL runs with fsync on: what it has committed must be there after a kill. The moments of death are drawn from
one seed, which the report begins with; EVERWHEN_SEED sets another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nodes import SEED
from tests.servers.postgres import PostgresServer


def pytest_report_header() -> str:
    return f"moments of death: EVERWHEN_SEED={SEED}"


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
