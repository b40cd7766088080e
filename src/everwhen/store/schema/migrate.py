"""Migration of a database to the schema that this release needs, step by step, each exactly once.

A migration has two steps. `before` only adds, so that the previous release still runs on the result: it is applied at
every start. `after` removes what only the previous release needed: it is applied when an operator declares that no
such process is left. So a release may find a database one migration ahead of it, and works with it; a database two
ahead, or one whose `after` was applied, lacks what this release reads.

Each step is one transaction under a lock that all processes share, with its entry in `everwhen_migrations`: of two
processes that start at once the second finds the entry, and a step that fails leaves nothing behind. Foreign keys
cannot be switched off inside a transaction; a script that rebuilds a table on SQLite uses `PRAGMA defer_foreign_keys
= ON`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, TypeVar

from everwhen.errors import StoreError

Step = Literal["before", "after"]
Applied = frozenset[tuple[int, str]]

T = TypeVar("T")


class Builder(Protocol):
    """One transaction that may change the schema, while no other process does."""

    def prepare(self) -> None:
        """Create the table that records the steps, where it is missing."""
        ...

    def applied(self) -> Applied: ...

    def run(self, script: str) -> None: ...

    def record(self, migration: Migration, step: Step, applied_at: int) -> None: ...


class Site(Protocol):
    """A database whose schema can be changed."""

    def build(self, work: Callable[[Builder], T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered change of the schema: two SQL scripts, either of which may be empty."""

    number: int
    name: str
    before: str
    after: str = ""


def migrate(
    database: Site, migrations: Sequence[Migration], *, applied_at: int, step: Step = "before"
) -> list[int]:
    """Apply the step of every migration that lacks it, in order; return the numbers of those that it applied.

    `applied_at` is the current instant, in microseconds since 1970. StoreError when the database is too new.
    """
    _refuse_disorder(migrations)
    database.build(lambda builder: _prepare(builder, migrations, step))
    return [m.number for m in migrations if _applies(database, m, step, applied_at)]


def refuse_outdated(database: Site, migrations: Sequence[Migration], *, may_be_older: bool = False) -> None:
    """Raise StoreError when the database lacks what these migrations add, or is too new; change nothing.

    `may_be_older`: accept the schema of an earlier release, but not a database without any migration.
    """

    def look(builder: Builder) -> None:
        builder.prepare()  # rolled back by the error below where it was missing
        applied = builder.applied()
        missing = _missing(applied, migrations)
        if missing and not (may_be_older and applied):
            raise StoreError(
                f"the database lacks migration {missing[0]}; bring it up to date with `everwhen db migrate`"
            )

    database.build(look)


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script, one by one. (`executescript` would commit the transaction it is called in.)

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


def _prepare(builder: Builder, migrations: Sequence[Migration], step: Step) -> None:
    builder.prepare()
    applied = builder.applied()
    missing = _missing(applied, migrations)
    if step == "after" and missing:
        raise StoreError(
            f"migration {missing[0]} has not been applied, so nothing may be removed yet; "
            "run `everwhen db migrate` first"
        )


def _missing(applied: Applied, migrations: Sequence[Migration]) -> list[int]:
    """Return the migrations that the database lacks; raise StoreError when it is too new."""
    newest, known = (
        max((number for number, _ in applied), default=0),
        max((m.number for m in migrations), default=0),
    )
    if not is_readable(applied, known):
        raise StoreError(
            f"the database is at migration {newest}, and this release knows {known}, "
            "which is too old for it; start the newer release, or restore a backup from before"
        )
    return [m.number for m in migrations if (m.number, "before") not in applied]


def is_readable(applied: Applied, newest_known: int) -> bool:
    newest = max((number for number, _ in applied if type(number) is int), default=0)
    return newest <= newest_known + 1 and (newest_known + 1, "after") not in applied


def _applies(database: Site, migration: Migration, step: Step, applied_at: int) -> bool:
    def work(builder: Builder) -> bool:
        if (migration.number, step) in builder.applied():
            return False  # by an earlier start, or by a process that started at the same time
        builder.run(migration.before if step == "before" else migration.after)
        builder.record(migration, step, applied_at)
        return True

    return database.build(work)
