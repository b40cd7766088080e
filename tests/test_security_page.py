"""The page on security is true: every threat names tests, and every test that it names is there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security.md"
HEADER = "| threat | what is done | which test shows it |"
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def threats() -> list[list[str]]:
    """The rows of the table, cell by cell."""
    table = PAGE.read_text().partition(HEADER)[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


@cache
def names_in(path: str) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)", (ROOT / path).read_text(), re.MULTILINE))


@pytest.mark.parametrize("row", threats(), ids=lambda row: row[0][:60])
def test_every_threat_names_tests_that_are_there(row: list[str]) -> None:
    assert len(row) == 3 and all(row)
    named = TEST.findall(row[2])
    assert named and TEST.sub("", row[2]).strip(" ,") == ""
    for path, name in named:
        assert names_in(path), f"{path} has no tests"
        assert not name or name in names_in(path), f"{path} has no {name}"


def test_there_is_one_table_and_no_threat_is_listed_twice() -> None:
    assert PAGE.read_text().count(HEADER) == 1
    names = [row[0] for row in threats()]
    assert len(names) == len(set(names)) > 30


def test_the_page_is_found_from_the_root() -> None:
    assert "docs/security.md" in (ROOT / "SECURITY.md").read_text()
    assert "SECURITY.md" in (ROOT / "README.md").read_text()
