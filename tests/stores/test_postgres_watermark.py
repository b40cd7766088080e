"""Where the search for due rows begins: never behind one that is there."""

from __future__ import annotations

from everwhen.model.instants import SECOND
from everwhen.stores.postgres_watermark import DISTANCE, EARLIEST, Watermark

NOW = 1_774_735_200 * SECOND


def a_mark_at(instant: int) -> Watermark:
    mark = Watermark()
    with mark.looking() as look:  # the first look is without bound
        assert look.at == EARLIEST
    mark.raise_to(instant)
    return mark


def test_it_follows_the_evaluations_at_a_distance() -> None:
    mark = a_mark_at(NOW)
    with mark.looking() as look:
        assert look.at == NOW - DISTANCE


def test_it_is_not_lowered_by_an_evaluation_that_is_behind() -> None:
    mark = a_mark_at(NOW)
    mark.raise_to(NOW - 3_600 * SECOND)
    assert mark.at == NOW - DISTANCE


def test_what_is_written_below_it_lowers_it() -> None:
    mark = a_mark_at(NOW)
    mark.lower([None, NOW, NOW - 60 * SECOND])
    assert mark.at == NOW - 60 * SECOND


def test_what_a_whole_look_finds_below_it_lowers_it() -> None:
    mark = Watermark()
    mark.raise_to(NOW)
    with mark.looking() as look:
        look.found = NOW - 60 * SECOND
    assert mark.at == NOW - 60 * SECOND
