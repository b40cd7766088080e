"""The smallest gap between the matches of a cron expression, against all matches of 400 days."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.timetable.civil_time import DAY, zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.cron_series import CronSeries
from everwhen.timetable.gaps import smallest_cron_gap
from tests.timetable.expressions import random_expression

START = 1_790_000_000  # in September 2026


@settings(max_examples=150)
@given(
    seed=st.integers(0, 1 << 32),
    start=st.integers(START, START + 800 * DAY),
    length=st.one_of(st.just(400 * DAY), st.integers(0, 400 * DAY), st.integers(0, 3 * DAY)),
)
def test_the_smallest_gap_is_that_of_all_matches(seed: int, start: int, length: int) -> None:
    expression = parse_cron(random_expression(random.Random(seed)))
    matches = CronSeries(expression, zone("UTC")).between(start, start + length, 1_000_000)
    expected = min((after - before for before, after in pairwise(matches)), default=None)
    assert smallest_cron_gap(expression, start, start + length) == expected
