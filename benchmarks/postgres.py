"""A PostgreSQL server for one benchmark: a separate durable cluster on loopback, removed afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.errors import ServerError
from tests.servers.postgres import PostgresServer

# The variable with the server's URL for workers; an argument would be visible to other users.
SERVER = "EVERWHEN_BENCH_SERVER"


class ServerUnavailableError(Exception):
    """The server did not start; the contestants are reported as not measured."""


@contextmanager
def a_server() -> Iterator[str]:
    """Provide the URL of a server that keeps what was committed: fsync and synchronous_commit are on."""
    server = PostgresServer(durable=True)
    try:
        server.start()
        yield server.url
    except ServerError as failure:
        raise ServerUnavailableError(f"PostgreSQL: {str(failure).splitlines()[0]}") from failure
    finally:
        server.close()
