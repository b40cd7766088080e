"""What looks like a secret is shown as a mask; and a mask that comes back is not taken for a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from everwhen.errors import SubmissionError

MASK = "***"
_SECRET_WORDS = ("authorization", "cookie", "token", "secret", "password", "api-key", "apikey", "signature")
_SECRET_IN_QUERY = re.compile(
    rf"([?&][^=&#]*(?:{'|'.join(word.replace('-', '[-_]') for word in _SECRET_WORDS)})[^=&#]*=)[^&#]+",
    re.IGNORECASE,
)


def masked(value: Any, key: str = "") -> Any:
    """Words without what looks like a secret and is no reference to the environment."""
    if isinstance(value, dict):
        return {name: masked(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [masked(item, key) for item in value]
    if not isinstance(value, str) or "${" in value:
        return value
    if any(word in key.lower().replace("_", "-") for word in _SECRET_WORDS):
        return MASK
    return _masked_url(value) if "://" in value else value


def _masked_url(value: str) -> str:
    """A URL without its password, and without what its query says under the name of a secret."""
    value = _SECRET_IN_QUERY.sub(rf"\1{MASK}", value)
    before, at, after = value.partition("@")
    who = before.rpartition("//")[2]
    if at and "://" in before and ":" in who:
        return f"{before.removesuffix(who)}{who.partition(':')[0]}:{MASK}@{after}"
    return value


def refuse_masks(words: Any) -> None:
    """Refuse what an answer showed in the place of a secret: taken as it is, it would stand in the secret's place."""
    run = words.get("run") if isinstance(words, dict) else None
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
        for number, item in enumerate(value):
            yield from _masks_in(item, key, f"{path}[{number}]")
    elif isinstance(value, str) and MASK in value and masked(value.replace(MASK, "x"), key) == value:
        yield path
