"""Values: caches by identity and by text, and copies with some fields changed, all without a walk over the fields.

What is large is not cached: a bound on the number of entries is none on their bytes, and callers choose how large
theirs are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache, lru_cache, wraps
from operator import attrgetter
from typing import Any, TypeVar

Value = TypeVar("Value")
Answer = TypeVar("Answer")
LARGE = 8 << 10  # characters


def by_text(*, most: int) -> Callable[[Callable[[str], Answer]], Callable[[str], Answer]]:
    """Cache the results for at most `most` texts; those of large ones are worked out each time."""

    def remembering(work_out: Callable[[str], Answer]) -> Callable[[str], Answer]:
        cached = lru_cache(maxsize=most)(work_out)

        @wraps(work_out)
        def answer(text: str) -> Answer:
            return cached(text) if len(text) <= LARGE else work_out(text)

        return answer

    return remembering


def by_identity(
    *, most: int, size: Callable[[Any], int] = lambda _: 0
) -> Callable[[Callable[[Value], Answer]], Callable[[Value], Answer]]:
    """Cache the results for at most `most` immutable values that are not large.

    The cache keeps a reference to each value, so that no other object can get its id() while it is cached. Threads may
    share the cache: two that miss at the same time compute the same result twice.
    """

    def remembering(work_out: Callable[[Value], Answer]) -> Callable[[Value], Answer]:
        memory: dict[int, tuple[Value, Answer]] = {}

        def answer(value: Value) -> Answer:
            known = memory.get(id(value))
            if known is not None:
                return known[1]
            found = work_out(value)
            if size(value) > LARGE:
                return found
            if len(memory) >= most:
                memory.clear()
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
