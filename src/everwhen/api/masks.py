"""A mask that comes back is not taken for a secret: what `model.masks` hides, a submission must not overwrite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everwhen.errors import SubmissionError
from everwhen.model.masks import MASK, masked, named_items

_ANY_SECRET = "x" * 40


def refuse_masks(fields: Any) -> None:
    """Refuse what an answer showed in the place of a secret: taken as it is, it would stand in the secret's place."""
    run = fields.get("run") if isinstance(fields, dict) else None
    found = [
        (path, "is the mask of an answer; write the secret itself, or leave run out")
        for path in _masks_in(run)
    ]
    if found:
        raise SubmissionError(found)


def _masks_in(value: Any, key: str = "", path: str = "run") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _masks_in(item, str(name), f"{path}.{name}")
    elif isinstance(value, list):
        for number, (name, item) in enumerate(named_items(value, key)):
            yield from _masks_in(item, name, f"{path}[{number}]")
    elif isinstance(value, str) and MASK in value and masked(value.replace(MASK, _ANY_SECRET), key) == value:
        yield path
