"""`everwhen up`: read the file, bring the database to what it says, and run until told to stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from everwhen.cli.progress import JobLines
from everwhen.config.general import Configuration, read_configuration
from everwhen.errors import ConfigError, SchedulerShutdownError
from everwhen.operations.apply import Applied, apply_submissions
from everwhen.operations.schedules import Submission
from everwhen.system_clock import local_zone_name
from everwhen.timetable.interval import parse_seconds
from everwhen.wiring import build_service, open_stack


@click.command(name="up")
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=lambda: Path(os.environ.get("EVERWHEN_CONFIG", "everwhen.yaml")),
    help="The configuration file (default everwhen.yaml).",
)
@click.option("--database", help="sqlite:///FILE; stands before the file's own.")
def command(path: Path, database: str | None) -> None:
    """Run the schedules of a configuration file until Ctrl-C; a restart goes on where it was."""
    configuration = read_configuration(path)
    service_words = configuration.service
    url = (
        database
        or os.environ.get("EVERWHEN_DATABASE")
        or service_words.get("database", "sqlite:///everwhen.db")
    )
    check_interval = float(parse_seconds(service_words.get("check_interval", "1s")))
    stack = open_stack(url, timezone=_zone_name(service_words.get("timezone")), check_interval=check_interval)
    applied = apply_submissions(stack.house, submissions_of(configuration))
    service = build_service(
        stack,
        check_interval=check_interval,
        max_workers=_max_workers(service_words.get("max_workers", 8)),
        lease=float(parse_seconds(service_words.get("lease", "30s"))),
        observer=JobLines(),
    )
    click.secho(_greeting(url, configuration, applied), err=True, bold=True)
    stopped = _stop_on_signals(service.kill)
    service.start()
    # In short pieces: the kernel may hand the signal to any thread, and Python's handler runs in this one only, when
    # it wakes. Blocking the signals in the other threads is no way out: what they start would inherit that.
    while not stopped.wait(0.2):
        pass
    click.secho("stopping …", err=True)
    try:
        service.stop(timeout=float(parse_seconds(service_words.get("shutdown_timeout", "30s"))))
    except SchedulerShutdownError as error:
        click.secho(str(error), err=True, fg="red")
        raise SystemExit(1) from None
    finally:
        stack.close()
    click.secho("stopped", err=True)


def _zone_name(name: str | None) -> str:
    return local_zone_name() if name == "local" else name or "UTC"


def _max_workers(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000:
        raise ConfigError(f"service.max_workers: {value!r} must be a whole number from 1 to 1,000")
    return value


def submissions_of(configuration: Configuration) -> list[Submission]:
    return [
        Submission(s.schedule_id, _resolved(s.words), s.target, source="config", may_be_past=True)
        for s in configuration.schedules
    ]


def _resolved(words: Mapping[str, Any]) -> dict[str, Any]:
    """`local` is written down as the host's zone, so that every node means the same (T7)."""
    return {**words, "timezone": local_zone_name()} if words.get("timezone") == "local" else dict(words)


def _greeting(url: str, configuration: Configuration, applied: Applied) -> str:
    news = [
        f"{len(ids)} {word}"
        for word, ids in (
            ("new", applied.created),
            ("changed", applied.changed),
            ("removed", applied.removed),
        )
        if ids
    ]
    count = len(configuration.schedules)
    plural = "" if count == 1 else "s"
    return f"everwhen: {count} schedule{plural} on {url}{' (' + ', '.join(news) + ')' if news else ''}; Ctrl-C stops"


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
