"""Opening a database and building its store; `wiring` builds what runs on it.

Commands that only read need no more than this: neither targets nor the loops of a node are imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from everwhen.clock import Clock, SystemClock
from everwhen.errors import StoreError, shown_url
from everwhen.runtime import Progress, Runtime
from everwhen.store.catalogue import Catalogue
from everwhen.store.lanes import Lane
from everwhen.store.ledger import Ledger
from everwhen.store.opened import OpenStore
from everwhen.store.schema.migrate import Migration, migrate, refuse_outdated
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS, SQLITE_MIGRATIONS
from everwhen.store.sqlite.database import SqliteDatabase, open_sqlite, path_of
from everwhen.store.sqlite.transaction import SqliteStore

if TYPE_CHECKING:
    from everwhen.model.vitals import Move
    from everwhen.store.firings import RowHorizon
    from everwhen.store.load import PlanCache
    from everwhen.store.maintenance import BackUp
    from everwhen.store.transaction import Store


@dataclass(slots=True)
class Stack:
    """A runtime with its database; the functions in `leave` end what was started around it."""

    runtime: Runtime
    database: Any
    plans: PlanCache
    changes: Callable[[], int] | None = None  # a number that changes when any process commits
    listen: Callable[[Runtime], Callable[[], None]] | None = None  # wakes a runtime; returns its end
    leave: list[Callable[[], None]] = field(default_factory=list)

    def close(self) -> None:
        for end in reversed(self.leave):
            end()
        self.leave.clear()
        self.database.close()


class Deferred:
    """A part of a store that is built when it is first used."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    @cached_property
    def _built(self) -> Any:
        return self._build()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._built, name)


def open_stack(
    url: str,
    *,
    clock: Clock | None = None,
    timezone: str = "UTC",
    check_interval: float = 1.0,
    catch_up_stagger: int = 0,
    database: SqliteDatabase | None = None,
    is_existing: bool = False,
    may_be_older: bool = False,
    is_deferred: bool = False,
) -> Stack:
    """Open the database (or use an open one), bring its schema up to date, and build its store.

    `is_existing`: the database has to exist and be up to date, and nothing about it is changed; with `may_be_older` it
    may have the schema of an earlier release, which a backup can read. `is_deferred`: for a command that ends at once;
    parts of the store that it does not use are neither imported nor built.
    """

    def prepare(database: Any, migrations: Sequence[Migration], clock: Clock) -> None:
        if is_existing:
            refuse_outdated(database, migrations, may_be_older=may_be_older)
        else:
            migrate(database, migrations, applied_at=clock.now())

    if is_postgres(url):
        backend = _on_postgres(url, clock, prepare)
    else:
        if is_existing:
            refuse_missing(url)
        backend = _on_sqlite(url, clock, database, prepare)
    part = partial(_part, backend, is_deferred)
    lately = int(10 * check_interval * 1_000_000)
    runtime = OpenStore(
        slots=part("slots.Slots", lately=lately, stagger=catch_up_stagger),
        catalogue=Catalogue(backend.store),
        ledger=Ledger(backend.store),
        firings=part("firings.Firings", backend.horizon),
        vitals=part("maintenance.Vitals", backend.horizon),
        messages=part("messages.Messages"),
        upkeep=part(
            "maintenance.Upkeep", back_up=backend.back_up, clock=backend.clock, give_back=backend.give_back
        ),
        tokens=part("tokens.Tokens"),
        outbox=part("outbox.Outbox"),
        event_cursors=_part(backend, True, "event_cursors.EventCursors"),  # few programs need it
        requests=part("requests.Requests"),
        alerts=_part(backend, True, "alerts.Alerts"),  # only the notifier and calls about alerts need it
        webhooks=_part(backend, True, "webhooks.Webhooks"),
        feed_delays=part("feed_delay.FeedDelays", clock=backend.clock),
        labels=part("labels.Labels"),
        clock=backend.clock,
        timezone=timezone,
        clock_skew=backend.clock_skew,
        database_kind="postgresql" if is_postgres(url) else "sqlite",
        directory=_directory_of(url),
    )
    return Stack(runtime, backend.database, backend.store.plans, backend.changes, backend.listen)


def _directory_of(url: str) -> str | None:
    """Return the directory of an SQLite file; None for other databases."""
    path = path_of(url) if url.startswith("sqlite:") else None
    return None if path is None else str(Path(path).absolute().parent)


