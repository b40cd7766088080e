"""Which schedules of the time line are listed: among very many the same ones as if all were sorted."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from everwhen.operations import timeline_ranking
from everwhen.operations.timeline_bars import MOST_BARS
from everwhen.operations.timeline_ranking import LEAST_KEPT, ORDINARY, RankedSchedule, Ranking


def ranked(
    numbers: list[int], *, rows: int = 0, rare: int | None = None, attention: dict[str, int] | None = None
) -> tuple[Ranking, list[RankedSchedule]]:
    """A ranking that got the schedules in portions, and all of them in order."""
    needs = attention or {}
    ranking, names = Ranking(rows, rare, needs), [(f"u{at}", f"s{at:05}") for at in range(len(numbers))]
    for start in range(0, len(numbers), 700):
        portion = names[start : start + 700]
        ranking.add(portion.copy, numbers[start : start + 700])
    every = [
        RankedSchedule(needs.get(uid, ORDINARY), bars, schedule_id, uid)
        for (uid, schedule_id), bars in zip(names, numbers, strict=True)
        if bars
    ]
    return ranking, sorted(every)


@given(
    draw=st.randoms(use_true_random=False),
    count=st.integers(0, 9 * LEAST_KEPT),
    most=st.sampled_from((1, 3, 60, 4_000)),
    rows=st.sampled_from((0, 1, 60, 200)),
    rare=st.sampled_from((None, 0, 2, 50)),
)
def test_the_rarest_are_chosen_among_any_number(
    draw: random.Random, count: int, most: int, rows: int, rare: int | None
) -> None:
    numbers = [draw.randint(0, most) for _ in range(count)]
    attention = {f"u{draw.randint(0, count)}": draw.randint(0, 1) for _ in range(3)}
    ranking, every = ranked(numbers, rows=rows, rare=rare, attention=attention)
    assert ranking.schedule_count == len(every)
    listable = sum(one.bars for one in every if rare is None or one.bars <= rare)
    assert ranking.exceeds == (listable > MOST_BARS)
    assert ranking.choose_rows() == every[:rows]
    candidates = every[:rows] if rows and rare is None else every
    expected, bars_left = set[str](), MOST_BARS
    for one in sorted(candidates, key=lambda one: (one.bars, one.schedule_id)):
        bars_left -= one.bars
        if bars_left < 0 or (rare is not None and one.bars > rare):
            break
        if ranking.exceeds and len(expected) >= timeline_ranking.MOST_NAMED:
            break
        expected.add(one.uid)
    assert ranking.choose_listed() == expected


def test_of_a_hundred_thousand_few_are_kept() -> None:
    ranking, every = ranked([7] * 100_000, rows=60)
    assert ranking.choose_rows() == every[:60] and len(ranking.uids) == 60
    ranking.add_bars(dict.fromkeys((one.uid for one in every[:59]), 5_000))
    assert ranking.choose_listed() == {every[59].uid, every[0].uid}
