"""Reading again: what did not change is not judged again, and everything else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.config.problems import Report
from everwhen.config.read import Configuration, examine, read_configuration
from everwhen.model.declare import Declared
from tests.config.reading import host, read, write

FILE = """
service: {timezone: UTC}
quiet_hours: {nights: {windows: [{between: "22:00-07:00"}]}}
schedules:
- {id: a, every: 1h, quiet_hours: nights, run: {command: [x]}}
- {id: b, cron: "0 9 * * *", run: {command: [x]}}
- {id: c, after: 1h, run: {command: [x]}}
"""


def again(folder: Path, text: str, last: Configuration) -> dict[str, Declared]:
    found = read_configuration(write(folder, text), host(), last)
    assert found.declared == read_configuration(folder / "everwhen.yaml", host()).declared
    return {one.schedule_id: one for one in found.declared.schedules}


def test_the_same_words_are_the_same_declaration(tmp_path: Path) -> None:
    last = read(tmp_path, FILE)
    first = {one.schedule_id: one for one in last.declared.schedules}
    found = again(tmp_path, "# one line more\n" + FILE, last)
    assert found["a"].definition is first["a"].definition
    assert found["c"].definition is not first["c"].definition  # it counts from now
    assert found["b"].place.endswith(":7")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("every: 1h", "every: 2h"),
        ("timezone: UTC", "timezone: Asia/Tokyo"),
        ("22:00-07:00", "21:00-07:00"),
        ("id: b", "id: d"),
        ("- {id: b", "- {id: b, owner: ada"),
    ],
)
def test_whatever_changed_is_judged_anew(tmp_path: Path, old: str, new: str) -> None:
    again(tmp_path, FILE.replace(old, new), read(tmp_path, FILE))


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("id: b", "id: a", "schedules[1]"),
        ("nights: {", "days: {", "schedules[0].quiet_hours"),
        ("every: 1h", "every: 1x", "schedules[0].every"),
    ],
)
def test_a_mistake_is_found_the_second_time_as_well(tmp_path: Path, old: str, new: str, path: str) -> None:
    last, report = read(tmp_path, FILE), Report()
    examine(write(tmp_path, FILE.replace(old, new)), host(), report, last)
    assert [problem.path for problem in report.errors] == [path]
