"""Payloads: the input of a schedule's target, an object that is stored as JSON with a size limit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from everwhen.errors import PayloadSizeError, TimetableError

LARGEST_PAYLOAD = 64 * 1024


def payload_text(value: Any) -> str:
    """Return a payload as it is stored; raise TimetableError when it is not an object, not valid JSON, or too large.

    >>> payload_text({"source": "scheduler"})
    '{"source": "scheduler"}'
    """
    if not isinstance(value, Mapping):
        raise TimetableError("payload must be an object", key="payload", value=value)
    try:
        text = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:  # a date, a set, NaN, an object within itself
        raise TimetableError(f"payload cannot be written as JSON: {error}", key="payload") from error
    if len(text) > LARGEST_PAYLOAD:
        raise PayloadSizeError(
            f"payload is {len(text)} bytes as JSON; at most {LARGEST_PAYLOAD} are taken, so hand over a reference",
            key="payload",
        )
    return text
