"""`everwhen up`: read the file, bring the database to what it says, and run until told to stop."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import click

from everwhen.cli.progress import JobLines
from everwhen.config.general import Configuration, read_configuration
from everwhen.errors import SchedulerShutdownError
from everwhen.operations.apply import Applied, apply_submissions
from everwhen.operations.schedules import Submission
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
    stack = open_stack(url, timezone=service_words.get("timezone", "UTC"), check_interval=check_interval)
    applied = apply_submissions(stack.house, submissions_of(configuration))
    service = build_service(
        stack,
        check_interval=check_interval,
        max_workers=int(service_words.get("max_workers", 8)),
        lease=float(parse_seconds(service_words.get("lease", "30s"))),
        observer=JobLines(),
    )
    click.secho(_greeting(url, configuration, applied), err=True, bold=True)
    stopped = _stop_on_signals()
    service.start()
    stopped.wait()
    click.secho("stopping …", err=True)
    try:
        service.stop(timeout=float(parse_seconds(service_words.get("shutdown_timeout", "30s"))))
    except SchedulerShutdownError as error:
        click.secho(str(error), err=True, fg="red")
        raise SystemExit(1) from None
    finally:
        stack.close()
    click.secho("stopped", err=True)


def submissions_of(configuration: Configuration) -> list[Submission]:
    return [
        Submission(s.schedule_id, s.words, s.target, source="config", may_be_past=True)
        for s in configuration.schedules
    ]


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


def _stop_on_signals() -> threading.Event:
    stopped = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        if stopped.is_set():  # the second one means it
            raise SystemExit(130)
        stopped.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    return stopped
