"""Draw what can become of a slot, with the states and reasons of `everwhen.model`: docs/pictures/slot-life.svg.

Run `python -m tools.draw_slot_life` after a change of a state or a reason; `tests/docs/test_pictures.py` compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from everwhen.model.job import FAILURES, FINAL, JobStatus
from everwhen.model.reasons import HoldReason, MissReason, SkipReason
from tools.svg import document, path, point, rectangle, text

PICTURE = Path("docs/pictures/slot-life.svg")
ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 880, 500
CARD = 284

COLOURS = {
    "queued": "run",
    "running": "run",
    "succeeded": "ok",
    "cancelled": "skip",
    **dict.fromkeys(FAILURES, "fail"),
}


def picture() -> str:
    """Return the content of the picture."""
    return document(
        width=WIDTH,
        height=HEIGHT,
        title="What can become of a slot",
        description=(
            "When a slot is due, one transaction decides: it is fired, held, skipped or missed. "
            "A held slot is decided again. "
            "A fired slot has a job, which is queued, then running, and ends as one of "
            f"{', '.join(sorted(FINAL))}. A failed job may be followed by a retry. "
            "A job whose node died is queued again."
        ),
        style="",
        body=_body(),
    )


def _body() -> Iterator[str]:
    yield from _box(24, 40, 150, 64, "accent", "a slot is due", ["at slot_at + jitter"])
    yield from _arrow([(174, 72), (248, 72)])
    yield from _box(248, 40, 196, 64, "accent", "the scheduler decides", ["and commits, all or nothing"])

    yield from _job()
    yield from _arrow([(444, 72), (560, 72)])
    yield text(490, 64, "fired", "middle strong")

    top = 156.0
    yield from _arrow([(282, 104), (282, top)])
    yield from _card(24, top, "hold", "held", "it waits, and is decided again", get_args(HoldReason))
    yield path(f"M24 {top + 30}H12V128H228V88", stroke="hold", dash="3 3")
    yield from _head(248, 88, "hold", along="right", start=228)
    top += _height(get_args(HoldReason)) + 24
    yield from _arrow([(346, 104), (346, top + 30), (308, top + 30)])
    yield from _card(24, top, "skip", "skipped", "it is over without a job", get_args(SkipReason))
    top += _height(get_args(SkipReason)) + 24
    yield from _arrow([(410, 104), (410, top + 30), (308, top + 30)])
    yield from _card(24, top, "miss", "missed", "its time passed, and nobody fired it", get_args(MissReason))


def _job() -> Iterator[str]:
    left = 560
    yield rectangle(left - 24, 20, 324, 456, fill="inset", radius=10)
    yield text(left + 272, 40, "job", "small quiet end")
    yield from _box(left, 48, 120, 48, COLOURS["queued"], "queued", [])
    yield from _arrow([(left + 60, 96), (left + 60, 160)])
    yield text(left + 72, 132, "a worker claims it", "small")
    yield from _box(left, 160, 120, 48, COLOURS["running"], "running", [])
    # Its node died: the same job again.
    yield path(f"M{left + 120} 184H{left + 256}V72H{left + 124}", stroke="run", dash="3 3")
    yield from _head(left + 120, 72, "run", along="left", start=left + 124)
    yield text(left + 248, 148, "its node died:", "small end")
    yield text(left + 248, 163, "the same job again", "small end")
    ends = [status for status in get_args(JobStatus) if status in FINAL]
    yield path(f"M{left + 20} 208V{257 + 44 * (len(ends) - 1)}", stroke="text-3", width=1.5)
    for number, status in enumerate(ends):
        y = 240 + 44 * number
        yield from _arrow([(left + 20, y + 17), (left + 44, y + 17)])
        yield from _box(left + 44, y, 116, 34, COLOURS[status], status, [])
    failed = [number for number, status in enumerate(ends) if status in FAILURES]
    first, last = 257 + 44 * failed[0], 257 + 44 * failed[-1]
    for number in failed:
        yield path(f"M{left + 160} {257 + 44 * number}H{left + 180}", stroke="fail", dash="3 3")
    yield path(f"M{left + 180} {first}V{last}", stroke="fail", dash="3 3")
    yield path(f"M{left + 180} {(first + last) / 2:.0f}H{left + 192}", stroke="fail", dash="3 3")
    for number, line in enumerate(
        ("with max_retries:", "a further job", "of the same slot,", "after a delay")
    ):
        yield text(left + 196, (first + last) / 2 - 20 + 15 * number, line, "small")


def _box(
    x: float, y: float, width: float, height: float, colour: str, title: str, lines: Sequence[str]
) -> Iterator[str]:
    soft = "surface" if colour == "accent" else f"{colour}-soft"
    yield rectangle(
        x, y, width, height, fill=soft, radius=8, more=f' stroke="var(--{colour})" stroke-width="1.5"'
    )
    middle = y + height / 2 + 4 - 8 * len(lines)
    yield text(x + width / 2, middle, title, "strong middle")
    for number, line in enumerate(lines, start=1):
        yield text(x + width / 2, middle + 17 * number, line, "small middle")


def _height(words: Sequence[str]) -> float:
    return 44.0 + 15 * len(list(_wrapped(words)))


def _card(x: float, y: float, colour: str, title: str, about: str, words: Sequence[str]) -> Iterator[str]:
    yield rectangle(
        x,
        y,
        CARD,
        _height(words),
        fill=f"{colour}-soft",
        radius=8,
        more=f' stroke="var(--{colour})" stroke-width="1.5"',
    )
    yield text(x + 14, y + 22, title, "strong")
    yield text(x + 22 + 7.2 * len(title), y + 22, about, "small")
    for number, line in enumerate(_wrapped(words)):
        yield text(x + 14, y + 42 + 15 * number, line, "small mono", f"{colour}-text")


def _wrapped(words: Sequence[str]) -> Iterator[str]:
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > 38:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    if line:
        yield line


def _arrow(points: Sequence[tuple[float, float]], colour: str = "text-3") -> Iterator[str]:
    drawn = "M" + "L".join(point(x, y) for x, y in points)
    yield path(drawn, stroke=colour)
    (before_x, _), (x, y) = points[-2:]
    along = "right" if x > before_x else "left" if x < before_x else "down"
    yield from _head(x, y, colour, along=along, start=x)


def _head(x: float, y: float, colour: str, *, along: str, start: float) -> Iterator[str]:
    """Draw the head of an arrow that ends at a point, and the line that leads there."""
    if start != x:
        yield path(f"M{point(start, y)}H{x}", stroke=colour)
    wings = {"right": ((-6, -4), (-6, 4)), "left": ((6, -4), (6, 4)), "down": ((-4, -6), (4, -6))}[along]
    (ax, ay), (bx, by) = wings
    yield path(f"M{point(x + ax, y + ay)}L{point(x, y)}L{point(x + bx, y + by)}", stroke=colour)


def main() -> None:
    (ROOT / PICTURE).write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
