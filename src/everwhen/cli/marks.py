"""The mark and the colour of every outcome and state: the same in every table, line and sentence.

The mark says without colour what the colour says: ✓ succeeded, ✗ failed, ● active or running, ○ waiting, – skipped, and
! needs a person.
"""

from __future__ import annotations

from typing import NamedTuple


class OutcomeMark(NamedTuple):
    """A sign, and a colour that both rich and click know; no colour is the empty text."""

    sign: str
    colour: str


GOOD, BAD = OutcomeMark("✓", "green"), OutcomeMark("✗", "red")
RUNNING, WAITING = OutcomeMark("●", "cyan"), OutcomeMark("○", "blue")
PASSED, OVER = OutcomeMark("–", "yellow"), OutcomeMark("·", "")
NEEDS_A_PERSON = OutcomeMark("!", "red")

MARKS = {
    # jobs
    "succeeded": GOOD,
    "failed": BAD,
    "timed_out": BAD,
    "lost": BAD,
    "cancelled": PASSED,
    "running": RUNNING,
    "queued": WAITING,
    # schedules
    "active": OutcomeMark("●", "green"),
    "paused": PASSED,
    "done": OVER,
    "invalid": NEEDS_A_PERSON,
    "dead": NEEDS_A_PERSON,
    # slots
    "fired": GOOD,
    "skipped": PASSED,
    "missed": BAD,
    "caught_up": PASSED,
    "held": WAITING,
    "pending": WAITING,
    "span": OVER,
    "no_slot": OVER,
    "unknown": OVER,
    # breakers
    "closed": GOOD,
    "open": BAD,
    "half_open": WAITING,
}
_NONE = OutcomeMark("", "")
_BAD_NEWS = frozenset(
    "died opened denied rejected refused invalidated stalled failing overdue reached".split()
)


def mark_of(state: str) -> OutcomeMark:
    """Return the mark of an outcome or a state; one that is not known has none."""
    return MARKS.get(state, _NONE)


def marked(state: str, text: str | None = None) -> str:
    """Return a state, or a text about it, with its mark before it.

    >>> marked("timed_out"), marked("failed", "failed 3m ago")
    ('✗ timed_out', '✗ failed 3m ago')
    """
    return f"{mark_of(state).sign} {state if text is None else text}".lstrip()


def mark_of_event(kind: str) -> OutcomeMark:
    """Return the mark of an event by the last word of its type.

    >>> [mark_of_event(kind).sign for kind in ("schedule.missed", "breaker.opened", "schedule.created")]
    ['✗', '✗', '·']
    """
    word = kind.rpartition(".")[2]
    return BAD if word in _BAD_NEWS else MARKS.get(word, OVER)
