"""A PostgreSQL server for one benchmark: its own cluster on loopback, durable, gone afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.errors import ServerError
from tests.servers.postgres import PostgresServer

SERVER = (
    "EVERWHEN_BENCH_SERVER"  # the variable that tells a worker the server's URL; an argument could be seen
)


class ServerUnavailableError(Exception):
    """The server did not start; the contestants are reported as not measured."""


@contextmanager
def a_server() -> Iterator[str]:
    """The URL of a server that keeps what was committed: fsync and synchronous_commit are on."""
    server = PostgresServer(durable=True)
    try:
        server.start()
        yield server.url
    except ServerError as failure:
        raise ServerUnavailableError(f"PostgreSQL: {str(failure).splitlines()[0]}") from failure
    finally:
        server.close()
