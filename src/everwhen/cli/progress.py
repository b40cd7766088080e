"""Progress on stderr: a line for each job that starts or ends, and a progress bar."""

from __future__ import annotations

import sys

from everwhen.cli.terminal import echo, redraw_line, styled
from everwhen.clock import now
from everwhen.errors import shown
from everwhen.model.outcome import Outcome
from everwhen.target import Run

_COLOURS = {"succeeded": "green", "failed": "red", "timed_out": "red", "lost": "red", "cancelled": "yellow"}


class JobLines:
    """Prints one line when a job starts and one when it ends."""

    def started(self, run: Run) -> None:
        late = "" if run.origin == "schedule" else f" ({run.origin})"
        line = f"{clock_time()}  {shown(run.schedule_name):<24} started{late}  "
        echo(line, styled(run.job_id, dim=True), err=True)

    def ended(self, run: Run, outcome: Outcome) -> None:
        word = styled(outcome.status, fg=_COLOURS[outcome.status])
        text = (outcome.result if outcome.status == "succeeded" else outcome.error) or ""
        first = shown(text.splitlines()[0]) if text else ""
        tail = f"  {first}" if first else ""
        echo(f"{clock_time()}  {shown(run.schedule_name):<24} ", word, tail, err=True)


def clock_time() -> str:
    """Return the local time: the time of day on a terminal, in a log file with the date and the offset."""
    moment = now().astimezone()
    return f"{moment:%H:%M:%S}" if sys.stderr.isatty() else moment.isoformat(timespec="milliseconds")


class Bar:
    """A progress bar on stderr; it prints nothing where stderr is not a terminal."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._is_shown = sys.stderr.isatty()
        self._last = ""

    def show(self, share: float) -> None:
        done = int(max(0.0, min(share, 1.0)) * 30)
        line = f"{self._word}  {'█' * done}{'░' * (30 - done)} {share:4.0%}"
        if self._is_shown and line != self._last:
            self._last = line
            redraw_line(line)

    def clear(self) -> None:
        if self._last:
            redraw_line()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
