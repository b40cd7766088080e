"""The stores that the suite runs against, and their differences.

Two of them are one migration ahead of this release, as while nodes are upgraded one by one. A difference is a
capability that changes what a test expects; it never skips a test. No other module knows which store it works on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everwhen.clock import Clock
from everwhen.store.sqlite.database import SqliteDatabase, open_sqlite
from everwhen.wiring import Stack, open_stack
from tests.servers.everwhen_database import PostgresDatabase
from tests.servers.next_release import upgrade


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`several_processes`: one database serves many processes, and outlives each."""

    several_processes: bool


@dataclass(frozen=True, slots=True)
class Site:
    """One fresh database. Every stack opened on it sees the same data, as another process would.

    `url` is for real processes: if the store serves only one, it names another, empty database.
    """

    url: str
    open: Callable[[Clock], Stack]
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class StoreKind:
    """One kind of store: its name, its capabilities, and how a fresh database of it is created."""

    name: str
    capabilities: Capabilities
    lay_out: Callable[[Path, Any], Site]
    server: str | None = None  # the fixture of the server that it needs


def _sqlite_file(folder: Path, _server: None) -> Site:
    url = f"sqlite:///{folder}/conformance.db"
    return Site(url, lambda clock: open_stack(url, clock=clock), lambda: None)


def _sqlite_one_ahead(_folder: Path, _server: None) -> Site:
    """Create a database in memory that the next release has already migrated: this release must behave the same."""
    database = open_sqlite("sqlite://")
    upgrade(database)
    return Site("sqlite://", lambda clock: _lodge(database, clock), database.close)


def sqlite_in_memory() -> Site:
    database = open_sqlite("sqlite://")
    return Site("sqlite://", lambda clock: _lodge(database, clock), database.close)


class Lodging(Stack):
    """A stack on a shared database: `close` does not close the database for the others."""

    __slots__ = ()

    def close(self) -> None:
        return None


def _lodge(database: SqliteDatabase, clock: Clock) -> Stack:
    stack = open_stack("sqlite://", clock=clock, database=database)
    return Lodging(stack.runtime, stack.database, stack.plans)


def _postgres(_folder: Path, database: PostgresDatabase) -> Site:
    return on_postgres(database)


def on_postgres(database: PostgresDatabase) -> Site:
    """Empty the server's database and return its site."""
    url = database.empty()
    return Site(url, lambda clock: open_stack(url, clock=clock), lambda: None)


STORES = (
    StoreKind("sqlite", Capabilities(several_processes=True), _sqlite_file),
    StoreKind("sqlite-one-ahead", Capabilities(several_processes=False), _sqlite_one_ahead),
    StoreKind("postgres18", Capabilities(several_processes=True), _postgres, "everwhen_on_18"),
    StoreKind("postgres16-one-ahead", Capabilities(several_processes=True), _postgres, "upgraded_on_16"),
)
