"""`everwhen next EXPR`: what a cron expression or an interval means, and its next instants."""

from __future__ import annotations

import click

from everwhen import clock
from everwhen.cli.screen import Answers, answering
from everwhen.cli.terminal import echo, secho, styled
from everwhen.errors import CronParseError, IntervalParseError, SchedulerError, TimetableError
from everwhen.model.instants import SECOND
from everwhen.timetable.civil_time import Zone, epoch_seconds, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.describe import describe, describe_dst, describe_seconds
from everwhen.timetable.instant_text import format_datetime, read_instant
from everwhen.timetable.occurrences import Occurrences, Series, series_of
from everwhen.timetable.trigger import Cron, Trigger, parse_every
from everwhen.views.shape import when_text

MOST = 1_000


@click.command(name="next", context_settings={"ignore_unknown_options": True})  # "-5m" is a (wrong) interval
@click.argument("expression", metavar="EXPR")
@click.option(
    "--tz",
    "timezone",
    default="UTC",
    metavar="ZONE",
    show_default=True,
    help="Use this zone: an IANA name, or local.",
)
@click.option(
    "--count", default=5, show_default=True, type=click.IntRange(1, MOST), help="Show this many instants."
)
@click.option(
    "--after",
    metavar="TIME",
    help="Start at this instant instead of now; without an offset it is read in --tz.",
)
@answering
def command(expression: str, timezone: str, count: int, after: str | None) -> Answers:
    """Describe EXPR in words, then list its next instants.

    EXPR is a cron expression ("0 9 * * 1-5"), a shorthand (@daily), an interval (90s, 1h30m) or one of hourly, daily,
    weekly, monthly. Intervals are counted from now, or from --after.

    \b
    everwhen next "30 2 * * *" --tz Europe/Berlin --after 2026-03-28T00:00
    """
    try:
        where = zone(clock.local_zone_name() if timezone == "local" else timezone)
        trigger = parse_expression(expression)
        start = clock.now() if after is None else where.datetime(read_instant(after, where, clock.now()))
    except SchedulerError as error:
        raise _usage(error) from None
    begin = epoch_seconds(start)
    series = series_of(trigger, zone=where, anchor_at=begin)
    meaning = describe(trigger, where)
    instants = _instants(Occurrences(series), begin, count)
    yield {
        "expression": expression,
        "description": meaning,
        "timezone": where.name,
        "after": where.datetime(begin).isoformat(),
        "instants": [_instant_to_json(series, where, slot_at) for slot_at in instants],
    }
    echo(styled(meaning[0].upper() + meaning[1:], bold=True), f" ({where.name})")
    echo()
    for slot_at in instants:
        _show_instant(where, begin, slot_at, describe_dst(series, slot_at))
    if not instants:
        echo("  no further instant")


def parse_expression(text: str) -> Trigger:
    """Parse a trigger that a user typed; when it is neither kind, raise the error of the likelier one."""
    try:
        return parse_every(text)
    except IntervalParseError:
        if not _looks_like_cron(text):
            raise
    return Cron(parse_cron(text))


def _looks_like_cron(text: str) -> bool:
    fields = text.split()
    return (
        "*" in text
        or text.lstrip().startswith("@")
        or len(fields) > 4
        or (len(fields) > 1 and all(word[0].isdigit() and not word[-1].isalpha() for word in fields))
    )


def _usage(error: SchedulerError) -> click.UsageError:
    if isinstance(error, TimetableError) and error.key == "at":
        return click.BadParameter(str(error), param_hint="--after")
    hint = f"\nA working example: {error.example}" if isinstance(error, CronParseError) else ""
    return click.UsageError(f"{error}{hint}")


def _instants(series: Occurrences, begin: int, count: int) -> list[int]:
    found: list[int] = []
    slot_at = series.next_after(begin)
    while slot_at is not None and len(found) < count:
        found.append(slot_at)
        slot_at = series.next_after(slot_at)
    return found


def _instant_to_json(series: Series, where: Zone, slot_at: int) -> dict[str, str | None]:
    at, utc = where.datetime(slot_at).isoformat(), when_text(slot_at * SECOND)
    return {"at": at, "utc": utc, "note": describe_dst(series, slot_at)}


def _show_instant(where: Zone, begin: int, slot_at: int, note: str | None) -> None:
    distance = styled(f"in {_rough(slot_at - begin)}", dim=True)
    echo(f"  {format_datetime(where.datetime(slot_at))}  ", distance)
    if note:
        secho(f"      ↳ {note}", fg="yellow")


def _rough(seconds: int) -> str:
    """Format a distance in its two largest units."""
    text = describe_seconds(seconds)
    return " ".join((text if text[0].isdigit() else f"1 {text}").split()[:4])
