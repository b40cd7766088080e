"""The one reader of JSON bodies: what it takes is the same on every interpreter, and is taken in linear time.

Refused with 400: text that is not UTF-8, nesting beyond a bound, a key that an object has twice, numbers that other
programs cannot hold, and half of a surrogate pair.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

from everwhen.api.problems import RefusedError
from everwhen.errors import shown

MOST_SCHEDULE = 256 << 10  # bytes of the body of one
MOST_LEVELS = 100
LONGEST_NUMBER = 300  # digits; one of 309 no longer fits the numbers of most programs
# Possessive, and content with a string that never ends: every byte is looked at once, whatever comes.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_SHORTER = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(raw: bytes) -> Any:
    """The data that a body says; RefusedError (400) says why there is none."""
    _refuse_deep(raw)
    try:
        words = _decode(raw.decode("utf-8-sig"))
        if b"\\ud" in raw or b"\\uD" in raw:
            json.dumps(words, ensure_ascii=False).encode()  # half a character, which no database takes
    except UnicodeError:
        raise RefusedError(400, "The body is not in UTF-8, or has half of a surrogate pair in it.") from None
    except ValueError as error:
        raise RefusedError(400, f"The body is not valid JSON: {str(error)[:200]}") from None
    return words


def _refuse_deep(raw: bytes) -> None:
    """Interpreters differ in how deeply they can read; so nothing is handed to them that one of them cannot."""
    if raw.count(b"[") + raw.count(b"{") <= MOST_LEVELS:
        return
    left = _STRING.sub(b"", raw).translate(_SHORTER, _OTHERS)
    for _ in range(MOST_LEVELS):
        shorter = left.replace(b"[]", b"")  # without the innermost level
        if len(shorter) == len(left):
            break
        left = shorter
    if left:
        raise RefusedError(
            400, f"The body is nested more than {MOST_LEVELS} levels deep, or a bracket has no partner."
        )


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
