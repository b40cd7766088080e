"""The one reader of JSON bodies: what it takes is the same on every interpreter, and is taken in linear time.

Refused with 400: text that is not UTF-8, nesting beyond a bound, a key that an object has twice, numbers that other
programs cannot hold, and half of a surrogate pair. Refused with 413: more values than a bound, for nobody else has the
interpreter while the values of one body are made and thrown away.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from everwhen.api.problems import RefusedError
from everwhen.errors import shown

MOST_SCHEDULE = 256 << 10  # bytes of the body of one
MOST_LEVELS = 100
MOST_VALUES = 50_000  # of objects, lists and all that stands in them
LONGEST_NUMBER = 300  # digits; one of 309 no longer fits the numbers of most programs
_SHORTER = bytes.maketrans(b"{}", b"[]")
_TOO_DEEP = b"[" * (MOST_LEVELS + 1)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(raw: bytes, most_values: int = MOST_VALUES) -> Any:
    """Return the data of a body; raise RefusedError (400, 413) when it has none."""
    _refuse_tangled(raw, most_values)
    try:
        fields = _decode(raw.decode("utf-8-sig"))
        if b"\\ud" in raw or b"\\uD" in raw:
            json.dumps(fields, ensure_ascii=False).encode()  # half a character, which no database takes
    except UnicodeError:
        raise RefusedError(400, "The body is not in UTF-8, or has half of a surrogate pair in it.") from None
    except ValueError as error:
        raise RefusedError(400, f"The body is not valid JSON: {str(error)[:200]}") from None
    return fields


def _refuse_tangled(raw: bytes, most_values: int) -> None:
    """Refuse what is nested too deeply or has too many values.

    Interpreters differ in how deeply they can read; so nothing is handed to them that one of them cannot.
    """
    opened = raw.count(b"[") + raw.count(b"{")
    if opened <= MOST_LEVELS and opened + raw.count(b",") < most_values:
        return
    without_text = _without_strings(raw)
    left = without_text.translate(_SHORTER, _OTHERS)
    is_deep = _TOO_DEEP in left
    if not is_deep and left.count(b"[") + without_text.count(b",") >= most_values:
        raise RefusedError(413, f"The body has more than {most_values:,} values.")
    for _ in range(0 if is_deep else MOST_LEVELS):
        shorter = left.replace(b"[]", b"")  # without the innermost level
        if len(shorter) == len(left):
            break
        left = shorter
    if left:
        raise RefusedError(
            400, f"The body is nested more than {MOST_LEVELS} levels deep, or a bracket has no partner."
        )


def _without_strings(raw: bytes) -> bytes:
    """Return the body without its strings; the text behind an unpaired quotation mark counts as one."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(raw.split(b'"')[::2])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f'the key "{shown(twice)}" is there twice')
    return found


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number has at most {LONGEST_NUMBER} digits")
    return int(digits)


def _decimal(digits: str) -> float:
    found = float(digits)
    if len(digits) > LONGEST_NUMBER or not isfinite(found):
        raise ValueError("a number is longer or larger than programs can hold")
    return found


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_decimal, parse_constant=_constant
).decode
