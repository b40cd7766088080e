"""How close the matches of a cron expression come, by arithmetic on its days and on the minutes of a day.

In readings of the wall clock: a day on which the clocks change counts as 24 hours, so that what fires once a day is
not too often for it, and an answer does not depend on the month in which it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from everwhen.timetable.civil_time import DAY
from everwhen.timetable.cron import CronExpression, DayRule, bits

SHORTEST_MONTH = 28 * DAY


def smallest_cron_gap(expression: CronExpression, start: int, end: int) -> int | None:
    """Return the fewest seconds between two matching readings in [start, end); None: fewer than two match.

    >>> from everwhen.timetable.cron import parse_cron
    >>> smallest_cron_gap(parse_cron("0,59 0,23 15,16 * *"), 0, 400 * DAY)
    60
    """
    whole = expression.times_of_day()
    gap_of_day = _gap_of_day(whole)
    first, last = -(-start // 60), -(-end // 60)  # minutes
    gaps: list[int] = []
    before = None
    for day in _matching_days(expression.days, first // 1_440, -(-last // 1_440)):
        midnight = day * 1_440
        times = whole
        if midnight < first:
            times = times >> (first - midnight) << (first - midnight)
        if midnight + 1_440 > last:
            times &= (1 << (last - midnight)) - 1
        if not times:
            continue
        if before is not None:
            gaps.append(midnight + (times & -times).bit_length() - before)
        gap = gap_of_day if times == whole else _gap_of_day(times)
        if gap is not None:
            gaps.append(gap)
        before = midnight + times.bit_length()
    return min(gaps) * 60 if gaps else None


def _matching_days(rule: DayRule, day: int, end: int) -> Iterator[int]:
    while day < end:
        year = rule.year_of(day)
        for number in bits(year.mask >> (day - year.first)):
            if day + number < end:
                yield day + number
        day = year.end


def _gap_of_day(times: int) -> int | None:
    return min((after - before for before, after in pairwise(bits(times))), default=None)
