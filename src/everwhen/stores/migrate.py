"""Brings a database to the schema that this release needs, step by step, each exactly once.

A migration has two steps. `before` only adds, so that the previous release still runs on the result: it is
applied at every start. `after` removes what only the previous release needed: it is applied when someone
says that no such process is left. So a release may find a database one migration ahead of it, and works
with it; two ahead, or one whose `after` was applied, has lost what this release reads.

Each step is one transaction under the writer's lock, with its entry in `everwhen_migrations`: of two
processes that start at once the second finds the entry, and a step that fails leaves nothing behind.
Foreign keys cannot be switched off inside a transaction; a script that rebuilds a table says `PRAGMA
defer_foreign_keys = ON`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from everwhen.errors import StoreError
from everwhen.stores.lanes import Lane
from everwhen.stores.sqlite_database import SqliteDatabase

Step = Literal["before", "after"]
Applied = frozenset[tuple[int, str]]

_CREATE = """
CREATE TABLE IF NOT EXISTS everwhen_migrations (
  number INTEGER NOT NULL,
  name TEXT NOT NULL,
  step TEXT NOT NULL CHECK (step IN ('before', 'after')),
  applied_at INTEGER NOT NULL,
  PRIMARY KEY (number, step)
) WITHOUT ROWID
"""
_APPLIED = "SELECT number, step FROM everwhen_migrations"
_RECORD = "INSERT INTO everwhen_migrations (number, name, step, applied_at) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered change of the schema: two SQL scripts, either of which may be empty."""

    number: int
    name: str
    before: str
    after: str = ""


def migrate(
    database: SqliteDatabase, migrations: Sequence[Migration], *, applied_at: int, step: Step = "before"
) -> list[int]:
    """Applies the step of every migration that lacks it, in order; returns the numbers of those it applied.

    `applied_at` is the present instant, in microseconds since 1970. StoreError when the database is too new.
    """
    _refuse_disorder(migrations)
    database.write(Lane.API, lambda connection: _prepare(connection, migrations, step))
    return [m.number for m in migrations if _applies(database, m, step, applied_at)]


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one. (`executescript` would commit the transaction it is called in.)

    >>> list(statements("CREATE TABLE a (b); -- one; really\\nINSERT INTO a VALUES (';')"))
    ['CREATE TABLE a (b);', "-- one; really\\nINSERT INTO a VALUES (';');"]
    """
    pending = ""
    for piece in script.split(";"):
        pending += piece + ";"
        if sqlite3.complete_statement(pending):
            if pending.strip(" \t\r\n;"):
                yield pending.strip()
            pending = ""
    rest = pending.removesuffix(";").strip()
    if rest:
        yield rest


def _refuse_disorder(migrations: Sequence[Migration]) -> None:
    for earlier, later in pairwise(migrations):
        if earlier.number >= later.number:
            raise StoreError(
                f"migration {later.number} ({later.name}) stands behind {earlier.number} ({earlier.name}); "
                "number them upwards, each once"
            )


def _prepare(connection: sqlite3.Connection, migrations: Sequence[Migration], step: Step) -> None:
    connection.execute(_CREATE)
    applied = _applied(connection)
    _refuse_too_new(applied, newest_known=max((migration.number for migration in migrations), default=0))
    missing = [m.number for m in migrations if (m.number, "before") not in applied]
    if step == "after" and missing:
        raise StoreError(
            f"migration {missing[0]} has not been applied, so nothing may be removed yet; "
            "run `everwhen db migrate` first"
        )


def _refuse_too_new(applied: Applied, *, newest_known: int) -> None:
    newest = max((number for number, _ in applied), default=0)
    is_readable = newest <= newest_known + 1 and (newest_known + 1, "after") not in applied
    if not is_readable:
        raise StoreError(
            f"the database is at migration {newest}, and this release knows {newest_known}, "
            "which is too old for it; start the newer release, or restore a backup from before"
        )


def _applies(database: SqliteDatabase, migration: Migration, step: Step, applied_at: int) -> bool:
    script = migration.before if step == "before" else migration.after

    def work(connection: sqlite3.Connection) -> bool:
        if (migration.number, step) in _applied(connection):
            return False  # by an earlier start, or by a process that started together with this one
        for statement in statements(script):
            connection.execute(statement)
        connection.execute(_RECORD, (migration.number, migration.name, step, applied_at))
        return True

    return database.write(Lane.API, work)


def _applied(connection: sqlite3.Connection) -> Applied:
    return frozenset(connection.execute(_APPLIED).fetchall())
