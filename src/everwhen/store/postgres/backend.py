"""Everything for PostgreSQL, in one import, so that installations without PostgreSQL need no driver."""

from everwhen.store.postgres.clock import DatabaseClock
from everwhen.store.postgres.copy import PostgresCopyTarget
from everwhen.store.postgres.database import PostgresDatabase, where
from everwhen.store.postgres.listener import NotificationListener
from everwhen.store.postgres.restore import back_up, restore
from everwhen.store.postgres.snapshot import ProcessState
from everwhen.store.postgres.transaction import PostgresStore
from everwhen.store.postgres.watermark import Horizon

__all__ = [
    "DatabaseClock",
    "Horizon",
    "NotificationListener",
    "PostgresCopyTarget",
    "PostgresDatabase",
    "PostgresStore",
    "ProcessState",
    "back_up",
    "restore",
    "where",
]
