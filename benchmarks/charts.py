"""The results as pictures: for each comparison a bar per contestant, from zero, with the spread over the rounds.

`make bench` draws its own results. `python -m benchmarks.charts` draws those in `benchmarks/results` again.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from benchmarks.report import duration
from tools.svg import document, path, point, rectangle, text

RESULTS = Path(__file__).parent / "results"
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH, LEFT, RIGHT = 880, 236, 172
HEAD, LINE, GAP, FOOT = 46, 24, 18, 16
BAR = 14
# Until then these were measured through inner calls, which nobody uses, with a target that does nothing: such results
# stay in their files, and are not drawn.
REDEFINED = dict.fromkeys(("B5", "B6", "B8", "B9"), "2026-11-19")


def picture_of(results: Path) -> Path:
    """Return where the picture of a file of results is."""
    return PICTURES / f"benchmark-{results.stem}.svg"


def chart(results: Mapping[str, Any]) -> str:
    """Return the picture of results, as they are in a JSON file. What has nothing to be compared with is left out, and
    what is measured in another way by now."""
    compared = [
        one
        for one in results["benchmarks"]
        if one["goals"] and len(one["contestants"]) > 1
        if results["started_at"] >= REDEFINED.get(one["number"], "")
    ]
    body: list[str] = []
    top = float(HEAD)
    for one in compared:
        if body:
            body.append(path(f"M20 {top - GAP / 2:.0f}H{WIDTH - 20}", stroke="line", width=1))
        drawn, top = _comparison(one, results, top)
        body += drawn
    words = [f"{one['number']}, {_what(one, results)}: {_in_words(one)}." for one in compared]
    return document(
        width=WIDTH,
        height=round(top + FOOT - GAP),
        title="Benchmarks: time per operation, shorter is better",
        description=" ".join(words),
        style="",
        body=[*_head(results), *body],
    )


def _head(results: Mapping[str, Any]) -> Iterator[str]:
    loads = ", smaller loads" if results["quick"] else ""
    rounds = f"medians of {results['rounds']} interleaved rounds{loads}"
    marks = "lines: fastest to slowest; ×: ratio within a round"
    yield text(20, 26, "shorter is better", "small strong")
    yield text(WIDTH - 20, 26, f"{results['started_at'][:10]}, {rounds}; {marks}", "small quiet end")


def _comparison(one: Mapping[str, Any], results: Mapping[str, Any], top: float) -> tuple[list[str], float]:
    what, _, conditions = _what(one, results).partition("; ")
    headings = [(line, "strong") for line in wrap(what, 110)] + [
        (line, "small") for line in wrap(conditions, 120)
    ]
    drawn = [text(20, top + 10, one["number"], "mono strong", "accent-text")]
    for line, classes in headings:
        drawn.append(text(56, top + 10, line, classes))
        top += 16
    top += 8
    longest = max(contestant["seconds"]["high"] for contestant in one["contestants"].values())
    for name, contestant in one["contestants"].items():
        drawn += _bar(name, contestant, top, longest, _ratio(one, name))
        top += LINE
    return drawn, top + GAP


def _ratio(one: Mapping[str, Any], name: str) -> str:
    """Return how many times as long as everwhen a contestant takes, by the ratio that the table has."""
    for goal in one["goals"]:
        is_about = goal["text"].endswith((f" × {name}", f"(beside {name})")) and not goal["text"].startswith(
            "each"
        )
        if goal["subject"] == "everwhen" and is_about and goal["ratio"]:
            median = goal["ratio"]["median"]
            times = 1 / median if goal["text"].startswith("≤") else median
            return (
                f"{times:.0f} ×" if times >= 9.5 else f"{times:.1f} ×" if times >= 0.95 else f"{times:.2f} ×"
            )
    return ""


def _bar(name: str, contestant: Mapping[str, Any], top: float, longest: float, ratio: str) -> Iterator[str]:
    seconds = contestant["seconds"]
    scale = (WIDTH - LEFT - RIGHT) / longest
    width = max(seconds["median"] * scale, 1.5)
    low, high = (LEFT + seconds[end] * scale for end in ("low", "high"))
    is_own = name.startswith("everwhen")
    faded = ' opacity=".6"' if is_own and name != "everwhen" else ""
    middle = top + BAR / 2
    yield text(LEFT - 10, top + 11, contestant["label"], "small end" + (" strong" if is_own else ""))
    yield rectangle(LEFT, top, width, BAR, fill="accent" if is_own else "skip", radius=3, more=faded)
    yield path(
        f"M{point(low, middle)}H{high:.1f}M{point(low, middle - 3)}v6M{point(high, middle - 3)}v6",
        stroke="text",
        width=1,
        cap="butt",
    )
    shown = f"{duration(seconds['median'])}{', ' if ratio else ''}{ratio}"
    yield text(max(LEFT + width, high) + 10, top + 11, shown, "small")


def _what(one: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    """Return what was measured. A quick run names its smaller loads, another one does not mention them."""
    what = str(one["what"]).replace("`", "")
    return what if results["quick"] else re.sub(r" \((?:quick: [^)]*|[\d,]+)\)", "", what)


def _in_words(one: Mapping[str, Any]) -> str:
    contestants = one["contestants"].values()
    return ", ".join(f"{each['label']} {duration(each['seconds']['median'])}" for each in contestants)


def draw(results: Path, picture: Path) -> None:
    """Draw a file of results."""
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(chart(json.loads(results.read_text(encoding="utf-8"))), encoding="utf-8")


def main() -> None:
    for results in sorted(RESULTS.glob("*.json")):
        draw(results, picture_of(results))


if __name__ == "__main__":
    main()
