"""Cron expressions: what is read, and what is refused with which words."""

from __future__ import annotations

import itertools
from datetime import datetime

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given
from hypothesis import strategies as st

from everwhen import is_valid_cron_expression
from everwhen.errors import CronParseError
from everwhen.timetable.cron import SHORTHANDS, bits, parse_cron


@pytest.mark.parametrize(
    ("text", "fault", "field"),
    [
        ("0 25 * * *", "hour must be 0-23", "hour"),
        ("60 * * * *", "minute must be 0-59", "minute"),
        ("0 0 0 * *", "day-of-month must be 1-31", "day-of-month"),
        ("0 0 32 * *", "day-of-month must be 1-31", "day-of-month"),
        ("0 0 * 13 *", "month must be 1-12", "month"),
        ("0 0 * 0 *", "month must be 1-12", "month"),
        ("0 0 * * 8", "day-of-week must be 0-7", "day-of-week"),
        ("0 0 * * MON-", "day-of-week must be 0-7", "day-of-week"),
        ("0 0 * * MON#6", "day-of-week must be 0-7", "day-of-week"),
        ("0 0 * * FRIL", "day-of-week must be 0-7", "day-of-week"),
        ("*/0 * * * *", "minute must be 0-59", "minute"),
        ("5-1 * * * *", "minute must be 0-59", "minute"),
        ("1,, * * * *", "minute must be 0-59", "minute"),
        ("١ * * * *", "minute must be 0-59", "minute"),
        ("ſun * * * *", "minute must be 0-59", "minute"),
        ("0 0 * * ſun", "day-of-week must be 0-7", "day-of-week"),
        ("0 0 L/2 * *", "day-of-month must be 1-31", "day-of-month"),
        ("0 L * * *", "hour must be 0-23", "hour"),
        ("0 0 * JANUARY *", "month must be 1-12", "month"),
        ("* * *", "expected 5 fields, got 3", None),
        ("", "expected 5 fields, got 0", None),
        ("0 0 0 * * *", "expected 5 fields, got 6", None),
        ("@dayly", 'unknown shorthand "@dayly"', None),
        ("@reboot", 'unknown shorthand "@reboot"', None),
        ("0 0 30 2 *", "never matches", "day-of-month"),
        ("0 0 31 4,6,9,11 *", "never matches", "day-of-month"),
        ("0 0 */31 * 5#5", "never matches", "day-of-month"),
    ],
)
def test_a_fault_names_the_expression_the_field_and_a_working_example(
    text: str, fault: str, field: str | None
) -> None:
    with pytest.raises(CronParseError) as caught:
        parse_cron(text)
    assert str(caught.value) == f'Invalid cron expression "{text}" - {fault}'
    assert (caught.value.expression, caught.value.field) == (text, field)
    parse_cron(caught.value.example)


# Days that only months of one length have, and terms that are malformed. Left out is what the decision on cronsim
# names: a step on L or LW, and a range of one value with a step.
DATES = """* */7 */28 */29 */30 */31 */31,22 */31,28 */30,29 */32 L LW */31,LW 22 29 30,31 31/2 28-29/5 L-3 15W */L LL
    0/2""".split()
MONTHS = "* 2 FEB 2/12 2,4 */12 4,6,9,11 11-2 0/2 13".split()
WEEKDAYS = """* */7 */8 0L 3L 6L 7L 0L,6L 1,0L 5#5 MON#5 7#5 2#4 1#05 L SUNL 5L/2 1-5#2 *#2 1#0 1#6 1# #1 1#1#1 sat-sun
    6-7 5L,""".split()


@pytest.mark.parametrize("dates", DATES)
def test_an_expression_is_valid_where_cronsim_finds_a_match_within_fifty_years(dates: str) -> None:
    texts = [f"0 0 {dates} {months} {weekdays}" for months, weekdays in itertools.product(MONTHS, WEEKDAYS)]
    differing = [text for text in texts if is_valid_cron_expression(text) is not matches_in_cronsim(text)]
    assert differing == []


def matches_in_cronsim(text: str) -> bool:
    try:
        next(CronSim(text, datetime(2026, 1, 1)))
    except (CronSimError, StopIteration, RuntimeError):
        return False
    return True


def test_a_last_sunday_on_the_22nd_is_in_a_february_of_28_days() -> None:
    assert days_of_february(2026, "0 0 */31,22 2 0L") == [22]
    assert days_of_february(2032, "0 0 */31,22 2 0L") == []


def days_of_february(year: int, text: str) -> list[int]:
    return [day - 30 for day in bits(parse_cron(text).days.days_of_year(year))]


