"""A node in the foreground: its configuration, its messages for operators, the signals that stop it.

SIGTERM and SIGINT drain the node: it fires nothing and claims nothing any more, and waits `shutdown_timeout` for
running jobs. The second such signal kills them, and the process ends. SIGHUP reloads the file, if there is one;
otherwise it has no effect.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from everwhen.api.hosting import NodeHooks, refuse_taken
from everwhen.cli.api_server import api_settings, load_api_server, open_api_server
from everwhen.cli.configuration import is_missing, read_settings, refuse_unusable, show_warnings, this_host
from everwhen.cli.exit_codes import FAILED
from everwhen.cli.main import collect_seldom
from everwhen.cli.node_log import JobLines, node_logging, use_log
from everwhen.cli.node_resources import (
    NodeResources,
    chain_links,
    protect_stored,
    tell_of_upgrade,
    tell_of_workers,
)
from everwhen.cli.reloader import Reloader, spelled
from everwhen.cli.service_manager import ServiceManager
from everwhen.cli.terminal import secho
from everwhen.config.problems import Report
from everwhen.config.read import Configuration, examine, read_configuration
from everwhen.config.settings import ApiSettings, Settings
from everwhen.engine.service import ServiceOptions
from everwhen.errors import SchedulerShutdownError, shown_url
from everwhen.model.instants import SECOND
from everwhen.model.node import Role
from everwhen.model.queue import Links, Queue
from everwhen.operations.apply import apply
from everwhen.operations.groups import invalidate_unusable
from everwhen.operations.next_runs import describe_next_runs
from everwhen.operations.system import LoopFigures
from everwhen.signals import ProcessSignals, wait_until
from everwhen.target import Several
from everwhen.telemetry.durations import JobDurations
from everwhen.telemetry.engine_log import EngineLog
from everwhen.telemetry.traces import observer_of_traces
from everwhen.wiring import (
    Stack,
    build_service,
    fault_of_queue,
    open_heartbeat,
    open_node_stack,
    open_queue,
)

_WORKERS = {
    "rq": "rq worker -c everwhen.queue_workers.rq QUEUE …",
    "celery": "celery -A everwhen.queue_workers.celery worker -Q QUEUE,…",
}


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What the command line says about a node."""

    role: Role
    path: Path
    database: str | None
    queues: Sequence[str] | None = None  # of a worker; None: all
    watch: bool = False
    yes: bool = False  # the file may drop most of its schedules
    force: bool = False  # the database may have been moved
    token_file: Path | None = None
    host: str | None = None  # of the API; None: as the file says
    port: int | None = None
    no_api: bool = False


def run_node(options: NodeSettings) -> None:
    """Run one node until it is stopped.

    A scheduler applies the file to the database; a worker only reads its settings from the file.
    """
    collect_seldom()
    manager = ServiceManager(os.environ)
    with node_logging(), ProcessSignals() as signals:
        _run(options, signals, manager)


def _run(options: NodeSettings, signals: ProcessSignals, manager: ServiceManager) -> None:
    hangups = _Hangups()
    signals.on(signal.SIGHUP, hangups.receive)
    configuration = _configuration(options)
    settings = configuration.settings if configuration is not None else read_settings(options.path)
    use_log(settings.log)
    url = options.database or settings.database
    refuse_unusable(url, settings)
    api = _api_settings(options, configuration)
    if api is not None:
        refuse_taken(api.host, api.port)
        load_api_server(api)  # before anything is due: the import takes a second, which the loop would share
    if options.role == "worker" and settings.dispatch in _WORKERS:
        raise click.UsageError(
            f"service.dispatch is {settings.dispatch}, so its own workers run the jobs; {_worker_hint(settings)}"
        )
    queue = open_queue(settings.dispatch, redis=settings.redis, celery_broker=settings.celery_broker)
    links = chain_links(options.role, settings)
    stack = open_node_stack(
        url,
        is_forced=options.force,
        timezone=settings.timezone,
        check_interval=settings.check_interval,
        catch_up_stagger=int(settings.catch_up_stagger * SECOND),
    )
    if links is not None:
        stack.leave.append(links.close)
    try:
        node = NodeProcess(options, configuration, settings, stack, queue=queue, links=links)
        with manager.watchdog(node.service.is_stuck):
            node.run(signals, hangups, api, manager)
    finally:
        stack.close()


