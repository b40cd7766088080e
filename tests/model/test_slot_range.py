"""Ranges of slots: what lies in a part of them is what a list of their slots has there."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from everwhen.model.slot_range import SlotRange


@given(
    first=st.integers(0, 100),
    step=st.integers(1, 20),
    slots=st.integers(1, 40),
    start=st.integers(-50, 1_000),
    length=st.integers(0, 1_000),
)
def test_the_slots_of_a_part_are_those_that_lie_in_it(
    first: int, step: int, slots: int, start: int, length: int
) -> None:
    listed = [first + number * step for number in range(slots)]
    inside = [slot for slot in listed if start <= slot < start + length]
    part = SlotRange(first, listed[-1], slots).within(start, start + length)
    assert part == (SlotRange(inside[0], inside[-1], len(inside)) if inside else None)


@given(cuts=st.lists(st.integers(0, 1_000), max_size=8), last=st.integers(1, 1_000), slots=st.integers(2, 60))
def test_parts_that_follow_each_other_have_all_slots(cuts: list[int], last: int, slots: int) -> None:
    """Also where the ends do not divide evenly, as after a change of the clock."""
    edges = [0, *sorted(cuts), 1_001]
    parts = [SlotRange(0, last, slots).within(start, end) for start, end in pairwise(edges)]
    assert sum(part.slots for part in parts if part is not None) == slots


def test_slots_without_a_length_lie_at_their_first() -> None:
    assert SlotRange(5, 5, 3).within(5, 6) == SlotRange(5, 5, 3)
    assert SlotRange(5, 5, 3).within(6, 9) is None
