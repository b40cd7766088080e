"""The composition root: the only place that chooses adapters."""

from __future__ import annotations

from dataclasses import dataclass

from everwhen.engine.service import Service
from everwhen.ports.clock import Clock
from everwhen.ports.house import House
from everwhen.ports.observer import Observer
from everwhen.stores.catalogue import StoredCatalogue
from everwhen.stores.migrate import migrate
from everwhen.stores.migrations.sqlite import MIGRATIONS
from everwhen.stores.plans import PlanCache
from everwhen.stores.slots import StoredSlots
from everwhen.stores.sqlite_database import SqliteDatabase, open_sqlite
from everwhen.stores.sqlite_ledger import SqliteLedger
from everwhen.stores.sqlite_transaction import SqliteStore
from everwhen.system_clock import SystemClock
from everwhen.targets.command import CommandTarget


@dataclass(slots=True)
class Stack:
    """A house with the database that it stands on."""

    house: House
    database: SqliteDatabase
    plans: PlanCache

    def close(self) -> None:
        self.database.close()


def open_stack(
    url: str,
    *,
    clock: Clock | None = None,
    timezone: str = "UTC",
    check_interval: float = 1.0,
    catch_up_stagger: int = 0,
    database: SqliteDatabase | None = None,
) -> Stack:
    """Open the database (or take one that is open), bring its schema up to date, stand the ports on it."""
    clock = clock or SystemClock()
    database = database or open_sqlite(url)
    migrate(database, MIGRATIONS, applied_at=clock.now())
    plans = PlanCache()
    lately = int(10 * check_interval * 1_000_000)
    store = SqliteStore(database)
    slots = StoredSlots(store, plans, lately=lately, stagger=catch_up_stagger)
    catalogue = StoredCatalogue(store, plans)
    ledger = SqliteLedger(database, plans)
    return Stack(House(slots, catalogue, ledger, clock, timezone), database, plans)


def build_service(
    stack: Stack,
    *,
    check_interval: float = 1.0,
    max_workers: int = 8,
    lease: float = 30.0,
    observer: Observer | None = None,
) -> Service:
    """A node that ticks and works on that stack."""
    return Service(
        stack.house,
        {"command": CommandTarget()},
        check_interval=check_interval,
        max_workers=max_workers,
        lease=lease,
        changes=stack.database.change_counter,
        observer=observer,
    )