def _configuration(options: NodeSettings) -> Configuration | None:
    """Return the configuration that a scheduler applies to the database; None for a worker, and without a file."""
    role, path = options.role, options.path
    if role == "worker" or (role == "scheduler" and options.database is not None and is_missing(path)):
        return None
    configuration = read_configuration(path, this_host())
    show_warnings(configuration.warnings)
    return configuration


def _api_settings(options: NodeSettings, configuration: Configuration | None) -> ApiSettings | None:
    """Return the settings of the API that a node serves; None where it serves none."""
    if options.role != "up" or options.no_api or configuration is None:
        return None
    return api_settings(configuration, host=options.host, port=options.port)


def _worker_hint(settings: Settings) -> str:
    return f"start a worker with: {_WORKERS[settings.dispatch]}"


class NodeProcess:
    """A node on an open database. `configuration` is None where the node applies none."""

    def __init__(
        self,
        options: NodeSettings,
        configuration: Configuration | None,
        settings: Settings,
        stack: Stack,
        *,
        queue: Queue | None = None,
        links: Links | None = None,
    ) -> None:
        self._options, self._settings, self._stack = options, settings, stack
        self._configuration = self._known = configuration
        self._queue, self._links = queue, links
        self._title = ""
        if configuration is None and not is_missing(
            options.path
        ):  # its plugins and workflows, not its schedules
            self._known = examine(options.path, this_host(), Report())
        read = partial(read_configuration, options.path, this_host()) if self._known is not None else None
        self._resources = NodeResources(stack, self._known, settings, read)
        self._durations = JobDurations(stack.runtime.clock.monotonic)
        traces = [one for one in (observer_of_traces(os.environ),) if one is not None]
        self.service = build_service(
            stack,
            ServiceOptions(
                role=options.role,
                queues=options.queues,
                check_interval=settings.check_interval,
                max_workers=settings.max_workers,
                max_workers_per_owner=settings.max_workers_per_owner,
                lease=settings.lease,
                when_cut_off=settings.when_cut_off,
                retention=settings.retention,
                approval_ttl=settings.approval_ttl,
                observer=Several(JobLines(), self._durations, *traces),
                name=settings.name,
                on_decided=EngineLog().decided if settings.log.level == "debug" else None,
            ),
            target_registry=self._resources.target_registry,
            groups=self._resources.groups,
            subscribers=self._resources.subscribers,
            queue=queue,
            links=links,
            notifier=self._resources.notifier,
            webhooks=self._resources.webhooks,
        )

    def run(
        self, signals: ProcessSignals, hangups: _Hangups, api: ApiSettings | None, manager: ServiceManager
    ) -> None:
        """Run until a signal stops the node; `api` has the settings of the API that it serves."""
        service = self.service
        use_log(self._settings.log, node=service.node)
        stopped = signals.on_stop(service.kill, service.prepare_to_stop)
        service.prepare(self._reconcile)
        if self._queue is not None:
            secho(f"jobs are handed over to {self._queue.name}; {_worker_hint(self._settings)}", err=True)
        if self._links is not None:
            tell_of_workers()
        try:
            server = self._api_server
            with self._reloading(hangups) as reloader, server(api, reloader), self._heartbeat():
                self._show_start()
                service.begin()  # not earlier: a job may call the API
                manager.ready(f"running as {service.node}")
                wait_until(stopped)
                manager.stopping()
        except BaseException:
            service.stop(wait_for_jobs=False)
            raise
        self._stop()

    def _reconcile(self) -> None:
        """Apply the file to the database before the first tick, and keep what to report about it."""
        role, queues = self._options.role, self._options.queues
        title = "everwhen" if role == "up" else f"everwhen {role}"
        title, news = f"{title} of {', '.join(queues)}" if queues else title, ""
        if (configuration := self._configuration) is not None:
            runtime, schedules = self._stack.runtime, configuration.declared.schedules
            applied = apply(runtime, configuration.declared, may_remove_most=self._options.yes)
            invalidate_unusable(runtime, configuration.groups)
            tell_of_upgrade(applied, protect_stored(runtime, configuration))
            title = f"{title}: {len(schedules)} schedule{'' if len(schedules) == 1 else 's'}"
            news = f" ({spelled(applied)})"
        url = shown_url(self._options.database or self._settings.database)
        self._title = f"{title} on {url}{news}"

    def _show_start(self) -> None:
        """Report what this node is, and what it runs next, when it takes requests and can be stopped."""
        secho(f"{self._title}; Ctrl-C stops", err=True, bold=True, event="node.started")
        if self._options.role != "worker":
            for line in describe_next_runs(self._stack.runtime):
                secho(f"  {line}", err=True, event="schedule.next")

    @contextmanager
    def _reloading(self, hangups: _Hangups) -> Iterator[Reloader | None]:
        """Run the reloader during the block, if there is a file."""
        if self._known is None:
            yield None
            return
        applies = self._configuration is not None

        def read(last: Configuration) -> Configuration:
            # A worker also starts with an invalid file; only a valid configuration may be reused by the next reading.
            return read_configuration(self._options.path, this_host(), last if applies else None)

        reloader = Reloader(
            self._stack.runtime,
            read,
            self._known,
            self._resources.take,
            applies=applies,
            changes=self._stack.changes,
        )
        hangups.tell(reloader.ask)
        reloader.start(watch=self._options.watch)
        try:
            yield reloader
        finally:
            reloader.stop()

    @contextmanager
    def _api_server(self, settings: ApiSettings | None, reloader: Reloader | None) -> Iterator[None]:
        """Serve the API during the block: it opens before the loop ticks, and closes before the loop stops."""
        if settings is None:
            yield
            return
        dispatch = self._resources.configuration.settings.dispatch
        look, take = (None, None) if reloader is None else (reloader.look, reloader.take)
        server = open_api_server(
            self._stack.runtime,
            lambda: self._resources.configuration,
            settings,
            token_file=self._options.token_file,
            changes=self._stack.changes,
            node=self.service,
            durations=self._durations,
            node_hooks=NodeHooks(
                look,
                take,
                self._figures,
                dispatch,
                broker=partial(fault_of_queue, self._queue or self._links),
                alert_rules=self._resources.alert_rules,
            ),
        )
        self._resources.served_at = server.local_url
        try:
            yield
        finally:
            server.stop()

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """Call the URL of `service.heartbeat` during the block, if there is one."""
        heartbeat = self._settings.heartbeat
        if heartbeat is None:
            yield
            return
        calls = open_heartbeat(heartbeat.url, heartbeat.every, self.service.unreadiness)
        calls.start()
        try:
            yield
        finally:
            calls.stop()

    def _figures(self) -> LoopFigures:
        status, started_at, counts = self.service.status, self.service.started_at, self.service.ticker.counts
        return LoopFigures(status, started_at, counts.checks, counts.fired, counts.last_check_at)

    def _stop(self) -> None:
        timeout, running = self._settings.shutdown_timeout, self.service.worker.unsettled_count
        waiting = f", waiting up to {timeout:g}s for {running} running job{'' if running == 1 else 's'}"
        secho(f"stopping{waiting if running else ''} …", err=True, event="node.stopping")
        try:
            self.service.stop(timeout=timeout)
        except SchedulerShutdownError as error:
            secho(str(error), err=True, fg="red", event="node.stopped")
            raise SystemExit(FAILED) from None
        secho("stopped", err=True, event="node.stopped")


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
