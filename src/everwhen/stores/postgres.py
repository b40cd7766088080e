"""Everything for PostgreSQL, in one import, so that installations without PostgreSQL need no driver."""

from everwhen.stores.migrations.postgres import MIGRATIONS
from everwhen.stores.postgres_backup import back_up
from everwhen.stores.postgres_clock import DatabaseClock
from everwhen.stores.postgres_copy import PostgresCopyTarget
from everwhen.stores.postgres_database import PostgresDatabase, where
from everwhen.stores.postgres_horizon import Horizon
from everwhen.stores.postgres_listener import Listener
from everwhen.stores.postgres_restore import restore
from everwhen.stores.postgres_store import PostgresStore

__all__ = [
    "MIGRATIONS",
    "DatabaseClock",
    "Horizon",
    "Listener",
    "PostgresCopyTarget",
    "PostgresDatabase",
    "PostgresStore",
    "back_up",
    "restore",
    "where",
]
