"""`everwhen up`: read the file, bring the database to what it says, and run until told to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import click

from everwhen.cli.configuration import config_option, show_warnings, this_host
from everwhen.cli.progress import JobLines
from everwhen.cli.reloader import Reloader, spelled
from everwhen.config.read import Configuration, read_configuration
from everwhen.errors import SchedulerShutdownError
from everwhen.model.instants import SECOND
from everwhen.operations.apply import Applied, apply
from everwhen.wiring import build_service, open_stack


@click.command(name="up")
@config_option
@click.option("--database", help="sqlite:///FILE; stands before the file's own.")
@click.option("--watch", is_flag=True, help="Reload when a file of the configuration changes.")
def command(path: Path, database: str | None, watch: bool) -> None:
    """Run the schedules of a configuration file until Ctrl-C; a restart goes on where it was.

    SIGHUP reloads the file; one with mistakes is refused, and the old one goes on.
    """
    configuration = read_configuration(path, this_host())
    show_warnings(configuration.warnings)
    settings = configuration.settings
    url = database or settings.database
    stack = open_stack(
        url,
        timezone=settings.timezone,
        check_interval=settings.check_interval,
        catch_up_stagger=int(settings.catch_up_stagger * SECOND),
    )
    applied = apply(stack.house, configuration.declared, may_remove_most=True)
    service = build_service(
        stack,
        check_interval=settings.check_interval,
        max_workers=settings.max_workers,
        lease=settings.lease,
        observer=JobLines(),
    )
    click.secho(_greeting(url, configuration, applied), err=True, bold=True)
    stopped = _stop_on_signals(service.kill)
    reloader = Reloader(stack.house, lambda: read_configuration(path, this_host()), configuration)
    signal.signal(signal.SIGHUP, lambda _number, _frame: reloader.ask("SIGHUP"))
    service.start()
    reloader.start(watch=watch)
    # In short pieces: the kernel may hand the signal to any thread, and Python's handler runs in this one only, when
    # it wakes. Blocking the signals in the other threads is no way out: what they start would inherit that.
    while not stopped.wait(0.2):
        pass
    reloader.stop()
    click.secho("stopping …", err=True)
    try:
        service.stop(timeout=settings.shutdown_timeout)
    except SchedulerShutdownError as error:
        click.secho(str(error), err=True, fg="red")
        raise SystemExit(1) from None
    finally:
        stack.close()
    click.secho("stopped", err=True)


def _greeting(url: str, configuration: Configuration, applied: Applied) -> str:
    count = len(configuration.declared.schedules)
    news = f" ({spelled(applied)})" if applied else ""
    return f"everwhen: {count} schedule{'' if count == 1 else 's'} on {url}{news}; Ctrl-C stops"


def _stop_on_signals(kill: Callable[[], None]) -> threading.Event:
    stopped = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        if stopped.is_set():  # the second one means it
            kill()
            raise SystemExit(130)
        stopped.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    return stopped
