"""What was worked out about a value, remembered by which value it is: definitions are shared, and dear to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
Answer = TypeVar("Answer")


def by_identity(*, most: int) -> Callable[[Callable[[Value], Answer]], Callable[[Value], Answer]]:
    """Remember the answers about at most so many values that never change.

    Each value is kept beside its answer, so that no other can take its identity while it is remembered. Threads
    may share it: two that miss at once work out the same twice.
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
