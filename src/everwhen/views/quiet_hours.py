"""Quiet-hours policies as they are answered; the same keys, without id and source, are those of a file."""

from __future__ import annotations

from datetime import date
from typing import Any

from everwhen.model.policy import WhenClosed
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.timetable.civil_time import ORDINAL_OF_1970
from everwhen.timetable.windows import EVERY_WEEKDAY, weekday_names
from everwhen.views.shape import View, each, field
from everwhen.views.values import Object


def _days(mask: int) -> list[str] | None:
    return None if mask == EVERY_WEEKDAY else weekday_names(mask)


def _day(number: int) -> str:
    return date.fromordinal(number + ORDINAL_OF_1970).isoformat()


def _dates(span: tuple[int, int]) -> str | Object:
    first, last = map(_day, span)
    return first if first == last else DateRange.made(from_=first, to=last)


class QuietWindow(View):
    days: list[str] | None = field(
        lambda quiet: _days(quiet.weekdays), about="The days on which it begins; null: all."
    )
    between: str = field("window", via=str, examples=["22:00-07:00"])


class DateRange(View):
    """Whole days, both ends included."""

    from_: str
    to: str


class QuietHours(View):
    """A policy that schedules may share."""

    id: str = field("policy_id")
    name: str
    timezone: str = field("hours.zone.name")
    windows: list[QuietWindow] = field("hours.windows", via=each(QuietWindow.of))
    dates: list[str | DateRange] = field("hours.dates", via=each(_dates))
    action: WhenClosed
    source: str = field(about="`config`: of the file, and to be changed there; `api`.")


class QuietHoursList(View):
    items: list[QuietHours]
    total: int


def policy_to_json(policy: QuietHoursPolicy) -> dict[str, Any]:
    """Return a policy with the keys of a file, from which the same policy can be read."""
    shown = QuietHours.of(policy, source=None)
    return {key: shown[key] for key in shown if key not in ("id", "source")}
