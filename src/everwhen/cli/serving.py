"""A node in the foreground: its configuration, its messages for operators, the signals that stop it.

SIGTERM and SIGINT drain the node: it fires nothing and claims nothing any more, and waits `shutdown_timeout` for
running jobs. The second such signal kills them, and the process ends. SIGHUP reloads the file, if there is one;
otherwise it has no effect.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from everwhen.api.hosting import NodeHooks, refuse_taken
from everwhen.cli.api_server import api_settings, load_front, open_front
from everwhen.cli.configuration import is_missing, read_settings, refuse_unusable, show_warnings, this_host
from everwhen.cli.main import collect_seldom
from everwhen.cli.node_resources import (
    NodeResources,
    chain_links,
    protect_stored,
    tell_of_upgrade,
    tell_of_workers,
)
from everwhen.cli.progress import JobLines, clock_time
from everwhen.cli.reloader import Reloader, spelled
from everwhen.cli.terminal import echo, print_lines, secho, styled
from everwhen.config.problems import Report
from everwhen.config.read import Configuration, examine, read_configuration
from everwhen.config.settings import ApiSettings, Settings
from everwhen.engine.service import Service
from everwhen.errors import SchedulerShutdownError, shown_url
from everwhen.model.instants import SECOND
from everwhen.model.node import Role
from everwhen.model.queue import Links, Queue
from everwhen.operations.apply import Applied, apply
from everwhen.operations.groups import invalidate_unusable
from everwhen.operations.system import LoopFigures
from everwhen.signals import ProcessSignals, wait_until
from everwhen.target import Observer, Several
from everwhen.telemetry.durations import JobDurations
from everwhen.wiring import Stack, build_service, open_node_stack, open_queue

_WORKERS = {
    "rq": "rq worker -c everwhen.queue_workers.rq QUEUE …",
    "celery": "celery -A everwhen.queue_workers.celery worker -Q QUEUE,…",
}
_COLOURS = {logging.WARNING: "yellow", logging.ERROR: "red"}

watch_option = click.option("--watch", is_flag=True, help="Reload when a file of the configuration changes.")
yes_option = click.option("--yes", is_flag=True, help="Start also when the file drops most of its schedules.")

force_option = click.option(
    "--force", is_flag=True, help="Start also on a database that `everwhen db copy` moved to another address."
)


def run_node(
    role: Role,
    path: Path,
    database: str | None,
    *,
    queues: Sequence[str] | None = None,
    watch: bool = False,
    may_remove_most: bool = False,
    token_file: Path | None = None,
    is_forced: bool = False,
) -> None:
    """Run one node until it is stopped.

    A scheduler applies the file to the database; a worker only reads its settings from the file.
    """
    show_log()
    collect_seldom()
    with ProcessSignals() as signals:
        _run(
            signals,
            role,
            path,
            database,
            queues=queues,
            watch=watch,
            may_remove_most=may_remove_most,
            token_file=token_file,
            is_forced=is_forced,
        )


def _run(
    signals: ProcessSignals,
    role: Role,
    path: Path,
    database: str | None,
    queues: Sequence[str] | None,
    watch: bool,
    may_remove_most: bool,
    token_file: Path | None,
    is_forced: bool,
) -> None:
    hangups = _Hangups()
    signals.on(signal.SIGHUP, hangups.receive)
    configuration = _configuration(role, path, database)
    settings = configuration.settings if configuration is not None else read_settings(path)
    url = database or settings.database
    refuse_unusable(url, settings)
    front = api_settings(configuration) if role == "up" and configuration is not None else None
    if front is not None:
        refuse_taken(front.host, front.port)
        load_front()  # before anything is due: the import takes a second, which the loop would have to share
    if role == "worker":
        _refuse_worker(settings)
    queue = open_queue(settings.dispatch, redis=settings.redis, celery_broker=settings.celery_broker)
    links = chain_links(role, settings)
    stack = _opened(url, settings, is_forced)
    if links is not None:
        stack.leave.append(links.close)
    try:
        known = configuration or _node_resources_of(path)
        read = partial(read_configuration, path, this_host()) if known is not None else None
        node_resources = NodeResources(stack, known, settings, read)
        durations = JobDurations(stack.runtime.clock.monotonic)
        observer = Several(JobLines(), durations)
        service = _service(
            stack,
            settings,
            role,
            queues,
            node_resources=node_resources,
            observer=observer,
            queue=queue,
            links=links,
        )
        stopped = signals.on_stop(service.kill, service.prepare_to_stop)
        if configuration is None:
            service.prepare(lambda: _greet(_title(role, queues), url))
        else:
            service.prepare(lambda: _reconcile(configuration, stack, role, url, may_remove_most))
        if queue is not None:
            secho(f"jobs are handed over to {queue.name}; {_worker_hint(settings)}", err=True)
        if links is not None:
            tell_of_workers()
        try:
            applies = configuration is not None
            with (
                _reloading(
                    known, stack, path, node_resources, hangups, watch=watch, applies=applies
                ) as reloader,
                _front(
                    stack,
                    node_resources,
                    front,
                    token_file,
                    service=service,
                    durations=durations,
                    reloader=reloader,
                ),
            ):
                service.begin()  # not earlier: a job may call the API
                wait_until(stopped)
        except BaseException:
            service.stop(wait_for_jobs=False)
            raise
        _stop(service, settings.shutdown_timeout)
    finally:
        stack.close()


def _configuration(role: Role, path: Path, database: str | None) -> Configuration | None:
    """Return the configuration that a scheduler applies to the database; None for a worker, and without a file."""
    if role == "worker" or (role == "scheduler" and database is not None and is_missing(path)):
        return None
    configuration = read_configuration(path, this_host())
    show_warnings(configuration.warnings)
    return configuration


def _refuse_worker(settings: Settings) -> None:
    """Refuse the role when a queue dispatches the jobs: its own workers run them."""
    if settings.dispatch in _WORKERS:
        raise click.UsageError(
            f"service.dispatch is {settings.dispatch}, so its own workers run the jobs; {_worker_hint(settings)}"
        )


def _worker_hint(settings: Settings) -> str:
    return f"start a worker with: {_WORKERS[settings.dispatch]}"


def _opened(url: str, settings: Settings, is_forced: bool) -> Stack:
    return open_node_stack(
        url,
        is_forced=is_forced,
        timezone=settings.timezone,
        check_interval=settings.check_interval,
        catch_up_stagger=int(settings.catch_up_stagger * SECOND),
    )


def _node_resources_of(path: Path) -> Configuration | None:
    """Read what a worker needs of the file, if there is one: its plugins and workflows, not its schedules."""
    return None if is_missing(path) else examine(path, this_host(), Report())


def _service(
    stack: Stack,
    settings: Settings,
    role: Role,
    queues: Sequence[str] | None,
    node_resources: NodeResources,
    observer: Observer,
    *,
    queue: Queue | None,
    links: Links | None,
) -> Service:
    return build_service(
        stack,
        role=role,
        queues=queues,
        check_interval=settings.check_interval,
        max_workers=settings.max_workers,
        lease=settings.lease,
        when_cut_off=settings.when_cut_off,
        retention=settings.retention,
        observer=observer,
        target_registry=node_resources.target_registry,
        groups=node_resources.groups,
        subscribers=node_resources.subscribers,
        queue=queue,
        links=links,
        name=settings.name,
    )


def _reconcile(
    configuration: Configuration, stack: Stack, role: Role, url: str, may_remove_most: bool
) -> None:
    """Apply the file to the database before the first tick, and report what that changed."""
    applied = apply(stack.runtime, configuration.declared, may_remove_most=may_remove_most)
    invalidate_unusable(stack.runtime, configuration.groups)
    tell_of_upgrade(applied, protect_stored(stack.runtime, configuration))
    count = len(configuration.declared.schedules)
    _greet(f"{_title(role)}: {count} schedule{'' if count == 1 else 's'}", url, applied)


def _greet(title: str, url: str, applied: Applied | None = None) -> None:
    news = f" ({spelled(applied)})" if applied else ""
    secho(f"{title} on {shown_url(url)}{news}; Ctrl-C stops", err=True, bold=True)


@contextmanager
def _reloading(
    configuration: Configuration | None,
    stack: Stack,
    path: Path,
    node_resources: NodeResources,
    hangups: _Hangups,
    *,
    watch: bool,
    applies: bool,
) -> Iterator[Reloader | None]:
    """Run the reloader during the block, if there is a file."""
    if configuration is None:
        yield None
        return

    def read(last: Configuration) -> Configuration:
        # A worker also starts with an invalid file; only a valid configuration may be reused by the next reading.
        return read_configuration(path, this_host(), last if applies else None)

    reloader = Reloader(stack.runtime, read, configuration, node_resources.take, applies=applies)
    hangups.tell(reloader.ask)
    reloader.start(watch=watch)
    try:
        yield reloader
    finally:
        reloader.stop()


class _Hangups:
    """Turns SIGHUP into requests for a reload.

    A signal that arrives while the node starts is kept. Without a file to reload it has no effect, but must not kill
    the process. It has a handler instead of `SIG_IGN`, which the programs of jobs would inherit.
    """

    def __init__(self) -> None:
        self._ask: Callable[[str], None] | None = None
        self._is_pending = False
        self._lock = threading.Lock()

    def receive(self) -> None:
        with self._lock:
            self._is_pending = True
            if self._ask is not None:
                self._ask("SIGHUP")

    def tell(self, ask: Callable[[str], None]) -> None:
        with self._lock:
            self._ask = ask
            if self._is_pending:
                ask("SIGHUP")


@contextmanager
def _front(
    stack: Stack,
    node_resources: NodeResources,
    settings: ApiSettings | None,
    token_file: Path | None,
    service: Service,
    durations: JobDurations,
    reloader: Reloader | None,
) -> Iterator[None]:
    """Serve the API during the block: it opens before the loop ticks, and closes before the loop stops."""
    if settings is None:
        yield
        return
    server = open_front(
        stack.runtime,
        lambda: node_resources.configuration,
        settings,
        token_file=token_file,
        changes=stack.changes,
        node=service,
        durations=durations,
        node_hooks=_node_hooks(service, reloader, node_resources.configuration.settings.dispatch),
    )
    try:
        yield
    finally:
        server.stop()


def _node_hooks(service: Service, reloader: Reloader | None, dispatch: str) -> NodeHooks:
    """Return what the API can learn from this node only."""

    def figures() -> LoopFigures:
        counts = service.ticker.counts
        return LoopFigures(
            service.status, service.started_at, counts.checks, counts.fired, counts.last_check_at
        )

    if reloader is None:
        return NodeHooks(figures=figures, dispatch=dispatch)
    return NodeHooks(reloader.look, reloader.take, figures, dispatch)


def _stop(service: Service, timeout: float) -> None:
    running = service.worker.running_count
    waiting = f", waiting up to {timeout:g}s for {running} running job{'' if running == 1 else 's'}"
    secho(f"stopping{waiting if running else ''} …", err=True)
    try:
        service.stop(timeout=timeout)
    except SchedulerShutdownError as error:
        secho(str(error), err=True, fg="red")
        raise SystemExit(1) from None
    secho("stopped", err=True)


def _title(role: Role, queues: Sequence[str] | None = None) -> str:
    name = "everwhen" if role == "up" else f"everwhen {role}"
    return f"{name} of {', '.join(queues)}" if queues else name


# -- the log of the engine --


def show_log() -> None:
    """Print the log of the engine as lines like those about jobs."""
    logger = logging.getLogger("everwhen")
    logger.handlers = [_Lines()]
    logger.setLevel(logging.INFO)
    logger.propagate = False


_TRACES = logging.Formatter()


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        word = styled(record.levelname.lower(), fg=_COLOURS.get(record.levelno))
        echo(f"{clock_time()}  ", word, f"  {record.getMessage()}", err=True)
        if record.exc_info:
            print_lines(_TRACES.formatException(record.exc_info), err=True)
