"""Lines on stderr about what happens, for a person who watches."""

from __future__ import annotations

import click

from everwhen.model.outcome import Outcome
from everwhen.ports.target import Run
from everwhen.system_clock import now

_COLOURS = {"succeeded": "green", "failed": "red", "timed_out": "red", "lost": "red", "cancelled": "yellow"}


class JobLines:
    """One line when a job starts, one when it has ended."""

    def started(self, run: Run) -> None:
        late = "" if run.origin == "schedule" else f" ({run.origin})"
        click.echo(
            f"{_time()}  {run.schedule_name:<24} started{late}  {click.style(run.job_id, dim=True)}",
            err=True,
        )

    def ended(self, run: Run, outcome: Outcome) -> None:
        word = click.style(outcome.status, fg=_COLOURS[outcome.status])
        text = (outcome.result if outcome.status == "succeeded" else outcome.error) or ""
        first = text.splitlines()[0][:100] if text else ""
        click.echo(f"{_time()}  {run.schedule_name:<24} {word}  {first}".rstrip(), err=True)


def _time() -> str:
    """The time on this machine's wall: lines come in the order in which things happen."""
    return f"{now().astimezone():%H:%M:%S}"
