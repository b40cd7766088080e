"""The composition root: the only place that chooses adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from everwhen.engine.crew import Crew
from everwhen.engine.service import Service
from everwhen.errors import StoreError
from everwhen.model.node import Role
from everwhen.model.retention import Retention
from everwhen.ports.clock import Clock
from everwhen.ports.house import House
from everwhen.ports.ledger import Ledger
from everwhen.ports.observer import Observer
from everwhen.stores.catalogue import StoredCatalogue
from everwhen.stores.migrate import migrate
from everwhen.stores.migrations.sqlite import MIGRATIONS as SQLITE_MIGRATIONS
from everwhen.stores.plans import PlanCache
from everwhen.stores.slots import StoredSlots
from everwhen.stores.sqlite_database import SqliteDatabase, open_sqlite
from everwhen.stores.sqlite_ledger import SqliteLedger
from everwhen.stores.sqlite_transaction import SqliteStore
from everwhen.stores.sqlite_upkeep import SqlitePremises
from everwhen.stores.transaction import Store
from everwhen.stores.upkeep import Premises, StoredUpkeep
from everwhen.system_clock import SystemClock
from everwhen.targets.command import CommandTarget
from everwhen.targets.python_call import PythonTarget


@dataclass(slots=True)
class Stack:
    """A house with the database that it stands on; `leave` ends what was started around it."""

    house: House
    database: Any
    plans: PlanCache
    changes: Callable[[], int] | None = None  # a number that is another one when any process has committed
    listen: Callable[[House], Callable[[], None]] | None = None  # wakes a house; returns how to end it
    leave: list[Callable[[], None]] = field(default_factory=list)

    def close(self) -> None:
        for end in reversed(self.leave):
            end()
        self.leave.clear()
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
    lately = int(10 * check_interval * 1_000_000)
    open_house = _on_postgres if url.startswith(("postgresql://", "postgres://")) else _on_sqlite
    ground = open_house(url, clock, database)
    plans = PlanCache()
    slots = StoredSlots(ground.store, plans, lately=lately, stagger=catch_up_stagger)
    catalogue = StoredCatalogue(ground.store, plans)
    upkeep = StoredUpkeep(ground.store, ground.premises)
    house = House(slots, catalogue, ground.ledger(plans), upkeep, ground.clock, timezone)
    return Stack(house, ground.database, plans, ground.changes, ground.listen)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a kind of database brings."""

    database: Any
    store: Store
    ledger: Callable[[PlanCache], Ledger]
    premises: Premises
    clock: Clock
    changes: Callable[[], int] | None = None
    listen: Callable[[House], Callable[[], None]] | None = None


def _on_sqlite(url: str, clock: Clock | None, database: SqliteDatabase | None) -> Ground:
    clock = clock or SystemClock()
    found = database or open_sqlite(url)
    migrate(found, SQLITE_MIGRATIONS, applied_at=clock.now())
    return Ground(
        found,
        SqliteStore(found),
        lambda plans: SqliteLedger(found, plans),
        SqlitePremises(found),
        clock,
        found.change_counter,
    )


def _on_postgres(url: str, clock: Clock | None, _database: SqliteDatabase | None) -> Ground:
    try:
        from everwhen.stores import postgres  # the driver is an extra
    except ImportError as error:
        raise StoreError(
            "PostgreSQL needs its driver; install it with: pip install 'everwhen[postgres]'"
        ) from error
    database = postgres.PostgresDatabase(url)
    by_database = postgres.DatabaseClock(database, SystemClock())
    try:
        migrate(database, postgres.MIGRATIONS, applied_at=(clock or by_database).now())
    except BaseException:
        database.close()
        raise

    def listen(house: House) -> Callable[[], None]:
        return postgres.Listener(url, on_slots=house.wake_scheduler, on_jobs=house.wake_workers).close

    return Ground(
        database,
        postgres.PostgresStore(database, skew=by_database.skew if clock is None else lambda: 0),
        lambda plans: postgres.PostgresLedger(database, plans),
        postgres.PostgresPremises(database),
        clock or by_database,
        listen=listen,
    )


def build_service(
    stack: Stack,
    *,
    role: Role = "up",
    queues: Sequence[str] | None = None,
    check_interval: float = 1.0,
    max_workers: int = 8,
    lease: float = 30.0,
    retention: Retention | None = None,
    observer: Observer | None = None,
) -> Service:
    """A node on that stack: one that ticks, one that works, or both."""
    service = Service(
        stack.house,
        {"command": CommandTarget(), "python": PythonTarget(Crew(max_workers))},
        role=role,
        queues=queues,
        check_interval=check_interval,
        max_workers=max_workers,
        lease=lease,
        retention=retention,
        changes=stack.changes,
        observer=observer,
    )
    if stack.listen is not None:
        stack.leave.append(stack.listen(stack.house))
    return service
