"""Reading a file again: schedules whose lines are the same as last time are not parsed again.

Parsing is most of the cost of a reload, which changes a few of thousands of schedules. So the lines of every schedule
that was in the file before, dash to dash, are removed, a mark is put in their place, and only the rest is parsed. The
mark is an item of its own at the same depth: where the parser finds it among the schedules again, it is where an item
begins, and then the removed lines mean what they meant before. Where it does not (an open quote above them, another
indentation), or where anything at all is wrong, the file is read from its beginning as if for the first time. Anchors
reach across items, so files with anchors are always read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from everwhen.config.document import Block, Document, Items
from everwhen.config.problems import Report
from everwhen.config.yaml_text import MOST_VALUES, read_document

SECTION = "schedules"
_OTHER_BREAKS = ("\r", "\x85", "\u2028", "\u2029")
_MARK = "\ue000everwhen "  # of the private use area; a file that contains it is read as a whole


class _Kept(NamedTuple):
    """An item of the last reading: its value, its lines and its position."""

    value: Block
    lines: list[str]
    line: int
    column: int
    moved: int


@dataclass(slots=True)
class _Rest:
    """What is left to parse, the original line number of each of its lines, and the items that each mark replaces."""

    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    runs: dict[str, list[tuple[_Kept, int]]] = field(default_factory=dict)
    kept: int = 0


def read_again(text: str, file: str, report: Report, last: Document | None) -> Document:
    """Read like `read_document`, but share the schedules that did not change."""
    found = _with_shared(text, file, last) if last is not None else None
    return found if found is not None else read_document(text, file, report)


def _with_shared(text: str, file: str, last: Document) -> Document | None:
    if not _can_be_cut(text) or not _can_be_cut(last.text) or last.has_anchors:
        return None
    known = _known_items(last)
    rest = _cut(text.split("\n"), known)
    if 2 * rest.kept < len(known):
        return None  # it saves too little
    report = Report()
    parsed = read_document("\n".join(rest.lines), file, report)
    values = last.values + parsed.values
    if report.found or parsed.has_anchors or values > MOST_VALUES or not isinstance(parsed.root, Block):
        return None
    _place(parsed.root, rest.numbers)
    items = _joined(parsed.root.get(SECTION), rest)
    if items is None:
        return None
    parsed.root[SECTION] = items
    return Document(file, parsed.root, True, text, values, has_anchors=False)


def _can_be_cut(text: str) -> bool:
    """Return whether the parser counts the lines as this module does."""
    return _MARK not in text and not any(other in text for other in _OTHER_BREAKS)


def _known_items(last: Document) -> dict[str, list[_Kept]]:
    """Return the items that can be recognised, by their first line: all but the last, whose end is not marked."""
    items = last.root.get(SECTION) if isinstance(last.root, Block) else None
    found: dict[str, list[_Kept]] = {}
    if not isinstance(items, Items) or len(items) < 2:
        return found
    lines = last.text.split("\n")
    moved = items.moved or [0] * len(items)
    for number in range(len(items) - 1):
        (line, column), (end, end_column) = items.spots[number], items.spots[number + 1]
        value, dash = items[number], lines[line][:column]
        if (
            isinstance(value, Block)
            and dash == lines[end][:end_column]
            and dash.rstrip(" ").endswith("-")
            and not dash.strip(" -")
            and dash.count("-") == 1
        ):
            kept = _Kept(value, lines[line:end], line, column, moved[number])
            found.setdefault(lines[line], []).append(kept)
    return found


def _cut(lines: list[str], known: dict[str, list[_Kept]]) -> _Rest:
    rest = _Rest()
    run: list[tuple[_Kept, int]] | None = None
    position, names = 0, count()
    while position < len(lines):
        found = next(_matching(lines, position, known), None)
        if found is None:
            rest.lines.append(lines[position])
            rest.numbers.append(position)
            position, run = position + 1, None
            continue
        if run is None:
            mark = f"{_MARK}{next(names)}"
            run = rest.runs[mark] = []
            rest.lines.append(f'{lines[position][: found.column]}"{mark}"')
            rest.numbers.append(position)
        run.append((found, position))
        rest.kept += 1
        position += len(found.lines)
    return rest


def _matching(lines: list[str], position: int, known: dict[str, list[_Kept]]) -> Iterator[_Kept]:
    """Yield items that match here line by line, up to where the next item begins."""
    for kept in known.get(lines[position], ()):
        end = position + len(kept.lines)
        dash = lines[position][: kept.column]
        if end < len(lines) and lines[end].startswith(dash) and lines[position:end] == kept.lines:
            yield kept


def _place(value: Any, numbers: list[int]) -> None:
    """Convert the positions of parsed values to lines of the file."""
    if isinstance(value, Block):
        value.spots = {key: (numbers[line], column) for key, (line, column) in value.spots.items()}
        for item in value.values():
            _place(item, numbers)
    elif isinstance(value, Items):
        value.spots = [(numbers[line], column) for line, column in value.spots]
        for item in value:
            _place(item, numbers)


def _joined(parsed: Any, rest: _Rest) -> Items | None:
    """Return the schedules together with the removed ones; None when a mark was not found among the schedules."""
    if not isinstance(parsed, Items):
        return None
    items, moved, runs = Items(), [], dict(rest.runs)
    for value, spot in zip(parsed, parsed.spots, strict=True):
        for kept, line in runs.pop(value, []) if isinstance(value, str) else []:
            items.append(kept.value)
            items.spots.append((line, kept.column))
            moved.append(kept.moved + line - kept.line)
        if not (isinstance(value, str) and value in rest.runs):
            items.append(value)
            items.spots.append(spot)
            moved.append(0)
    items.moved = moved if any(moved) else None
    return None if runs else items
