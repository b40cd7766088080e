"""`everwhen simulate`: what this configuration would do, with a virtual clock."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import click

from everwhen.cli.configuration import database_options, opened, show_warnings, this_host
from everwhen.cli.instants import InstantDisplay, tz_option
from everwhen.cli.screen import (
    Answers,
    ProgressBar,
    Text,
    answering,
    counted,
    from_option,
    print_table,
    print_text,
)
from everwhen.cli.terminal import echo
from everwhen.clock import SystemClock
from everwhen.config.read import read_configuration
from everwhen.config.scenario import read_scenario
from everwhen.model.instants import DAY, SECOND, instant_of, rfc3339_text
from everwhen.operations.simulate import Line, Scenario, Simulation, recorded_runs, simulate
from everwhen.timetable.civil_time import zone
from everwhen.timetable.describe import describe_seconds
from everwhen.views.shape import when_text

MOST_DAYS = 3_650


@click.command(name="simulate")
@database_options
@from_option("Start at this instant (default: now); without an offset it is read in the zone of --tz.")
@click.option("--to", "end", metavar="TIME", help="End at this instant (default: a week after the start).")
@tz_option
@click.option(
    "--scenario",
    "scenario_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read from this file how long runs take, which of them fail, and outages.",
)
@click.option(
    "--history", "from_history", is_flag=True, help="Take the durations and failures of runs from the record."
)
@answering
def command(
    path: Path,
    database: str | None,
    start: str | None,
    end: str | None,
    tz: str | None,
    scenario_path: Path | None,
    from_history: bool,
) -> Answers:
    """Show what this configuration would do in a span of time. Nothing is run and nothing is written.

    Every schedule begins at the start of the span. Without a scenario each run takes a second and succeeds.

    \b
    everwhen simulate --from 2026-12-01 --to 2027-01-01
    everwhen simulate --scenario busy-day.yaml --json
    """
    configuration = read_configuration(path, this_host())
    show_warnings(configuration.warnings)
    display, where = InstantDisplay(tz), zone(configuration.settings.timezone)
    first, last = _span(display.read("--from", start), display.read("--to", end))
    scenario = Scenario() if scenario_path is None else read_scenario(scenario_path, where)
    with ExitStack() as stack:
        runs = None
        if from_history:
            runtime = stack.enter_context(opened(path, database, may_create=False))
            runs = recorded_runs(runtime, scenario)
        bar = stack.enter_context(ProgressBar("simulating"))
        found = simulate(
            configuration.declared,
            first,
            last,
            scenario=scenario,
            runs=runs,
            max_workers=configuration.settings.max_workers,
            progress=bar.show,
        )
    yield _simulation_to_json(found)
    _show(found, display)


def _span(start: str | None, end: str | None) -> tuple[int, int]:
    first = SystemClock().now() // SECOND * SECOND if start is None else _instant(start)
    last = first + 7 * DAY if end is None else _instant(end)
    if last <= first:
        raise click.BadParameter("it is not after --from", param_hint="--to")
    if last - first > MOST_DAYS * DAY:
        raise click.BadParameter(f"the span is longer than {MOST_DAYS:,} days", param_hint="--to")
    return first, last


def _instant(text: str) -> int:
    return instant_of(datetime.fromisoformat(text))


# -- for people --


def _show(found: Simulation, display: InstantDisplay) -> None:
    counts = found.counts
    lines = sorted(counts.lines.values(), key=lambda line: line.schedule_id)
    echo(f"{_shown(counts.start, display)}  →  {_shown(counts.end, display)}")
    echo()
    columns = ("schedule", ">fired", ">skipped", ">missed", ">failed", "time line")
    print_table(columns, [_row(line) for line in lines], empty="no schedules")
    echo()
    echo(_totals(found, lines, display))
    for title in ("skipped", "missed"):
        if reasons := _sum(lines, title):
            echo(f"{title}: " + ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common()))
    print_text(Text("█ fired  ▒ skipped or missed  ✗ some failed", "dim"))
    display.tell_zone()


def _row(line: Line) -> tuple[str | Text, ...]:
    passed = line.skipped.total()
    missed = line.missed.total() + line.caught_up
    failed = line.ended["failed"] + line.ended["timed_out"]
    figures = (f"{number:,}" if number else "·" for number in (line.fired, passed, missed, failed))
    return (Text(line.schedule_id, "bold"), *figures, _time_line(line))


def _time_line(line: Line) -> Text:
    text = Text()
    for fired, passed, failed in zip(line.fired_in, line.passed_in, line.failed_in, strict=True):
        if failed:
            text.append("✗", "red")
        elif fired:
            text.append("█", "green")
        else:
            text.append("▒" if passed else "·", "yellow" if passed else "dim")
    return text


def _totals(found: Simulation, lines: list[Line], display: InstantDisplay) -> str:
    fired = sum(line.fired for line in lines)
    waited = max((line.longest_wait for line in lines), default=0)
    counts = found.counts
    peak = f"at most {counts.peak_running} at once of {found.max_workers} workers"
    at = f" (first {_shown(counts.peak_at, display)})" if counts.peak_at is not None else ""
    wait = f"; the longest wait for a worker {describe_seconds(waited // SECOND)}" if waited >= SECOND else ""
    of = f"{counted(found.slots, 'slot')} of {counted(len(lines), 'schedule')}"
    return f"{of}, {fired:,} fired, {peak}{at}{wait}."


def _sum(lines: list[Line], name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for line in lines:
        total.update(getattr(line, name))
    return total


def _shown(instant: int, display: InstantDisplay) -> str:
    return display.text(rfc3339_text(instant))


# -- for programs --


def _simulation_to_json(found: Simulation) -> dict[str, object]:
    counts = found.counts
    lines = list(counts.lines.values())
    return {
        "from": when_text(counts.start),
        "to": when_text(counts.end),
        "slots": found.slots,
        "fired": sum(line.fired for line in lines),
        "skipped": dict(_sum(lines, "skipped")),
        "missed": dict(_sum(lines, "missed")),
        "ended": dict(_sum(lines, "ended")),
        "peak_running": counts.peak_running,
        "peak_at": when_text(counts.peak_at),
        "max_workers": found.max_workers,
        "schedules": [_line_to_json(line) for line in lines],
    }


def _line_to_json(line: Line) -> dict[str, object]:
    return {
        "schedule_id": line.schedule_id,
        "description": line.text,
        "slots": line.slots,
        "fired": line.fired,
        "first_at": when_text(line.first_at),
        "last_at": when_text(line.last_at),
        "ended": dict(line.ended),
        "skipped": dict(line.skipped),
        "missed": dict(line.missed),
        "caught_up": line.caught_up,
        "busy_seconds": line.busy / SECOND,
        "longest_wait_seconds": line.longest_wait / SECOND,
        "timeline": {"fired": line.fired_in, "passed": line.passed_in, "failed": line.failed_in},
    }
