"""Both databases below a stack, for what benchmarks do outside the product: fill, query, clean up.

The SQL of the benchmarks is the same for both; this module owns the differences.
"""

from typing import Any, Protocol

import psycopg

from everwhen.store.lanes import Lane
from everwhen.store.postgres.database import PostgresDatabase
from everwhen.store.sqlite.database import SqliteDatabase


class Backend(Protocol):
    def change(self, *statements: str) -> None:
        """Execute statements in one transaction."""

    def rows(self, query: str) -> list[Any]: ...

    def columns(self, table: str) -> list[str]:
        """Return the columns that an insert names."""

    def microseconds(self, column: str) -> str:
        """Return SQL for an instant as an integer."""

    def later(self, column: str, microseconds: str) -> str:
        """Return SQL for an instant moved by an expression of microseconds."""

    def tidy(self) -> None:
        """Restore the state after a quiet period: logs checkpointed, dead rows vacuumed."""


class SqliteBackend:
    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database

    def change(self, *statements: str) -> None:
        self.database.write(Lane.API, lambda connection: [connection.execute(text) for text in statements])

    def rows(self, query: str) -> list[Any]:
        with self.database.read() as connection:
            return connection.execute(query).fetchall()

    def columns(self, table: str) -> list[str]:
        return [row[1] for row in self.rows(f"PRAGMA table_info({table})") if row[1] != "row_id"]

    def microseconds(self, column: str) -> str:
        return column

    def later(self, column: str, microseconds: str) -> str:
        return f"{column} + {microseconds}"

    def tidy(self) -> None:
        self.database.fold()


class PostgresBackend:
    """Uses a separate connection: a million rows take longer than the product lets a statement run."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.url = database.url

    def change(self, *statements: str) -> None:
        with psycopg.connect(self.url) as connection:
            for text in statements:
                connection.execute(text.encode())

    def rows(self, query: str) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query.encode()).fetchall()

    def columns(self, table: str) -> list[str]:
        query = f"""SELECT column_name FROM information_schema.columns
        WHERE table_name = '{table}' AND is_generated = 'NEVER' AND column_name <> 'row_id'"""
        return [row[0] for row in self.rows(query)]

    def microseconds(self, column: str) -> str:
        return f"(extract(epoch FROM {column}) * 1000000)::bigint"

    def later(self, column: str, microseconds: str) -> str:
        return f"{column} + ({microseconds}) * interval '1 microsecond'"

    def tidy(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) schedules, schedule_revisions, jobs, limits")
            connection.execute("CHECKPOINT")


def backend_of(database: Any) -> Backend:
    return SqliteBackend(database) if isinstance(database, SqliteDatabase) else PostgresBackend(database)
