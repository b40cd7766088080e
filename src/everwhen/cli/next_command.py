"""`everwhen next EXPR`: what a cron expression or an interval means, and its next instants."""

from __future__ import annotations

import click

from everwhen import clock
from everwhen.cli.terminal import echo, print_json, secho, styled
from everwhen.errors import CronParseError, IntervalParseError, SchedulerError, TimetableError
from everwhen.timetable.civil_time import Zone, epoch_seconds, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.describe import describe, describe_dst, describe_seconds
from everwhen.timetable.occurrences import Occurrences, Series, series_of
from everwhen.timetable.trigger import Cron, Trigger, parse_every, parse_instant

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
    "--after", metavar="TIME", help="Start at this instant instead of now; without offset it is read in --tz."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def command(expression: str, timezone: str, count: int, after: str | None, as_json: bool) -> None:
    """Describe EXPR in words, then list its next instants.

    EXPR is a cron expression ("0 9 * * 1-5"), a shorthand (@daily), an interval (90s, 1h30m) or one of hourly, daily,
    weekly, monthly. Intervals are counted from now, or from --after.

    \b
    everwhen next "30 2 * * *" --tz Europe/Berlin --after 2026-03-28T00:00
    """
    try:
        where = zone(clock.local_zone_name() if timezone == "local" else timezone)
        trigger = parse_expression(expression)
        start = clock.now() if after is None else where.datetime(parse_instant(after, where))
    except SchedulerError as error:
        raise _usage(error) from None
    begin = epoch_seconds(start)
    series = series_of(trigger, zone=where, anchor_at=begin)
    instants = _instants(Occurrences(series), begin, count)
    show = _show_json if as_json else _show_text
    show(expression, describe(trigger, where), where, begin, instants, series=series)


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
    hint = ""
    if isinstance(error, CronParseError):
        hint = f"\nA working example: {error.example}"
    if isinstance(error, TimetableError) and error.key == "at":
        return click.BadParameter(f"{error}", param_hint="--after")
    return click.UsageError(f"{error}{hint}")


def _instants(series: Occurrences, begin: int, count: int) -> list[int]:
    found: list[int] = []
    slot_at = series.next_after(begin)
    while slot_at is not None and len(found) < count:
        found.append(slot_at)
        slot_at = series.next_after(slot_at)
    return found


def _show_json(
    expression: str, fields: str, where: Zone, begin: int, instants: list[int], *, series: Series
) -> None:
    answer = {
        "expression": expression,
        "description": fields,
        "timezone": where.name,
        "after": where.datetime(begin).isoformat(),
        "instants": [
            {
                "at": where.datetime(slot_at).isoformat(),
                "utc": _utc(slot_at),
                "note": describe_dst(series, slot_at),
            }
            for slot_at in instants
        ],
    }
    print_json(answer)


def _show_text(
    expression: str, fields: str, where: Zone, begin: int, instants: list[int], *, series: Series
) -> None:
    echo(styled(fields[0].upper() + fields[1:], bold=True), f" ({where.name})")
    echo()
    for slot_at in instants:
        _show_instant(where, begin, slot_at, describe_dst(series, slot_at))
    if not instants:
        echo("  never again")


def _show_instant(where: Zone, begin: int, slot_at: int, note: str | None) -> None:
    moment = where.datetime(slot_at)
    offset = moment.isoformat()[19:]
    distance = styled(f"in {_rough(slot_at - begin)}", dim=True)
    echo(f"  {moment:%a %Y-%m-%d %H:%M:%S} {offset}  ", distance)
    if note:
        secho(f"      ↳ {note}", fg="yellow")


def _rough(seconds: int) -> str:
    """Format a distance in its two largest units."""
    return " ".join(_spelled(seconds).split()[:4])


def _spelled(seconds: int) -> str:
    fields = describe_seconds(seconds)
    return fields if fields[0].isdigit() else f"1 {fields}"


def _utc(slot_at: int) -> str:
    return zone("UTC").datetime(slot_at).strftime("%Y-%m-%dT%H:%M:%SZ")
