"""Instants on the command line: the zone in which they are shown, and in which typed ones are read.

An instant of a schedule is in that schedule's zone, every other one in the viewer's: that of `--tz`, else this
machine's. With `--tz` all of them are in that zone. What is typed without an offset is read in the zone in which it
would be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import click

from everwhen.cli.terminal import secho
from everwhen.clock import local_zone_name, localized, now
from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import Zone, zone
from everwhen.timetable.instant_text import format_datetime, read_instant

EXACT = frozenset(("due_at", "next_run_at"))  # shown with their fractions of a second


class InstantDisplay:
    """Shows and reads the instants of one command; `tz` is its option `--tz`."""

    def __init__(self, tz: str | None = None) -> None:
        self._chosen = None if tz is None else _zone_of_option(tz)
        self._shows_viewers = False

    def text(self, at: str | None, timezone: str | None = None, *, exact: bool = False) -> str:
        """Format an instant of an answer; `timezone` is that of the schedule which it belongs to, if any.

        `exact`: with its fraction of a second.
        """
        if at is None:
            return "–"
        return format_datetime(self._localized(datetime.fromisoformat(at), timezone), exact=exact)

    def of(self, row: Mapping[str, Any], key: str) -> str:
        """Format an instant of a row about one schedule, which has the schedule's zone beside it."""
        timezone = row.get("timezone")  # a service of release 0.2 leaves it out
        return self.text(row[key], timezone, exact=key in EXACT)

    def read(self, option: str, typed: str | None, timezone: str | None = None) -> str | None:
        """Convert an instant that a user typed to the format of the API; `timezone`: as for `text`."""
        if typed is None:
            return None
        try:
            where = self._zone_for(timezone)
            return where.datetime(read_instant(typed, where, now())).isoformat()
        except TimetableError as error:
            raise click.BadParameter(str(error), param_hint=option) from None

    def tell_zone(self, sentence: str = "times of no schedule are in {zone}") -> None:
        """Name the viewer's zone once, beneath a list with instants in it; `sentence`: which ones these are."""
        if self._chosen is not None:
            secho(f"times in {self._chosen.name}", err=True, dim=True)
        elif self._shows_viewers and localized(now()).tzname() != "UTC":  # which each of them names
            secho(f"{sentence.format(zone=_name_of_host())}; see --tz", err=True, dim=True)

    def _localized(self, moment: datetime, timezone: str | None) -> datetime:
        if self._chosen is None and timezone is None:
            self._shows_viewers = True
            return localized(moment)
        return self._zone_for(timezone).localized(moment)

    def _zone_for(self, timezone: str | None) -> Zone:
        if self._chosen is not None:
            return self._chosen
        if timezone is None:
            return zone(local_zone_name())
        try:
            return zone(timezone)
        except TimetableError:  # of a service whose tables of zones are newer
            return zone("UTC")


def tz_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--tz`."""
    return click.option(
        "--tz", metavar="ZONE", help="Show and read all times in this zone: an IANA name, or local."
    )(command)


def _zone_of_option(tz: str) -> Zone:
    try:
        return zone(local_zone_name() if tz == "local" else tz)
    except TimetableError as error:
        raise click.BadParameter(str(error), param_hint="--tz") from None


def _name_of_host() -> str:
    try:
        return local_zone_name()
    except TimetableError:
        return "this machine's zone"
