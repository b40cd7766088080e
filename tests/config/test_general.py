"""A small everwhen.yaml: what is read, and how every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from everwhen.config.general import read_configuration
from everwhen.errors import ConfigError

ROOT = Path(__file__).parents[2]


def read(folder: Path, text: str) -> list[str]:
    path = folder / "everwhen.yaml"
    path.write_text(text)
    return [schedule.schedule_id for schedule in read_configuration(path).schedules]


def test_the_quickstart_is_valid() -> None:
    configuration = read_configuration(ROOT / "examples" / "quickstart" / "everwhen.yaml")
    assert configuration.schedules[0].schedule_id == "heartbeat"


def test_an_empty_file_declares_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "must be a mapping with service and schedules"),
        ("a: [", "is no YAML"),
        ("schedule: []", 'schedule: unknown key, did you mean "schedules"?'),
        ("service: {databse: x}", 'service.databse: unknown key, did you mean "database"?'),
        ("service: 5", "service: must be a mapping"),
        ("schedules: 5", "schedules: must be a list"),
        ("schedules: [{every: 5m}]", "schedules[0]: must be a mapping with an id"),
        ("schedules: [{id: a, every: 5m}]", "schedules[0].run: must be {command: [program, argument, …]}"),
        ("schedules: [{id: a, every: 5m, run: {command: ls}}]", "schedules[0].run: must be"),
        (
            "schedules: [{id: a, evry: 5m, run: {command: [ls]}}]",
            'schedules[0].evry: unknown key, did you mean "every"?',
        ),
        (
            "schedules: [{id: a, run: {command: [ls]}}, {id: a, run: {command: [ls]}}]",
            'duplicate schedule id "a"',
        ),
    ],
)
def test_every_mistake_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "everwhen.yaml"))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "service: {a: 1}\nschedules: [{id: x, b: 2, run: {command: [ls]}}]")
    assert len(str(caught.value).splitlines()) == 2