def _part(backend: Backend, is_deferred: bool, name: str, *later: Callable[[], object], **keys: Any) -> Any:
    """Return a part of the store, which is the same on every database; its module is imported when it is built."""

    def build() -> Any:
        module, _, kind = name.partition(".")
        make = getattr(import_module(f"everwhen.store.{module}"), kind)
        return make(backend.store, *(each() for each in later), **keys)

    return Deferred(build) if is_deferred else build()


def move_of(stack: Stack) -> Move | None:
    """Return where the database was moved to, or is being moved; None if it was not moved."""
    if not isinstance(stack.database, SqliteDatabase):
        return None
    from everwhen.store.sqlite.move import SqliteMove

    return SqliteMove(stack.database).move()


class Backend(NamedTuple):
    """The adapters for one kind of database."""

    database: Any
    store: Store
    horizon: Callable[[], RowHorizon]
    back_up: BackUp
    clock: Clock
    changes: Callable[[], int] | None = None
    listen: Callable[[Runtime], Callable[[], None]] | None = None
    clock_skew: Callable[[], int] = lambda: 0
    give_back: Callable[[int], int] = lambda _most: 0  # PostgreSQL vacuums by itself


Prepare = Callable[[Any, Sequence[Migration], "Clock"], object]


def refuse_missing(url: str) -> None:
    """Raise StoreError for an SQLite file that does not exist."""
    path = path_of(url)
    if path is None or not Path(path).exists():
        # A relative path depends on the working directory, which may differ for a worker of a queue.
        where = "" if path is None or Path(path).is_absolute() else f" in {Path.cwd()}"
        raise StoreError(
            f"there is no database {shown_url(url)}{where}; name another with --database, --config or "
            "EVERWHEN_DATABASE, or make it with `everwhen db migrate`"
        )


def _on_sqlite(url: str, clock: Clock | None, database: SqliteDatabase | None, prepare: Prepare) -> Backend:
    clock = clock or SystemClock()
    found = database or open_sqlite(url)
    try:
        prepare(found, SQLITE_MIGRATIONS, clock)
    except BaseException:
        if database is None:
            found.close()
        raise
    store = SqliteStore(found, clock)
    return Backend(
        found,
        store=store,
        horizon=partial(_sqlite_horizon, store),
        back_up=partial(_back_up_sqlite, found),
        clock=clock,
        changes=found.change_counter,
        give_back=partial(_give_back_sqlite, found),
    )


def _sqlite_horizon(store: Store) -> RowHorizon:
    from everwhen.store.firings import SqliteHorizon

    return SqliteHorizon(store)


def _back_up_sqlite(database: SqliteDatabase, path: Path, progress: Progress, clock: Clock) -> None:
    from everwhen.store.sqlite.move import back_up

    back_up(database, path, progress, clock)


def _give_back_sqlite(database: SqliteDatabase, most: int) -> int:
    from everwhen.store.sqlite.space import give_back

    return database.write(Lane.RETENTION, lambda connection: give_back(connection, most))


def _on_postgres(url: str, clock: Clock | None, prepare: Prepare) -> Backend:
    postgres = load_postgres()
    database = postgres.PostgresDatabase(url)
    by_database = postgres.DatabaseClock(database, SystemClock())
    try:
        prepare(database, POSTGRES_MIGRATIONS, clock or by_database)
    except BaseException:
        database.close()
        raise

    def listen(runtime: Runtime) -> Callable[[], None]:
        listener = postgres.NotificationListener(
            url,
            on_slots=runtime.wake_scheduler,
            on_jobs=runtime.wake_workers,
            on_requests=runtime.wake_requests,
        )
        close: Callable[[], None] = listener.close
        return close

    horizon = postgres.Horizon(database)
    skew: Callable[[], int] = by_database.skew if clock is None else lambda: 0
    return Backend(
        database,
        store=postgres.PostgresStore(
            database, postgres.ProcessState(skew, has_time=clock is None, clock=clock)
        ),
        horizon=lambda: horizon,
        back_up=partial(postgres.back_up, database),
        clock=clock or by_database,
        listen=listen,
        clock_skew=skew,
    )


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def load_postgres() -> Any:
    """Import the store of PostgreSQL; StoreError where its driver is not installed."""
    try:
        from everwhen.store.postgres import backend as postgres  # the driver is an extra
    except ImportError as error:
        raise StoreError(
            "PostgreSQL needs its driver; install it with: pip install 'everwhen[postgres]'"
        ) from error
    return postgres
