"""Scenario files of `everwhen simulate`: how long runs take, which fail, and when nothing runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from everwhen.config.problems import Report
from everwhen.config.yaml_text import read_document
from everwhen.errors import ConfigError, shown
from everwhen.model.instants import SECOND
from everwhen.model.kinds import Key, ListOf, MapOf, Record
from everwhen.model.scalars import Parsed
from everwhen.model.values import INSTANT
from everwhen.operations.simulate import Behaviour, Scenario
from everwhen.timetable.civil_time import Zone, zone
from everwhen.timetable.interval import parse_seconds
from everwhen.timetable.trigger import parse_instant

_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")
_UTC = zone("UTC")


def _span(value: Any) -> tuple[int, int]:
    """Parse `30s`, or `5s-2m`: from the shortest to the longest."""
    if not isinstance(value, str):
        raise ConfigError(f'"{shown(value)}" is not a duration; write it like 30s, or 5s-2m')
    first, _, last = value.partition("-")
    shortest, longest = (_seconds(part) for part in (first, last or first))
    if longest < shortest:
        raise ConfigError(f'"{value}" goes from the longest to the shortest; turn it round')
    return shortest, longest


def _seconds(text: str) -> int:
    return 0 if text.strip() in ("0", "0s") else parse_seconds(text.strip())


def _share(value: Any) -> float:
    found = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if found is None or float(found[1]) > 100:
        raise ConfigError(f'"{shown(value)}" is not a percentage; write it like 5%')
    return float(found[1]) / 100


_BEHAVIOUR = Record(
    {
        "duration": Key(Parsed(_span), "How long a run takes: 30s, or from 5s-2m.", "1s"),
        "fails": Key(Parsed(_share), "Which share of the runs fails: 5%.", "0%"),
    }
)
_OUTAGE = Record(
    {
        "from": Key(INSTANT, "When everything stops.", is_required=True),
        "to": Key(INSTANT, "When it goes on.", is_required=True),
    }
)
SCENARIO = Record(
    {
        "default": Key(_BEHAVIOUR, "Runs of schedules that are not named below."),
        "schedules": Key(MapOf(_BEHAVIOUR, has_names=False), "By schedule id; * matches anything."),
        "outages": Key(ListOf(_OUTAGE), "Spans in which nothing runs."),
    }
)


def read_scenario(path: Path, where: Zone = _UTC) -> Scenario:
    """Return the scenario of a file; raise ConfigError that names every mistake in it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    report = Report()
    node = read_document(text, str(path), report).node(report)
    if node.value is not None:
        SCENARIO.check(node)
    report.refuse()
    scenario = _scenario(node.value or {}, where)
    for first, last in scenario.outages:
        if last <= first:
            raise ConfigError(f"{path}: outages: one ends before it begins")
    return scenario


def _scenario(fields: Mapping[str, Any], where: Zone) -> Scenario:
    return Scenario(
        _behaviour(fields.get("default") or {}),
        {pattern: _behaviour(one or {}) for pattern, one in (fields.get("schedules") or {}).items()},
        [
            (parse_instant(one["from"], where) * SECOND, parse_instant(one["to"], where) * SECOND)
            for one in fields.get("outages") or ()
        ],
    )


def _behaviour(fields: Mapping[str, Any]) -> Behaviour:
    shortest, longest = _span(fields.get("duration", "1s"))
    return Behaviour(shortest * SECOND, longest * SECOND, _share(fields.get("fails", "0%")))
