"""Answers remembered by which value they are about."""

from __future__ import annotations

from everwhen.model.fast_values import LARGE, by_identity, by_text


def test_a_value_is_looked_at_once() -> None:
    asked: list[list[int]] = []

    @by_identity(most=10)
    def total(numbers: list[int]) -> int:
        asked.append(numbers)
        return sum(numbers)

    first, equal = [1, 2], [1, 2]
    assert [total(first), total(first), total(equal)] == [3, 3, 3]
    assert len(asked) == 2  # an equal value is another one


def test_no_answer_is_given_about_a_value_that_took_the_place_of_another() -> None:
    @by_identity(most=3)
    def same(value: list[int]) -> list[int]:
        return value

    for number in range(1_000):  # each dies at once, and its place in memory is soon taken again
        assert same([number]) == [number]


def test_what_is_large_is_not_kept() -> None:
    """Only the number of entries was bounded, and callers choose how large theirs are."""
    asked: list[int] = []

    @by_identity(most=10, size=len)
    def end_of(text: str) -> str:
        asked.append(len(text))
        return text[-1]

    @by_text(most=10)
    def beginning_of(text: str) -> str:
        asked.append(-len(text))
        return text[0]

    small, large = "x" * LARGE, "x" * (LARGE + 1)
    for text in (small, small, large, large):
        assert (end_of(text), beginning_of(text)) == ("x", "x")
    sizes = [LARGE, LARGE + 1, LARGE + 1]
    assert sorted(asked) == sorted([*sizes, *(-size for size in sizes)])
