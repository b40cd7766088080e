"""A PostgreSQL database with everwhen's schema, emptied for every test: creating one would cost ten times as much."""

from __future__ import annotations

import psycopg

from everwhen.testing.manual import ManualClock
from everwhen.wiring import open_stack
from tests.servers.postgres import PostgresServer

_EMPTY = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'everwhen_migrations'
    LOOP EXECUTE format('DELETE FROM %I', name); END LOOP;
END $$"""


class PostgresDatabase:
    """One database of one server, used by one test after another."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._url = server.fresh_database()
        open_stack(self._url, clock=ManualClock("2026-01-01T00:00:00Z")).close()
        self._connection = psycopg.connect(self._url, autocommit=True)

    def empty(self) -> str:
        """Empty the database and return its URL."""
        self._connection.execute(_EMPTY)
        return self._url

    def close(self) -> None:
        self._connection.close()
        self._server.drop_database(self._url)
