"""What all answers have in common: instants, lists and cursors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from everwhen.model.instants import moment_of

Object = dict[str, Any]
LONGEST_NUMBER = 18  # digits
PORTION = 20  # items of a list that are written at once
_spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encoded(fields: Any) -> bytes:
    """An answer as it is sent. Text that is no Unicode cannot come in, so it does not go out either."""
    return b"".join(_pieces(fields)) if isinstance(fields, dict) and "items" in fields else _encoded(fields)


def _pieces(fields: Mapping[str, Any]) -> Iterator[bytes]:
    """A list in portions: all at once, nobody else would have the interpreter before the last item is written."""
    items, others = fields["items"], _encoded({name: fields[name] for name in fields if name != "items"})
    yield b'{"items":['
    for first in range(0, len(items), PORTION):
        yield (b"," if first else b"") + _encoded(items[first : first + PORTION])[1:-1]
    yield b"]}" if others == b"{}" else b"]," + others[1:]


def _encoded(fields: Any) -> bytes:
    return _spell(fields).encode(errors="replace")


def when_text(instant: int | None) -> str | None:
    """An instant as RFC 3339 in UTC."""
    return None if instant is None else moment_of(instant).isoformat().replace("+00:00", "Z")


def list_to_json(items: list[Object]) -> Object:
    return {"items": items, "total": len(items)}


def cursor_of(*numbers: int) -> str:
    """A cursor: opaque to callers, so that what it holds may change."""
    return base64.urlsafe_b64encode(f"r{'.'.join(map(str, numbers))}".encode()).decode().rstrip("=")


def read_cursor(cursor: str, count: int) -> list[int] | None:
    """The numbers of a cursor that has so many; None: it is no such cursor."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        return None
    numbers = numbers_of(text[1:])
    return numbers if text[:1] == "r" and numbers is not None and len(numbers) == count else None


def numbers_of(text: str) -> list[int] | None:
    """
    >>> numbers_of("12.345"), numbers_of("12."), numbers_of("-1")
    ([12, 345], None, None)
    """
    parts = text.split(".")
    if all(part.isascii() and part.isdecimal() and len(part) <= LONGEST_NUMBER for part in parts):
        return [int(part) for part in parts]
    return None
