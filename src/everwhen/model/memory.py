"""A cache by the identity of a value: definitions are shared, and comparing them is expensive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
Answer = TypeVar("Answer")


def by_identity(*, most: int) -> Callable[[Callable[[Value], Answer]], Callable[[Value], Answer]]:
    """Cache the results for at most `most` immutable values.

    The cache keeps a reference to each value, so that no other object can get its id() while it is cached. Threads may
    share the cache: two that miss at the same time compute the same result twice.
    """

    def remembering(work_out: Callable[[Value], Answer]) -> Callable[[Value], Answer]:
        memory: dict[int, tuple[Value, Answer]] = {}

        def answer(value: Value) -> Answer:
            known = memory.get(id(value))
            if known is not None:
                return known[1]
            if len(memory) >= most:
                memory.clear()
            found = work_out(value)
            memory[id(value)] = (value, found)
            return found

        return answer

    return remembering