@pytest.mark.parametrize(
    "value",
    [None, 5, b"* * * * *", ["*"], "* " * 5_000, "0," * 5_000 + "60 * * * *", "9" * 10_000 + " * * * *"],
)
def test_what_is_no_text_or_far_too_long_is_refused_with_a_short_message(value: object) -> None:
    with pytest.raises(CronParseError) as caught:
        parse_cron(value)  # type: ignore[arg-type]
    assert caught.value.expression is value
    assert len(str(caught.value)) < 220


def test_only_plain_blanks_separate_fields() -> None:
    parse_cron("\t0  9 *\t* *\r\n")
    with pytest.raises(CronParseError, match="expected 5 fields, got 4"):
        parse_cron("0\u00a09 * * *")
    with pytest.raises(CronParseError, match="expected 5 fields, got 4"):
        parse_cron("0\x1f9 * * *")


def test_control_characters_never_reach_the_message() -> None:
    with pytest.raises(CronParseError) as caught:
        parse_cron("0 9 \x1b[31m * *")
    assert "\x1b" not in str(caught.value)
    assert "\\x1b" in str(caught.value)


@given(st.text(alphabet="0123456789*/,-#LW@ \tmonjasuf١\x00", max_size=40))
def test_any_text_is_an_expression_or_a_typed_error(text: str) -> None:
    try:
        expression = parse_cron(text)
    except CronParseError as error:
        assert error.expression == text
    else:
        assert expression.minutes and expression.hours


@pytest.mark.parametrize(
    ("text", "weekdays"),
    [
        ("* * * * 7", [0]),
        ("* * * * 0,7", [0]),
        ("* * * * 5-7", [0, 5, 6]),
        ("* * * * sun,Mon", [0, 1]),
        ("* * * * MON-FRI", [1, 2, 3, 4, 5]),
        ("* * * * */2", [0, 2, 4, 6]),
        ("* * * * 1/2", [0, 1, 3, 5]),
    ],
)
def test_weekdays_may_be_names_and_seven_is_sunday(text: str, weekdays: list[int]) -> None:
    assert bits(parse_cron(text).days.weekdays) == weekdays


def test_a_lone_start_with_a_step_runs_to_the_end_of_the_field() -> None:
    assert bits(parse_cron("5/20 * * * *").minutes) == [5, 25, 45]
    assert bits(parse_cron("5-30/20 * * * *").minutes) == [5, 25]
    assert bits(parse_cron("5-5/20 * * * *").minutes) == [5]


@pytest.mark.parametrize(("shorthand", "spelled"), SHORTHANDS.items())
def test_shorthands_mean_what_they_spell(shorthand: str, spelled: str) -> None:
    short, long = parse_cron(f" {shorthand.upper()} "), parse_cron(spelled)
    assert (short.minutes, short.hours, short.days) == (long.minutes, long.hours, long.days)


@pytest.mark.parametrize(
    ("text", "is_wild"),
    [("0-59/30 2 * * *", False), ("0 0-23/2 * * *", False), ("*/30 2 * * *", True), ("0 * * * *", True)],
)
def test_an_entry_is_wild_when_minute_or_hour_begins_with_a_star(text: str, is_wild: bool) -> None:
    assert parse_cron(text).is_wild is is_wild


@pytest.mark.parametrize(
    ("text", "must"),
    [("0 0 1 * 1", False), ("0 0 */2 * 1", True), ("0 0 1 * */2", True), ("0 0 * * 1", True)],
)
def test_both_days_must_match_when_either_field_begins_with_a_star(text: str, must: bool) -> None:
    assert parse_cron(text).days.both_must_match is must
    assert CronSim(text, datetime(2026, 1, 1)).day_and is must


def test_the_number_of_a_weekday_may_have_a_leading_zero() -> None:
    assert parse_cron("0 0 * * 1#05").days == parse_cron("0 0 * * 1#5").days


def test_equal_day_fields_share_one_rule() -> None:
    assert parse_cron("0 9 3,27 2 1-5").days is parse_cron("30 17 3,27 2 1-5").days  # which no other test has


def test_an_expression_is_shown_as_it_was_written() -> None:
    assert str(parse_cron("0 9 * * 1-5")) == "0 9 * * 1-5"


def test_the_days_of_many_years_are_computed_again_when_they_were_forgotten() -> None:
    days = parse_cron("0 0 1 1 *").days
    first = days.year_of(0)
    for year in range(1970, 2_300):
        assert days.year_of((year - 1970) * 365 + 200).mask == 1
    assert days.year_of(0) == first
