"""The log of a node on stderr: lines for people, or with `service.log: {format: json}` one JSON object per line.

All output of a node passes through it: reports to operators (`terminal.echo` with `err=True`), what becomes of jobs,
and the records of the loggers. Every object has the keys `at`, `level`, `event`, `message`, `schedule_id`, `job_id`,
`slot_at` and `node`; those that do not apply are null.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from everwhen.cli import terminal
from everwhen.cli.exit_codes import FAILED
from everwhen.cli.marks import mark_of, marked
from everwhen.cli.terminal import Styled, echo, print_lines, styled
from everwhen.clock import now
from everwhen.config.settings import LogSettings, log_settings_of
from everwhen.errors import SchedulerError, shown
from everwhen.model.instants import to_datetime
from everwhen.model.outcome import Outcome, summary_of
from everwhen.target import Run

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_COLOURS = {logging.WARNING: "yellow", logging.ERROR: "red"}
_LEVELS_OF_COLOURS = {colour: level for level, colour in _COLOURS.items()}
_FIELDS = ("schedule_id", "job_id", "slot_at")
_TRACES = logging.Formatter()


class NodeLog:
    """Writes the lines of this process, as text or as JSON, from a level on."""

    def __init__(self) -> None:
        self.settings = LogSettings()
        self.node: str | None = None

    @property
    def is_json(self) -> bool:
        return self.settings.format == "json"

    def shows(self, level: int) -> bool:
        return level >= LEVELS[self.settings.level]

    def take_line(self, text: str, colour: str | None, event: str | None) -> bool:
        """Take a line for operators; False when the terminal is to print it. Yellow is a warning, red an error."""
        level = _LEVELS_OF_COLOURS.get(colour or "", logging.INFO)
        if self.is_json and self.shows(level):
            self.write(level, event or "node.message", text)
        return self.is_json or not self.shows(level)

    def write(self, level: int, event: str, message: str, fields: Mapping[str, object] | None = None) -> None:
        """Write one JSON object."""
        given = fields or {}
        line = {
            "at": now().isoformat(timespec="milliseconds"),
            "level": logging.getLevelName(level).lower(),
            "event": event,
            "message": message,
            **{name: given.get(name) for name in _FIELDS},
            "node": self.node,
            **given,
        }
        terminal.write_json_log(line)


_log = NodeLog()


@contextmanager
def node_logging() -> Iterator[None]:
    """Show the log of this process on stderr during the block, by the settings of the environment at first."""
    use_log(log_settings_of(os.environ))
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        yield
    except SchedulerError as error:
        if not _log.is_json:
            raise
        _log.write(logging.ERROR, "node.failed", str(error))
        raise SystemExit(FAILED) from None
    finally:
        terminal.on_stderr_line(None)
        root.handlers = before
        _log.settings, _log.node = LogSettings(), None


def use_log(settings: LogSettings, *, node: str | None = None) -> None:
    """Write the log by these settings, and from here on with the name of the node."""
    _log.settings, _log.node = settings, node
    terminal.on_stderr_line(_log.take_line)
    logger = logging.getLogger("everwhen")
    logger.handlers = [_Lines()]
    logger.setLevel(LEVELS[settings.level])
    logger.propagate = False
    if _log.is_json:  # what other libraries report
        logging.getLogger().handlers = [_Lines(logging.WARNING)]


def current_settings() -> LogSettings:
    """Return how the log is written now."""
    return _log.settings


def clock_time() -> str:
    """Return the local time: the time of day on a terminal, in a log file with the date and the offset."""
    moment = now().astimezone()
    return f"{moment:%H:%M:%S}" if sys.stderr.isatty() else moment.isoformat(timespec="milliseconds")


class _Lines(logging.Handler):
    """Writes the records of loggers."""

    def emit(self, record: logging.LogRecord) -> None:
        if _log.is_json:
            trace = f"\n{_TRACES.formatException(record.exc_info)}" if record.exc_info else ""
            fields = {name: _plain(getattr(record, name, None)) for name in _FIELDS}
            event = getattr(record, "event", "node.message")
            _log.write(record.levelno, event, record.getMessage() + trace, fields)
            return
        word = styled(record.levelname.lower(), fg=_COLOURS.get(record.levelno))
        _print(f"{clock_time()}  ", word, f"  {record.getMessage()}")
        if record.exc_info:
            print_lines(_TRACES.formatException(record.exc_info), err=True, event="")


def _plain(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else value


class JobLines:
    """Writes one line when a job starts and one when it ends."""

    def started(self, run: Run) -> None:
        if not _log.shows(logging.INFO):
            return
        if _log.is_json:
            _log.write(logging.INFO, "job.started", "started", _fields_of(run))
            return
        late = "" if run.origin == "schedule" else f" ({run.origin})"
        line = f"{clock_time()}  {shown(run.schedule_name):<24} started{late}  "
        _print(line, styled(run.job_id, dim=True))

    def ended(self, run: Run, outcome: Outcome) -> None:
        level = logging.ERROR if outcome.status in ("failed", "timed_out", "lost") else logging.INFO
        if not _log.shows(level):
            return
        text = (outcome.result if outcome.status == "succeeded" else outcome.error) or ""
        if _log.is_json:
            _log.write(level, f"job.{outcome.status}", text or outcome.status, _fields_of(run))
            return
        word = styled(marked(outcome.status), fg=mark_of(outcome.status).colour or None)
        if outcome.error is not None:
            text = summary_of(outcome.error, outcome.error_type)
        first = shown(text.splitlines()[0]) if text else ""
        _print(f"{clock_time()}  {shown(run.schedule_name):<24} ", word, f"  {first}" if first else "")


def _print(*parts: str | Styled) -> None:
    """Print a line whose level was checked."""
    echo(*parts, err=True, event="")


def _fields_of(run: Run) -> dict[str, object]:
    return {
        "schedule_id": run.schedule_id,
        "job_id": run.job_id,
        "slot_at": to_datetime(run.slot_at).isoformat(),
        "attempt": run.attempt,
        "origin": run.origin,
    }
