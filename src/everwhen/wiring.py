"""The composition root: the only place that chooses adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from everwhen.alerts.channels import open_channels
from everwhen.clock import Clock, SystemClock
from everwhen.database import Stack as Stack
from everwhen.database import is_postgres as is_postgres
from everwhen.database import load_postgres, refuse_missing
from everwhen.database import move_of as move_of
from everwhen.database import open_stack as open_stack
from everwhen.engine.chain import ChainWatch
from everwhen.engine.delivery import Deliveries
from everwhen.engine.dispatcher import Dispatcher
from everwhen.engine.heartbeat import OutsideHeartbeat
from everwhen.engine.notifier import Notifier, Rules
from everwhen.engine.service import Service, ServiceOptions
from everwhen.engine.webhooks import Post, WebhookSender
from everwhen.errors import CopyError, MovedError, QueueError, StoreError, shown_url
from everwhen.model.alerts import Sent
from everwhen.model.group import Groups
from everwhen.model.instants import SECOND, format_instant
from everwhen.model.message import Subscriber
from everwhen.model.plugin import Plugins
from everwhen.model.queue import RQ_CHAIN, Links, Queue
from everwhen.model.vitals import Move, Received
from everwhen.model.webhooks import WebhookDelivery
from everwhen.operations.approval import tidy_up
from everwhen.operations.groups import restore_valid_schedules
from everwhen.operations.maintenance import copy_database
from everwhen.runtime import Progress
from everwhen.store.opened import store_of
from everwhen.store.restore import Restored
from everwhen.store.schema.migrate import Migration, Step, migrate, refuse_outdated
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS, SQLITE_MIGRATIONS
from everwhen.store.sqlite.database import open_sqlite, path_of
from everwhen.store.sqlite.move import SqliteMove
from everwhen.store.sqlite.restore import restore as restore_sqlite
from everwhen.store.sqlite.space import Vacuumed, vacuum
from everwhen.target_registry import TargetRegistry, open_target_registry
from everwhen.targets.http import HttpTarget
from everwhen.targets.plugin_folders import PluginFolders
from everwhen.targets.python_function import UnknownFunctionError, load
from everwhen.targets.subscribers import HttpSubscriber
from everwhen.timetable.civil_time import zone

DEFAULT_REDIS = "redis://127.0.0.1:6379/0"


class AppliedStep(NamedTuple):
    """One step of a migration that was just applied."""

    number: int
    name: str
    step: Step


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


def _moved_error(url: str, move: Move) -> MovedError:
    at = format_instant(move.at, zone("UTC"))
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


def check_url(url: str) -> None:
    """Raise StoreError for a URL that names no database; nothing is opened."""
    if is_postgres(url):
        load_postgres().where(url)
    else:
        path_of(url)


def load_driver(url: str) -> None:
    """Import the driver of that database; a process that forks for each job does so once, and not in every child."""
    if is_postgres(url):
        load_postgres()


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
    """Replace a database by a backup of the same kind; the database may be empty, or not exist."""
    if is_postgres(url):
        now = None if clock is None else clock.now
        found: Restored = load_postgres().restore(url, path, now, catch_up=catch_up, progress=progress)
        return found
    now = (clock or SystemClock()).now
    return restore_sqlite(path_of(url), path, now, catch_up=catch_up, progress=progress)


def vacuum_database(url: str, clock: Clock | None = None) -> Vacuumed:
    """Rewrite an SQLite file without its free pages, so that it gives space back from then on."""
    path = None if is_postgres(url) else path_of(url)
    if path is None:
        what = "PostgreSQL vacuums its tables by itself" if is_postgres(url) else "memory has no file"
        raise StoreError(f"{what}; `everwhen db vacuum` is for SQLite files")
    stack = open_stack(url, is_existing=True)
    try:
        return vacuum(stack.database, path, (clock or SystemClock()).now)
    finally:
        stack.close()


def _database(url: str) -> tuple[Any, Sequence[Migration]]:
    if not is_postgres(url):
        return open_sqlite(url), SQLITE_MIGRATIONS
    postgres = load_postgres()
    return postgres.PostgresDatabase(url), POSTGRES_MIGRATIONS


def move_database(
    source: str, target: str, *, is_forced: bool = False, progress: Progress = lambda _share: None
) -> Received:
    """Copy an SQLite installation to an empty PostgreSQL database, and mark it as moved."""
    _refuse_other_kinds(source, target)
    refuse_missing(source)
    from_database = open_sqlite(source)
    try:
        refuse_outdated(from_database, SQLITE_MIGRATIONS)
        postgres = load_postgres()
        to_database = postgres.PostgresDatabase(target)
        try:
            now = SystemClock().now()
            migrate(to_database, POSTGRES_MIGRATIONS, applied_at=now)
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
    links: Links = _load_queues("rq", "dispatch rq-chain needs RQ").RqLinks(url or DEFAULT_REDIS)
    return links


def http_subscriber(stack: Stack, subscriber_id: str, fields: Mapping[str, Any]) -> Subscriber:
    """Create a subscriber that posts every message to a server."""
    return HttpSubscriber(subscriber_id, fields, lambda: HttpTarget(stack.runtime.clock.now))


def open_notifier(
    stack: Stack,
    rules: Rules,
    *,
    allow_private_urls: Callable[[], bool] = lambda: False,
    public_url: Callable[[], str | None] = lambda: None,
) -> Notifier:
    """Build the notifier of a node; `rules` returns those of the configuration in force, `public_url` its `api.url`."""
    channels = open_channels(stack.runtime.clock.now, allow_private_urls=allow_private_urls)
    return Notifier(stack.runtime, rules, channels, public_url=public_url, changes=stack.changes)


def open_webhook_sender(
    stack: Stack, *, allow_private_urls: Callable[[], bool] = lambda: False
) -> WebhookSender:
    """Build what delivers events to webhooks; its client is imported with the first delivery."""
    made: list[Post] = []

    def post(delivery: WebhookDelivery, now: int) -> Sent:
        if not made:
            module = import_module("everwhen.alerts.webhook")
            made.append(module.WebhookPoster(stack.runtime.clock.now, allow_private_urls))
        return made[0](delivery, now)

    return WebhookSender(stack.runtime, post, changes=stack.changes)


def open_heartbeat(url: str, every: float, unreadiness: Callable[[], str | None]) -> OutsideHeartbeat:
    """Build the heartbeat to the outside; its client is imported with the first call."""

    def call() -> Sent:
        found: Sent = import_module("everwhen.alerts.http").call_url(url)
        return found

    return OutsideHeartbeat(call, every, unreadiness)


def python_fault(name: str) -> str | None:
    """Return why a function cannot be loaded; None when it can."""
    try:
        load(name)
    except UnknownFunctionError as error:
        return str(error)
    return None


plugins_in: Callable[[Iterable[Path]], Plugins] = PluginFolders


def open_queue(dispatch: str, *, redis: str | None = None, celery_broker: str | None = None) -> Queue | None:
    """Open the queue that delivers jobs to third-party workers; return None when our own workers run them."""
    queue: Queue | None = None
    if dispatch == "rq":
        queue = _load_queues("rq", "dispatch: rq needs RQ").RqQueue(redis or DEFAULT_REDIS)
    elif dispatch == "celery":
        broker = celery_broker or "redis://127.0.0.1:6379/1"
        queue = _load_queues("celery", "dispatch: celery needs Celery").CeleryQueue(broker)
    return queue


def check_queue(dispatch: str, *, redis: str | None = None, celery_broker: str | None = None) -> None:
    """Raise QueueError for a queue that cannot be used: its extra, its address; nothing connects."""
    queue: Queue | Links | None
    if dispatch == RQ_CHAIN:
        queue = open_links(redis)
    else:
        queue = open_queue(dispatch, redis=redis, celery_broker=celery_broker)
    if queue is not None:
        queue.close()


def fault_of_queue(queue: Queue | Links | None) -> str | None:
    """Return why the broker of a queue does not answer; None when it does, or when there is no queue."""
    if queue is None:
        return None
    try:
        queue.ping()
    except QueueError as error:
        return str(error)
    return None


def fault_of_broker(dispatch: str, *, redis: str | None, celery_broker: str | None) -> str | None:
    """Return why the broker that the settings name does not answer, or cannot be used."""
    queue: Queue | Links | None = None
    try:
        if dispatch == RQ_CHAIN:
            queue = open_links(redis)
        else:
            queue = open_queue(dispatch, redis=redis, celery_broker=celery_broker)
        return fault_of_queue(queue)
    except QueueError as error:
        return str(error)
    finally:
        if queue is not None:
            queue.close()


def _load_queues(name: str, need: str) -> Any:
    """Import the module of a queue; QueueError where its extra is not installed."""
    try:
        return import_module(f"everwhen.queues.{name}")
    except ImportError as error:
        raise QueueError(f"{need}; install it with: pip install 'everwhen[{name}]'") from error


def build_service(
    stack: Stack,
    options: ServiceOptions | None = None,
    *,
    target_registry: TargetRegistry | None = None,
    groups: Callable[[], Groups] = dict,
    subscribers: Sequence[Subscriber] = (),
    queue: Queue | None = None,
    links: Links | None = None,
    notifier: Notifier | None = None,
    webhooks: WebhookSender | None = None,
) -> Service:
    """Build a node on that stack: one that ticks and delivers messages, one that works, or both.

    `groups` returns those of the current configuration. When a queue delivers the jobs, the node runs none. With
    `links` it does not tick either: schedules continue by themselves, and the node watches over that.
    """
    options = options or ServiceOptions()
    if queue is not None or links is not None:
        options = replace(options, role="scheduler")
    runtime, store = stack.runtime, store_of(stack.runtime)
    registry = target_registry or open_target_registry(runtime, max_workers=options.max_workers)
    service = Service(
        runtime,
        registry.targets,
        options,
        changes=stack.changes,
        deliveries=Deliveries(store.messages, runtime.clock, subscribers),
        tidy=partial(tidy_up, runtime, approval_ttl=int(options.approval_ttl * SECOND)),
        heal=partial(restore_valid_schedules, runtime, registry.fault_of, groups),
        dispatcher=None
        if queue is None
        else Dispatcher(store.outbox, queue, runtime.clock, patience=options.lease),
        chain_watch=None if links is None else ChainWatch(runtime, links),
        greet=registry.greet,
        notifier=notifier,
        webhooks=webhooks,
    )
    if stack.listen is not None:
        stack.leave.append(stack.listen(runtime))
    return service
