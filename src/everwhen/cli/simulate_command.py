"""`everwhen simulate`: what this configuration would do, with a virtual clock."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import click

from everwhen.cli.configuration import database_options, opened, show_warnings, this_host
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
from everwhen.errors import TimetableError
from everwhen.model.instants import DAY, SECOND, to_datetime
from everwhen.operations.simulate import Line, Scenario, Simulation, recorded_runs, simulate
from everwhen.timetable.civil_time import Zone, zone
from everwhen.timetable.describe import describe_seconds
from everwhen.timetable.trigger import parse_instant
from everwhen.views.shape import when_text

MOST_DAYS = 3_650


@click.command(name="simulate")
@database_options
@from_option("Start at this instant (default: now).")
@click.option("--to", "end", metavar="TIME", help="End at this instant (default: a week after the start).")
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
    where = zone(configuration.settings.timezone)
    first, last = _span(start, end, where)
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
    _show(found, where)


def _span(start: str | None, end: str | None, where: Zone) -> tuple[int, int]:
    first = _instant("--from", start, where) or SystemClock().now() // SECOND * SECOND
    last = _instant("--to", end, where) or first + 7 * DAY
    if last <= first:
        raise click.BadParameter("it is not after --from", param_hint="--to")
    if last - first > MOST_DAYS * DAY:
        raise click.BadParameter(f"the span is longer than {MOST_DAYS:,} days", param_hint="--to")
    return first, last


def _instant(option: str, text: str | None, where: Zone) -> int | None:
    if text is None:
        return None
    try:
        return parse_instant(f"{text}T00:00" if len(text) == 10 else text, where) * SECOND
    except TimetableError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


# -- for people --


def _show(found: Simulation, where: Zone) -> None:
    counts = found.counts
    lines = sorted(counts.lines.values(), key=lambda line: line.schedule_id)
    echo(f"{_time(counts.start, where)}  →  {_time(counts.end, where)}  {where.name}")
    echo()
    columns = ("schedule", ">fired", ">skipped", ">missed", ">failed", "time line")
    print_table(columns, [_row(line) for line in lines], empty="no schedules")
    echo()
    echo(_totals(found, lines))
    for title in ("skipped", "missed"):
        if reasons := _sum(lines, title):
            echo(f"{title}: " + ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common()))
    print_text(Text("█ fired  ▒ skipped or missed  ✗ some failed", "dim"))


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


def _totals(found: Simulation, lines: list[Line]) -> str:
    fired = sum(line.fired for line in lines)
    waited = max((line.longest_wait for line in lines), default=0)
    counts = found.counts
    peak = f"at most {counts.peak_running} at once of {found.max_workers} workers"
    at = f" (first {_time(counts.peak_at, zone('UTC'))} UTC)" if counts.peak_at is not None else ""
    wait = f"; the longest wait for a worker {describe_seconds(waited // SECOND)}" if waited >= SECOND else ""
    of = f"{counted(found.slots, 'slot')} of {counted(len(lines), 'schedule')}"
    return f"{of}, {fired:,} fired, {peak}{at}{wait}."


def _sum(lines: list[Line], name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for line in lines:
        total.update(getattr(line, name))
    return total


def _time(instant: int, where: Zone) -> str:
    return f"{to_datetime(instant).astimezone(where.tzinfo):%a %Y-%m-%d %H:%M}"


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
