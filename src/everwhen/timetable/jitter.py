"""Deterministic jitter: an offset that is derived from the schedule's id and the slot, not from random numbers.

So preview, restart, every node and every version agree on due_at = slot_at + jitter. The offset is always smaller than
the gap to the following slot, so that jitter never reorders slots.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from everwhen.errors import IntervalParseError, TimetableError, shown
from everwhen.timetable.interval import parse_seconds
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Trigger

try:
    # `hashlib` loads OpenSSL, which commands that only read do not need.
    from _blake2 import blake2b as blake2b
except ImportError:  # pragma: no cover  # a Python that was built without this module
    from hashlib import blake2b as blake2b

_PERCENTAGE = re.compile(r"([0-9]{1,3}) ?%")


@lru_cache(maxsize=8_192)  # one decision needs the due_at of a slot several times
def jitter_offset_ms(key: str, slot_at: int, window_ms: int) -> int:
    """Return the offset of a slot in milliseconds, in [0, window).

    >>> jitter_offset_ms("withings.hourly", 1_700_000_000, 30_000)
    22005
    """
    if window_ms <= 0:
        return 0
    stamp = datetime.fromtimestamp(slot_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return draw(f"{key}|{stamp}", window_ms)


def draw(text: str, window: int) -> int:
    """Return a whole number in [0, window) that depends on the text alone."""
    return int.from_bytes(blake2b(text.encode()).digest()[:8], "big") % window


def parse_jitter_ms(text: str, trigger: Trigger, *, most_percent: int = 99) -> int:
    """Parse a jitter window, `30s` or `5%`, into milliseconds.

    Only intervals and cron may have jitter. A percentage needs a plain interval. Jitter must be smaller than the
    interval.
    """
    if not isinstance(trigger, Every | EveryMonth | Cron):
        raise _refused("jitter is for every and cron; a one-shot fires at its exact time", text)
    interval = trigger.seconds if isinstance(trigger, Every) else None
    milliseconds = _parse_ms(text, interval, most_percent)
    if interval is not None and milliseconds >= interval * 1_000:
        raise _refused(f'jitter "{shown(text)}" must be smaller than the interval', text)
    return milliseconds


def _parse_ms(text: str, interval: int | None, most_percent: int) -> int:
    percentage = _PERCENTAGE.fullmatch(text.strip()) if isinstance(text, str) else None
    if percentage is None and isinstance(text, str) and "%" in text:
        raise _refused(f'jitter "{shown(text)}": a percentage is a whole number, such as 5%', text)
    if percentage is None:
        try:
            return parse_seconds(text) * 1_000
        except IntervalParseError as fault:
            raise _refused(f'jitter "{shown(text)}": {fault}', text) from fault
    if interval is None:
        need = "a percentage needs a plain interval; give a duration such as 30s"
        raise _refused(f'jitter "{shown(text)}": {need}', text)
    percent = int(percentage[1])
    if percent > most_percent:
        raise _refused(f'jitter "{shown(text)}" must be 0% to {most_percent}% here', text)
    return interval * 10 * percent


def _refused(message: str, text: object) -> TimetableError:
    return TimetableError(message, key="jitter", value=text)
