"""YAML as plain values that know their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everwhen.config.problems import Location, Report
from everwhen.config.yaml_text import MOST_BYTES, read_document


def values(text: str) -> Any:
    report = Report()
    document = read_document(text, "f", report)
    assert report.errors == []
    return document.root


def faults(text: str) -> list[str]:
    report = Report()
    read_document(text, "f", report)
    return [str(problem) for problem in report.errors]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("on", "on"),
        ("yes", "yes"),
        ("12:30", "12:30"),
        ("22:00-06:00", "22:00-06:00"),
        ("2026-12-25", "2026-12-25"),
        ("2026-12-24T18:00:00+01:00", "2026-12-24T18:00:00+01:00"),
        ("010", 10),
        ("0x1f", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-3", -3),
        ("+", "+"),
        ("99999999999999999999999", 99_999_999_999_999_999_999_999),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("! 5", "5"),
        ("!!int 5", 5),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_types_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    assert values(f"key: {text}") == {"key": value}
    assert type(values(f"key: {text}")["key"]) is type(value)


def test_keys_are_text_whatever_they_look_like() -> None:
    assert values("{1: a, no: b, true: c, 2026-01-01: d, ~: e}") == {
        "1": "a",
        "no": "b",
        "true": "c",
        "2026-01-01": "d",
        "~": "e",
    }


def test_a_value_knows_its_line_and_column() -> None:
    text = "a:\n  - b: 1\n    c:\n      - x\n      - y\n"
    document = read_document(text, "f", Report())
    assert document.place(("a", 0, "c", 1)) == Location("f", 5, 9)
    assert document.place(("a", 0, "missing", 7)) == Location("f", 2, 5)
    assert document.place(("nowhere",)) == Location("f", 1, 1)


def test_aliases_and_merges_are_written_out() -> None:
    text = "base: &base {a: 1, b: 2}\nother: {<<: *base, b: 3}\nsame: *base\nboth: {<<: [{a: 9}, *base]}"
    found = values(text)
    assert found["other"] == {"a": 1, "b": 3}
    assert found["same"] == {"a": 1, "b": 2}
    assert found["both"] == {"a": 9, "b": 2}


def test_a_billion_laughs_are_refused_before_they_are_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 10):
        lines.append(f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]")
    assert faults("\n".join(lines)) == [
        "f:7: a6[3]: holds more than 5,000,000 values, its aliases written out"
    ]


def test_a_file_of_brackets_is_refused_at_once() -> None:
    assert faults("[" * 100_000) == ["f:1: [0][0][0]: is nested more than 50 levels deep"]


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert faults("#" * (MOST_BYTES + 1)) == ["f:1: is larger than 16 MiB; split it with include"]


def test_a_byte_order_mark_and_nothing_at_all_are_fine(tmp_path: Path) -> None:
    assert values("# only a comment") is None
    assert values("") is None
