"""The output of `everwhen config diff`: changes as lines and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from everwhen.cli.terminal import echo, styled
from everwhen.model.instants import SECOND
from everwhen.operations.apply import KeyChange
from everwhen.operations.diff import ScheduleChange
from everwhen.timetable.civil_time import Zone, zone

FEW = 3
_SIGNS = {"created": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


def show(changes: Iterable[ScheduleChange]) -> None:
    for change in changes:
        sign, colour = _SIGNS[change.what]
        where = f"  {change.place}" if change.place else ""
        echo(styled(f"{sign} {change.schedule_id}", fg=colour, bold=True), styled(where, dim=True))
        if change.what == "changed":
            for key in change.keys:
                echo(f"    {_key(key)}")
        for line in _firings(change):
            echo(f"    {line}")


def show_sections(changes: Iterable[KeyChange]) -> None:
    """Print the changes of other sections than the schedules, entry by entry."""
    for change in changes:
        what = "created" if change.before is None else "removed" if change.after is None else "changed"
        sign, colour = _SIGNS[what]
        echo(styled(f"{sign} {change.key}", fg=colour, bold=True))
        for word, value in (("was", change.before), ("is", change.after)):
            if value is not None:
                echo(f"    {word} {value}")


def _key(change: KeyChange) -> str:
    return f"{change.key}: {_spelled(change.key, change.before)} → {_spelled(change.key, change.after)}"


def _spelled(key: str, value: object) -> str:
    if value is None:
        return "default"
    if key == "trigger" and isinstance(value, dict):
        return " ".join(f"{name} {text}" for name, text in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _firings(change: ScheduleChange) -> list[str]:
    found, where = change.firings, zone(change.timezone)
    span = "of the next 7 days" if found.until is None else f"until {_time(found.until, where)}"
    if found.is_same:
        return [f"the firings {span} stay as they are"] if change.what == "changed" else []
    lines = []
    if found.moved:
        pairs = [f"{_time(old, where)} → {_time(new, where)}" for old, new in found.moved[:FEW]]
        lines.append(_line(len(found.moved), span, "move", pairs))
    for word, instants in (("vanish", found.vanished), ("appear", found.appeared)):
        if instants:
            lines.append(_line(len(instants), span, word, [_time(at, where) for at in instants[:FEW]]))
    return lines


def _line(count: int, span: str, word: str, shown: Sequence[str]) -> str:
    rest = ", …" if count > len(shown) else ""
    firings = "1 firing" if count == 1 else f"{count:,} firings"
    return f"{firings} {span} {word}{'s' if count == 1 else ''}: {', '.join(shown)}{rest}"


def _time(instant: int, where: Zone) -> str:
    return f"{where.datetime(instant // SECOND):%a %d %b %H:%M:%S %Z}"


def changes_to_json(change: ScheduleChange) -> dict[str, Any]:
    """Return the change as JSON, with instants in RFC 3339."""
    found = change.firings

    def instant(at: int) -> str:
        return zone("UTC").datetime(at // SECOND).strftime("%Y-%m-%dT%H:%M:%SZ")

    return {
        "schedule_id": change.schedule_id,
        "what": change.what,
        "place": change.place or None,
        "keys": [{"key": key.key, "before": key.before, "after": key.after} for key in change.keys],
        "firings": {
            "kept": found.kept,
            "moved": [[instant(old), instant(new)] for old, new in found.moved],
            "vanished": [instant(at) for at in found.vanished],
            "appeared": [instant(at) for at in found.appeared],
            "until": None if found.until is None else instant(found.until),
        },
    }
