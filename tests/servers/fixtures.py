"""The fixtures: one server of each kind per test worker, an empty database per test.

A server that cannot start fails the tests that use it. None is skipped, because a suite that passes without its
database has proved nothing.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

import pytest

from tests.servers.ending import end_everything
from tests.servers.errors import ServerError
from tests.servers.everwhen_database import PostgresDatabase
from tests.servers.local_server import LocalServer
from tests.servers.next_release import upgrade_at
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

AnyServer = TypeVar("AnyServer", bound=LocalServer)


@pytest.fixture(scope="session", autouse=True)
def no_server_is_left_behind() -> Iterator[None]:
    """End all servers. This fixture is set up first and so torn down last, after the servers below."""
    yield
    end_everything()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with _running(PostgresServer(18)) as server:
        yield server


@pytest.fixture(scope="session")
def postgres16() -> Iterator[PostgresServer]:
    with _running(PostgresServer(16)) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.fresh_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def everwhen_on_18(postgres: PostgresServer) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(postgres)) as database:
        yield database


@pytest.fixture(scope="session")
def everwhen_on_16(postgres16: PostgresServer) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(postgres16)) as database:
        yield database


@pytest.fixture(scope="session")
def upgraded_on_16(postgres16: PostgresServer) -> Iterator[PostgresDatabase]:
    """Provide a database that is one migration ahead of this release."""
    with closing(PostgresDatabase(postgres16)) as database:
        upgrade_at(database.empty())
        yield database


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    with _running(ValkeyServer()) as server:
        yield server


@pytest.fixture
def valkey_url(valkey: ValkeyServer) -> str:
    valkey.flush()
    return valkey.url


@contextmanager
def _running(server: AnyServer) -> Iterator[AnyServer]:
    _start_or_fail(server)
    try:
        yield server
    finally:
        server.close()


def _start_or_fail(server: LocalServer) -> None:
    try:
        server.start()
        return
    except ServerError as error:
        problem = str(error)
    # Outside the `except`, so that the message appears once and without a chain of tracebacks.
    pytest.fail(problem, pytrace=False)
