"""Values with some of their fields changed: `dataclasses.replace` without its walk over the fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def replaced(value: T, **changes: Any) -> T:
    """The value of a dataclass, all of whose fields are arguments, with these changes."""
    kind: Any = type(value)
    names, read = _reader(kind)
    found: T = kind(**{**dict(zip(names, read(value), strict=True)), **changes})
    return found


@cache
def _reader(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(field.name for field in fields(kind))
    return names, attrgetter(*names)
