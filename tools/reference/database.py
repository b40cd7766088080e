"""`database.md`: tables, views and indexes, from the migrations."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from everwhen.store.schema.migrations import SQLITE_MIGRATIONS, TYPES, column_types
from everwhen.store.schema.tables import TABLES
from tools.reference.markdown import code, prose, table
from tools.reference.markdown import page as make_page

INTRODUCTION = """One schema for both databases; `everwhen db migrate` makes and upgrades it. It is documented
for people who look into the database. Programs should use REST or Python: columns may change with a release,
and writing rows by hand breaks the promise that every slot is accounted for.

Instants are microseconds since 1970 (UTC) on SQLite, and `timestamptz` on PostgreSQL."""


def page() -> str:
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in SQLITE_MIGRATIONS:
            connection.executescript(migration.before + migration.after)
        listed = table(
            ("table", "holds"), ((f"[{code(name)}](#{name})", prose(about)) for name, about in TABLES.items())
        )
        parts = [part for name in TABLES for part in _table(connection, name)]
    return make_page("Database", INTRODUCTION, "## Tables", listed, *parts)


def _table(connection: sqlite3.Connection, name: str) -> list[str]:
    types = column_types()
    rows = []
    for column in connection.execute(f"PRAGMA table_xinfo({name})").fetchall():
        word = types.get(column[1], column[2])
        on_sqlite, on_postgres = TYPES.get(word, (word, word))
        need = "not null" if column[3] or column[5] else ""
        rows.append(
            (code(column[1]), code(on_sqlite.split(" PRIMARY")[0]), code(on_postgres.split(" GEN")[0]), need)
        )
    found = [f"## `{name}`", prose(TABLES[name]), table(("column", "SQLite", "PostgreSQL", ""), rows)]
    names = (
        "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL ORDER BY 1"
    )
    indexes = [code(index) for (index,) in connection.execute(names, (name,))]
    return [*found, f"Indexes: {', '.join(indexes)}."] if indexes else found
