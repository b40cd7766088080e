"""Opening a database and building its store; `wiring` builds what runs on it.

Whoever only reads needs no more than this: neither targets nor the loops of a node are imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from everwhen.clock import Clock, SystemClock
from everwhen.errors import StoreError, shown_url
from everwhen.runtime import Progress, Runtime
from everwhen.store.catalogue import Catalogue
from everwhen.store.ledger import Ledger
from everwhen.store.opened import OpenStore
from everwhen.store.schema.migrate import Migration, migrate, refuse_outdated
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS, SQLITE_MIGRATIONS
from everwhen.store.sqlite.database import SqliteDatabase, open_sqlite, path_of
from everwhen.store.sqlite.transaction import SqliteStore

if TYPE_CHECKING:
    from everwhen.model.vitals import Move
    from everwhen.store.event_cursors import EventCursors
    from everwhen.store.firings import Firings, RowHorizon
    from everwhen.store.load import PlanCache
    from everwhen.store.maintenance import BackUp, Upkeep, Vitals
    from everwhen.store.messages import Messages
    from everwhen.store.outbox import Outbox
    from everwhen.store.requests import Requests
    from everwhen.store.slots import Slots
    from everwhen.store.tokens import Tokens
    from everwhen.store.transaction import Store

T = TypeVar("T")


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


def _deferred(build: Callable[[], T]) -> T:
    return cast("T", Deferred(build))


def _at_once(build: Callable[[], T]) -> T:
    return build()


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
    prepare = partial(_refuse_outdated, may_be_older=may_be_older) if is_existing else _migrate
    if is_postgres(url):
        backend = _on_postgres(url, clock, prepare)
    else:
        if is_existing:
            refuse_missing(url)
        backend = _on_sqlite(url, clock, database, prepare)
    build = _deferred if is_deferred else _at_once
    lately = int(10 * check_interval * 1_000_000)
    parts = _Parts(backend)
    runtime = OpenStore(
        slots=build(partial(parts.slots, lately=lately, stagger=catch_up_stagger)),
        catalogue=Catalogue(backend.store),
        ledger=Ledger(backend.store),
        firings=build(parts.firings),
        vitals=build(parts.vitals),
        messages=build(parts.messages),
        upkeep=build(parts.upkeep),
        tokens=build(parts.tokens),
        outbox=build(parts.outbox),
        event_cursors=_deferred(parts.event_cursors),  # only programs with listeners need it
        requests=build(parts.requests),
        clock=backend.clock,
        timezone=timezone,
        clock_skew=backend.clock_skew,
        directory=_directory_of(url),
    )
    return Stack(runtime, backend.database, backend.store.plans, backend.changes, backend.listen)


def _directory_of(url: str) -> str | None:
    """Return the directory of an SQLite file; None for other databases."""
    path = None if is_postgres(url) else path_of(url)
    return None if path is None else str(Path(path).absolute().parent)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Builds the parts of a store that are the same on every database; each is imported when it is built."""

    backend: Backend

    def slots(self, *, lately: int, stagger: int) -> Slots:
        from everwhen.store.slots import Slots

        return Slots(self.backend.store, lately=lately, stagger=stagger)

    def firings(self) -> Firings:
        from everwhen.store.firings import Firings

        return Firings(self.backend.store, self.backend.horizon())

    def vitals(self) -> Vitals:
        from everwhen.store.maintenance import Vitals

        return Vitals(self.backend.store, self.backend.horizon())

    def messages(self) -> Messages:
        from everwhen.store.messages import Messages

        return Messages(self.backend.store)

    def upkeep(self) -> Upkeep:
        from everwhen.store.maintenance import Upkeep

        return Upkeep(self.backend.store, self.backend.back_up, self.backend.clock)

    def tokens(self) -> Tokens:
        from everwhen.store.tokens import Tokens

        return Tokens(self.backend.store)

    def outbox(self) -> Outbox:
        from everwhen.store.outbox import Outbox

        return Outbox(self.backend.store)

    def event_cursors(self) -> EventCursors:
        from everwhen.store.event_cursors import EventCursors

        return EventCursors(self.backend.store)

    def requests(self) -> Requests:
        from everwhen.store.requests import Requests

        return Requests(self.backend.store)


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


Prepare = Callable[[Any, Sequence[Migration], "Clock"], object]


def _migrate(database: Any, migrations: Sequence[Migration], clock: Clock) -> None:
    migrate(database, migrations, applied_at=clock.now())


def _refuse_outdated(
    database: Any, migrations: Sequence[Migration], _clock: Clock, *, may_be_older: bool
) -> None:
    refuse_outdated(database, migrations, may_be_older=may_be_older)


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
    )


def _sqlite_horizon(store: Store) -> RowHorizon:
    from everwhen.store.firings import SqliteHorizon

    return SqliteHorizon(store)


def _back_up_sqlite(database: SqliteDatabase, path: Path, progress: Progress, clock: Clock) -> None:
    from everwhen.store.sqlite.move import back_up

    back_up(database, path, progress, clock)


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
        listener = postgres.Listener(
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
        store=postgres.PostgresStore(database, postgres.Process(skew, has_time=clock is None, clock=clock)),
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
