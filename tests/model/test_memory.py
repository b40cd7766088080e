"""Answers remembered by which value they are about."""

from __future__ import annotations

from everwhen.model.fast_values import by_identity


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
