"""Changes that the next release may make to the schema while processes of this release run (`migrate`).

It adds columns to every table, with a default and without, and a table, an index and a trigger: code that counts
columns, or reads them by position, breaks on it. Its `after` step removes what this release needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from everwhen.store.postgres.database import PostgresDatabase
from everwhen.store.schema.migrate import Migration, Site, migrate
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS as ON_POSTGRES
from everwhen.store.schema.migrations import SQLITE_MIGRATIONS as ON_SQLITE
from everwhen.store.sqlite.database import SqliteDatabase, open_sqlite
from everwhen.wiring import is_postgres

_ADDED = """
CREATE TABLE of_next_release (id integer PRIMARY KEY, job_id text);
CREATE INDEX idx_jobs_of_next_release ON jobs (of_next_release) WHERE of_next_release IS NOT NULL;
"""
_TRIGGER_ON_SQLITE = """
CREATE TRIGGER jobs_of_next_release AFTER INSERT ON jobs BEGIN
    UPDATE jobs SET of_next_release = 'seen' WHERE row_id = NEW.row_id;
END;
"""
_TRIGGER_ON_POSTGRES = """
CREATE FUNCTION note_of_next_release() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.of_next_release := ''seen''; RETURN NEW; END';
CREATE TRIGGER jobs_of_next_release BEFORE INSERT ON jobs
    FOR EACH ROW EXECUTE FUNCTION note_of_next_release();
"""
_REMOVED = "ALTER TABLE messages RENAME COLUMN body TO text_of_next_release;"


def further(known: Sequence[Migration], trigger: str) -> Sequence[Migration]:
    """Return the migrations of this release, and one more."""
    tables = [table for one in known for table in re.findall(r"CREATE TABLE (\w+)", one.before)]
    columns = "".join(
        f"ALTER TABLE {table} ADD COLUMN of_next_release text;\n"
        f"ALTER TABLE {table} ADD COLUMN counted_by_next_release integer NOT NULL DEFAULT 0;\n"
        for table in tables
    )
    number = known[-1].number + 1
    return *known, Migration(number, "the next release", before=columns + _ADDED + trigger, after=_REMOVED)


def upgrade(site: Site, *, after: bool = False) -> None:
    """Migrate a database as the first process of the next release does; `after`: as its operator does at the end."""
    is_sqlite = isinstance(site, SqliteDatabase)
    migrations = further(
        ON_SQLITE if is_sqlite else ON_POSTGRES, _TRIGGER_ON_SQLITE if is_sqlite else _TRIGGER_ON_POSTGRES
    )
    applied = migrate(site, migrations, applied_at=1)
    if after:
        applied = migrate(site, migrations, applied_at=1, step="after")
    assert migrations[-1].number in applied


def upgrade_at(url: str, *, after: bool = False) -> None:
    """Migrate a database in the same way, over separate connections."""
    site = PostgresDatabase(url) if is_postgres(url) else open_sqlite(url)
    try:
        upgrade(site, after=after)
    finally:
        site.close()
