"""Triggers in words: true for what was parsed, whatever its spelling."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from everwhen.timetable.civil_time import epoch_seconds, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.cron_series import CronSeries
from everwhen.timetable.describe import describe, describe_cron, describe_dst
from everwhen.timetable.interval import IntervalSeries
from everwhen.timetable.monthly import MonthlySeries
from everwhen.timetable.trigger import EveryMonth, Once, OnRequest, Trigger, parse_every


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0 * * * *", "every hour"),
        ("30 * * * *", "every hour at minute 30"),
        ("5/15 * * * *", "minutes 5, 20, 35 and 50 of every hour"),
        ("@daily", "every day at 00:00"),
        ("0 9 * * 1-5", "at 09:00, Monday to Friday"),
        ("0-59/30 2 * * *", "every day at 02:00 and 02:30"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45, Monday to Friday"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("* 9 * * *", "every minute from 09:00 to 09:59"),
        ("5 */2 * * *", "every 2 hours at minute 5"),
        ("0 */2 * * *", "every 2 hours"),
        ("*/10 8,12,16 * * *", "every 10 minutes of hours 8, 12 and 16"),
        ("0 22-23,0-6 * * *", "minute 0 of hours 0–6, 22 and 23"),
        ("0 0 1 * *", "at 00:00, on the 1st of the month"),
        ("0 0 1,2,3,11,22,23 * *", "at 00:00, on the 1st, 2nd, 3rd, 11th, 22nd and 23rd of the month"),
        ("0 0 L * *", "at 00:00, on the last day of the month"),
        ("0 0 15,LW * *", "at 00:00, on the 15th and last working day of the month"),
        ("0 9 * * 5L", "at 09:00, on the last Friday of the month"),
        ("0 9 * * MON#2", "at 09:00, on the 2nd Monday of the month"),
        ("0 9 * * 1L,3#2", "at 09:00, on the last Monday and 2nd Wednesday of the month"),
        ("0 9 * * 5-7", "at 09:00, Friday to Sunday"),
        ("0 9 * * 6,0", "at 09:00, on Saturdays and Sundays"),
        ("0 9 13 * 5", "at 09:00, on the 13th of the month or on Fridays"),
        ("0 9 */2 * 1", "at 09:00, on the 1st, 3rd, 5th … 31st of the month, only on Mondays"),
        ("0 9 1-7 * */7", "at 09:00, on the 1st to 7th of the month, only on Sundays"),
        ("0 9 1-31 * 1", "every day at 09:00"),
        ("30 4 * JAN,FEB *", "every day at 04:30, in January and February"),
        ("0 0 1 3-5 *", "at 00:00, on the 1st of the month, March to May"),
    ],
)
def test_a_cron_expression_in_words(text: str, fields: str) -> None:
    assert describe_cron(parse_cron(text)) == fields


@pytest.mark.parametrize(
    ("trigger", "fields"),
    [
        (parse_every("5m"), "every 5 minutes"),
        (parse_every("1h30m"), "every 1 hour 30 minutes"),
        (parse_every("daily"), "every 24 hours"),
        (EveryMonth(), "every month, at the same day and time"),
        (Once(1_800_000_000, "at", ""), "once, at Fri 2027-01-15 09:00:00 CET +01:00"),
        (OnRequest("webhook"), "when its webhook is called"),
        (OnRequest("chat"), "when somebody asks in chat"),
    ],
)
def test_other_triggers_in_words(trigger: Trigger, fields: str) -> None:
    assert describe(trigger, zone("Europe/Berlin")) == fields


def note(text: str, at: datetime) -> str | None:
    return describe_dst(CronSeries(parse_cron(text), zone("Europe/Berlin")), epoch_seconds(at))


def test_what_a_change_of_the_clock_did_is_said() -> None:
    gap = datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert note("30 2 * * *", gap) == "shifted: the clock jumps from 02:00 to 03:00"
    assert note("0 3 * * *", gap) is None
    fold = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert note("30 2 * * *", fold) == "doubled: 02:30 comes twice, this is the first (the first counts)"
    second = fold.replace(hour=1)
    assert note("*/30 * * * *", second) == "doubled: 02:30 comes twice, this is the second (both count)"
    assert note("30 2 * * *", datetime(2026, 7, 1, 0, 30, tzinfo=UTC)) is None
    assert describe_dst(IntervalSeries(0, 60), epoch_seconds(fold)) is None


def test_a_jump_over_a_whole_day_is_described_with_its_dates() -> None:
    apia = zone("Pacific/Apia")
    after = epoch_seconds(datetime(2011, 12, 30, 10, tzinfo=UTC))  # 00:00 of the 31st there
    fields = "shifted: the clock jumps from Fri 30 Dec 00:00 to Sat 31 Dec 00:00"
    assert describe_dst(CronSeries(parse_cron("0 12 * * *"), apia), after) == fields
    anchor = epoch_seconds(datetime(2011, 11, 30, 0, tzinfo=apia.tzinfo))
    assert describe_dst(MonthlySeries(anchor, apia), after) == fields
    assert describe_dst(MonthlySeries(anchor, apia), anchor) is None
