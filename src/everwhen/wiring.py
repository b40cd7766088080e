"""The composition root: the only place that chooses adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from everwhen.clock import SystemClock
from everwhen.engine.chain_watch import ChainWatch
from everwhen.engine.delivery import Deliveries
from everwhen.engine.dispatcher import Dispatcher
from everwhen.engine.service import Service
from everwhen.errors import CopyError, MovedError, QueueError, StoreError, shown_url
from everwhen.model.group import Groups
from everwhen.model.instants import moment_of
from everwhen.model.node import Role, WhenCutOff
from everwhen.model.retention import Retention
from everwhen.operations.database_copy import copy_database
from everwhen.operations.validity import restore_valid_schedules
from everwhen.ports.clock import Clock
from everwhen.ports.database_copy import Move, Received
from everwhen.ports.firings import Firings
from everwhen.ports.ledger import Ledger
from everwhen.ports.links import Links
from everwhen.ports.observer import Observer
from everwhen.ports.plugins import Plugins
from everwhen.ports.queue import Queue
from everwhen.ports.runtime import Runtime
from everwhen.ports.subscriber import Subscriber
from everwhen.ports.upkeep import Progress
from everwhen.ports.vitals import Vitals
from everwhen.stores.catalogue import StoredCatalogue
from everwhen.stores.flows.restore import Restored
from everwhen.stores.messages import StoredMessages
from everwhen.stores.migrate import Migration, Step, migrate, refuse_outdated
from everwhen.stores.migrations.sqlite import MIGRATIONS as SQLITE_MIGRATIONS
from everwhen.stores.outbox import StoredOutbox
from everwhen.stores.plans import PlanCache
from everwhen.stores.plugin_state import StoredPluginState
from everwhen.stores.slots import StoredSlots
from everwhen.stores.sqlite_database import SqliteDatabase, open_sqlite, path_of
from everwhen.stores.sqlite_firings import SqliteFirings
from everwhen.stores.sqlite_ledger import SqliteLedger
from everwhen.stores.sqlite_move import SqliteMove
from everwhen.stores.sqlite_restore import restore as restore_sqlite
from everwhen.stores.sqlite_transaction import SqliteStore
from everwhen.stores.sqlite_upkeep import SqliteMaintenance
from everwhen.stores.sqlite_vitals import SqliteVitals
from everwhen.stores.tokens import StoredTokens
from everwhen.stores.transaction import Store
from everwhen.stores.upkeep import Maintenance, StoredUpkeep
from everwhen.target_registry import TargetRegistry, open_target_registry
from everwhen.targets.http import HttpTarget
from everwhen.targets.plugin_folders import PluginFolders
from everwhen.targets.python_function import UnknownFunctionError, load
from everwhen.targets.subscribers import HttpSubscriber

DEFAULT_REDIS = "redis://127.0.0.1:6379/0"


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


class AppliedStep(NamedTuple):
    """One step of a migration that was just applied."""

    number: int
    name: str
    step: Step


def open_stack(
    url: str,
    *,
    clock: Clock | None = None,
    timezone: str = "UTC",
    check_interval: float = 1.0,
    catch_up_stagger: int = 0,
    database: SqliteDatabase | None = None,
    is_existing: bool = False,
) -> Stack:
    """Open the database (or use an open one), bring its schema up to date, and build the ports on it.

    `is_existing`: the database has to exist and be up to date, and nothing about it is changed.
    """
    lately = int(10 * check_interval * 1_000_000)
    prepare = _refuse_outdated if is_existing else _migrate
    if is_postgres(url):
        backend = _on_postgres(url, clock, prepare)
    else:
        if is_existing:
            _refuse_missing(url)
        backend = _on_sqlite(url, clock, database, prepare)
    plans = PlanCache()
    slots = StoredSlots(backend.store, plans, lately=lately, stagger=catch_up_stagger)
    catalogue = StoredCatalogue(backend.store, plans)
    runtime = Runtime(
        slots=slots,
        catalogue=catalogue,
        ledger=backend.ledger,
        firings=backend.firings,
        vitals=backend.vitals,
        messages=StoredMessages(backend.store),
        plugin_state=StoredPluginState(backend.store),
        upkeep=StoredUpkeep(backend.store, backend.maintenance, backend.clock),
        tokens=StoredTokens(backend.store),
        outbox=StoredOutbox(backend.store, plans),
        clock=backend.clock,
        timezone=timezone,
        clock_skew=backend.clock_skew,
    )
    return Stack(runtime, backend.database, plans, backend.changes, backend.listen)


def open_node_stack(url: str, *, is_forced: bool = False, **keys: Any) -> Stack:
    """Open a database for a process that acts on it; raise MovedError if `everwhen db copy` has moved it.

    `is_forced`: use the database again, and remove its mark. `keys` are those of `open_stack`.
    """
    stack = open_stack(url, **keys)
    try:
        move = move_of(stack)
        if move is not None:
            if not is_forced:
                raise _moved_error(url, move)
            SqliteMove(stack.database).forget_move()
    except BaseException:
        stack.close()
        raise
    return stack


def move_of(stack: Stack) -> Move | None:
    """Return where the database was moved to, or is being moved; None if it was not moved."""
    return SqliteMove(stack.database).move() if isinstance(stack.database, SqliteDatabase) else None


def _moved_error(url: str, move: Move) -> MovedError:
    at = f"{moment_of(move.at):%Y-%m-%d %H:%M} UTC"
    if move.state == "moving":
        return MovedError(
            f"a copy of the database {shown_url(url)} to {move.to} began on {at} and has not ended; run "
            "`everwhen db copy` with both addresses again, and it goes on. If you are sure that nothing arrived there, "
            "`everwhen up --force` starts here",
            to=move.to,
        )
    return MovedError(
        f"the database {shown_url(url)} was moved to {move.to} on {at}; start everwhen there (service.database, "
        "EVERWHEN_DATABASE or --database). `everwhen up --force` starts here all the same: slots then fire on both, "
        "unless nothing runs there",
        to=move.to,
    )


@dataclass(frozen=True, slots=True)
class Backend:
    """The adapters for one kind of database."""

    database: Any
    store: Store
    ledger: Ledger
    firings: Firings
    maintenance: Maintenance
    vitals: Vitals
    clock: Clock
    changes: Callable[[], int] | None = None
    listen: Callable[[Runtime], Callable[[], None]] | None = None
    clock_skew: Callable[[], int] = lambda: 0


Prepare = Callable[[Any, Sequence[Migration], Clock], object]


def _migrate(database: Any, migrations: Sequence[Migration], clock: Clock) -> None:
    migrate(database, migrations, applied_at=clock.now())


def _refuse_outdated(database: Any, migrations: Sequence[Migration], _clock: Clock) -> None:
    refuse_outdated(database, migrations)


def _refuse_missing(url: str) -> None:
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
    return Backend(
        found,
        SqliteStore(found, clock),
        SqliteLedger(found),
        SqliteFirings(found),
        SqliteMaintenance(found),
        SqliteVitals(found),
        clock,
        found.change_counter,
    )


def _on_postgres(url: str, clock: Clock | None, prepare: Prepare) -> Backend:
    postgres = _postgres()
    database = postgres.PostgresDatabase(url)
    by_database = postgres.DatabaseClock(database, SystemClock())
    try:
        prepare(database, postgres.MIGRATIONS, clock or by_database)
    except BaseException:
        database.close()
        raise

    def listen(runtime: Runtime) -> Callable[[], None]:
        listener = postgres.Listener(url, on_slots=runtime.wake_scheduler, on_jobs=runtime.wake_workers)
        close: Callable[[], None] = listener.close
        return close

    horizon = postgres.Horizon(database)
    skew: Callable[[], int] = by_database.skew if clock is None else lambda: 0
    return Backend(
        database,
        postgres.PostgresStore(database, skew=skew, has_time=clock is None, clock=clock),
        postgres.PostgresLedger(database),
        postgres.PostgresFirings(database, horizon),
        postgres.PostgresMaintenance(database),
        postgres.PostgresVitals(database, horizon),
        clock or by_database,
        listen=listen,
        clock_skew=skew,
    )


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def check_url(url: str) -> None:
    """Raise StoreError for a URL that names no database; nothing is opened."""
    if is_postgres(url):
        _postgres().where(url)
    else:
        path_of(url)


def load_driver(url: str) -> None:
    """Import the driver of that database; a process that forks for each job does so once, and not in every child."""
    if is_postgres(url):
        _postgres()


def _postgres() -> Any:
    try:
        from everwhen.stores import postgres  # the driver is an extra
    except ImportError as error:
        raise StoreError(
            "PostgreSQL needs its driver; install it with: pip install 'everwhen[postgres]'"
        ) from error
    return postgres


def migrate_database(url: str, *, after: bool = False) -> list[AppliedStep]:
    """Bring a schema up to date, or (`after`) remove what only the last release needed; return the applied steps."""
    database, migrations = _database(url)
    try:
        now, names = SystemClock().now(), {m.number: m.name for m in migrations}
        steps: tuple[Step, ...] = ("before", "after") if after else ("before",)
        return [
            AppliedStep(number, names[number], step)
            for step in steps
            for number in migrate(database, migrations, applied_at=now, step=step)
        ]
    finally:
        database.close()


def restore_database(
    url: str,
    path: Path,
    *,
    catch_up: bool = False,
    clock: Clock | None = None,
    progress: Progress = lambda _share: None,
) -> Restored:
    """Replace a database by a backup of the same kind (R5); the database may be empty, or not exist."""
    if is_postgres(url):
        now = None if clock is None else clock.now
        found: Restored = _postgres().restore(url, path, now, catch_up=catch_up, progress=progress)
        return found
    now = (clock or SystemClock()).now
    return restore_sqlite(path_of(url), path, now, catch_up=catch_up, progress=progress)


def _database(url: str) -> tuple[Any, Sequence[Migration]]:
    if not is_postgres(url):
        return open_sqlite(url), SQLITE_MIGRATIONS
    postgres = _postgres()
    return postgres.PostgresDatabase(url), postgres.MIGRATIONS


def move_database(
    source: str, target: str, *, is_forced: bool = False, progress: Progress = lambda _share: None
) -> Received:
    """Copy an SQLite installation to an empty PostgreSQL database, and mark it as moved."""
    _refuse_other_kinds(source, target)
    _refuse_missing(source)
    from_database = open_sqlite(source)
    try:
        refuse_outdated(from_database, SQLITE_MIGRATIONS)
        postgres = _postgres()
        to_database = postgres.PostgresDatabase(target)
        try:
            now = SystemClock().now()
            migrate(to_database, postgres.MIGRATIONS, applied_at=now)
            return copy_database(
                SqliteMove(from_database),
                postgres.PostgresCopyTarget(to_database),
                to=shown_url(target),
                now=now,
                is_forced=is_forced,
                progress=progress,
            )
        finally:
            to_database.close()
    finally:
        from_database.close()


def _refuse_other_kinds(source: str, target: str) -> None:
    if is_postgres(source) or not is_postgres(target):
        raise CopyError(
            f"only SQLite can be copied, and only to PostgreSQL, not {shown_url(source)} to {shown_url(target)}; write "
            "`everwhen db copy sqlite:///FILE postgresql://USER@HOST/DATABASE`. For another file or server of the same "
            "kind use `everwhen db backup`"
        )


def open_links(url: str | None) -> Links:
    """Open the queue that delivers links (`rq-chain`)."""
    try:
        from everwhen.queues.rq_chain import RqLinks  # the queue is an extra
    except ImportError as error:
        raise QueueError("dispatch rq-chain needs RQ; install it with: pip install 'everwhen[rq]'") from error
    return RqLinks(url or DEFAULT_REDIS)


def http_subscriber(stack: Stack, subscriber_id: str, fields: Mapping[str, Any]) -> Subscriber:
    """Create a subscriber that posts every message to a server."""
    return HttpSubscriber(subscriber_id, fields, lambda: HttpTarget(stack.runtime.clock.now))


def python_fault(name: str) -> str | None:
    """Return why a function cannot be loaded; None when it can."""
    try:
        load(name)
    except UnknownFunctionError as error:
        return str(error)
    return None


def plugins_in(directories: Iterable[Path]) -> Plugins:
    """Return the plugins that are installed in these directories."""
    return PluginFolders(directories)


def open_queue(dispatch: str, *, redis: str | None = None, celery_broker: str | None = None) -> Queue | None:
    """Open the queue that delivers jobs to third-party workers; return None when our own workers run them."""
    if dispatch == "rq":
        return _rq(redis or DEFAULT_REDIS)
    if dispatch == "celery":
        return _celery(celery_broker or "redis://127.0.0.1:6379/1")
    return None


def _rq(url: str) -> Queue:
    try:
        from everwhen.queues.rq import RqQueue  # an extra
    except ImportError as error:
        raise QueueError("dispatch: rq needs RQ; install it with: pip install 'everwhen[rq]'") from error
    return RqQueue(url)


def _celery(broker: str) -> Queue:
    try:
        from everwhen.queues.celery import CeleryQueue  # an extra
    except ImportError as error:
        raise QueueError(
            "dispatch: celery needs Celery; install it with: pip install 'everwhen[celery]'"
        ) from error
    return CeleryQueue(broker)


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
    target_registry: TargetRegistry | None = None,
    groups: Callable[[], Groups] = dict,
    subscribers: Sequence[Subscriber] = (),
    queue: Queue | None = None,
    links: Links | None = None,
    name: str = "",
    when_cut_off: WhenCutOff = "continue",
) -> Service:
    """Build a node on that stack: one that ticks and delivers messages, one that works, or both.

    `groups` returns those of the current configuration. When a queue delivers the jobs, the node runs none. With
    `links` it does not tick either: schedules continue by themselves, and the node watches over that.
    """
    runtime = stack.runtime
    dispatcher = None if queue is None else Dispatcher(runtime.outbox, queue, runtime.clock, patience=lease)
    target_registry = target_registry or open_target_registry(runtime, max_workers=max_workers)
    service = Service(
        runtime,
        target_registry.targets,
        role=role if queue is None and links is None else "scheduler",
        queues=queues,
        check_interval=check_interval,
        max_workers=max_workers,
        lease=lease,
        retention=retention,
        changes=stack.changes,
        observer=observer,
        deliveries=Deliveries(runtime.messages, runtime.clock, subscribers),
        heal=partial(restore_valid_schedules, runtime, target_registry.fault_of, groups),
        dispatcher=dispatcher,
        chain_watch=None if links is None else ChainWatch(runtime, links),
        name=name,
        greet=target_registry.greet,
        when_cut_off=when_cut_off,
    )
    if stack.listen is not None:
        stack.leave.append(stack.listen(stack.runtime))
    return service
