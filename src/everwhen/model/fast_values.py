"""Values: a cache by identity, and copies with some fields changed, both without a walk over the fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

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


# Values with some of their fields changed: `dataclasses.replace` without its walk over the fields.


T = TypeVar("T")


def replaced(value: T, **changes: Any) -> T:
    """Return the value of a dataclass, all of whose fields are arguments, with these changes."""
    kind: Any = type(value)
    names, read = _reader(kind)
    found: T = kind(**{**dict(zip(names, read(value), strict=True)), **changes})
    return found


@cache
def _reader(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(field.name for field in fields(kind))
    return names, attrgetter(*names)
