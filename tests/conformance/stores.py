"""The stores that the suite runs against, and how they differ. Two of them are one migration ahead of this release,
as they are while nodes are upgraded one by one.

A difference is a capability that switches what a test expects; it never skips one. Nothing outside this module
knows which store it works on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everwhen.ports.clock import Clock
from everwhen.stores.sqlite_database import SqliteDatabase, open_sqlite
from everwhen.wiring import Stack, open_stack
from tests.servers.everwhen_database import PostgresDatabase
from tests.servers.next_release import upgrade


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`several_processes`: one database serves many of them, and outlives each."""

    several_processes: bool


@dataclass(frozen=True, slots=True)
class Site:
    """One fresh database. Every stack opened on it sees the same data, as another process would.

    `url` is for real processes: where the store serves but one, it leads to another, empty database.
    """

    url: str
    open: Callable[[Clock], Stack]
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class StoreKind:
    """One kind of store: its name, what it can do, and how a fresh database of it is laid out."""

    name: str
    capabilities: Capabilities
    lay_out: Callable[[Path, Any], Site]
    server: str | None = None  # the fixture of the server that it needs


def _sqlite_file(folder: Path, _server: None) -> Site:
    url = f"sqlite:///{folder}/conformance.db"
    return Site(url, lambda clock: open_stack(url, clock=clock), lambda: None)


def _sqlite_one_ahead(_folder: Path, _server: None) -> Site:
    """In memory, and changed by the next release already: what this one does must be the same."""
    database = open_sqlite("sqlite://")
    upgrade(database)
    return Site("sqlite://", lambda clock: _lodge(database, clock), database.close)


def sqlite_in_memory() -> Site:
    database = open_sqlite("sqlite://")
    return Site("sqlite://", lambda clock: _lodge(database, clock), database.close)


class Lodging(Stack):
    """A stack on a database that it shares: leaving does not close it for the others."""

    __slots__ = ()

    def close(self) -> None:
        return None


def _lodge(database: SqliteDatabase, clock: Clock) -> Stack:
    stack = open_stack("sqlite://", clock=clock, database=database)
    return Lodging(stack.runtime, stack.database, stack.plans)


def _postgres(_folder: Path, database: PostgresDatabase) -> Site:
    return on_postgres(database)


def on_postgres(database: PostgresDatabase) -> Site:
    """The database of that server, emptied."""
    url = database.empty()
    return Site(url, lambda clock: open_stack(url, clock=clock), lambda: None)


STORES = (
    StoreKind("sqlite", Capabilities(several_processes=True), _sqlite_file),
    StoreKind("sqlite-one-ahead", Capabilities(several_processes=False), _sqlite_one_ahead),
    StoreKind("postgres18", Capabilities(several_processes=True), _postgres, "everwhen_on_18"),
    StoreKind("postgres16-one-ahead", Capabilities(several_processes=True), _postgres, "upgraded_on_16"),
)
