"""How far a named listener has received the event feed, as it is stored: a place in each sequence, and the open jobs.

Starts and ends of jobs have no sequence of their own. So a cursor also holds the jobs up to its place that have not
ended, each with the number of its starts that were reported. It is as long as there are outstanding jobs, however many
have ended since the oldest of them began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class EventCursor(NamedTuple):
    """The cursor of one name, held by at most one node.

    `open_jobs` is None while no listener takes starts and ends. `failing` is the entry that the listener has refused
    `failures` times. `fence` is higher after every write: a node whose cursor has another one has lost it.
    """

    name: str
    event_row: int
    job_row: int
    open_jobs: str | None = None
    failing: str | None = None
    failures: int = 0
    next_attempt_at: int | None = None
    last_error: str | None = None
    node: str | None = None
    held_until: int | None = None
    fence: int = 0


def open_jobs_to_text(starts: Mapping[int, int]) -> str:
    """Return jobs by row with their reported starts as text; rows in a row with equal starts are one range.

    >>> open_jobs_to_text({7: 0, 8: 0, 9: 0, 12: 1, 13: 0})
    '7-9 12*1 13'
    """
    return " ".join(_ranges(starts))


def open_jobs_in(text: str) -> dict[int, int]:
    """
    >>> open_jobs_in("7-9 12*1 13")
    {7: 0, 8: 0, 9: 0, 12: 1, 13: 0}
    """
    found: dict[int, int] = {}
    for part in text.split():
        rows, _, starts = part.partition("*")
        first, _, last = rows.partition("-")
        found.update(dict.fromkeys(range(int(first), int(last or first) + 1), int(starts or 0)))
    return found


def _ranges(starts: Mapping[int, int]) -> Iterator[str]:
    rows = sorted(starts)
    begin = 0
    for at, row in enumerate(rows):
        is_last = at + 1 == len(rows)
        if is_last or rows[at + 1] != row + 1 or starts[rows[at + 1]] != starts[row]:
            first = rows[begin]
            count = f"*{starts[row]}" if starts[row] else ""
            yield f"{first}{count}" if first == row else f"{first}-{row}{count}"
            begin = at + 1
