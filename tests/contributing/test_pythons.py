"""Which tests `.ci/run` runs on which Python of a machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.other_pythons import targets_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("minors", "quick"),
    [([11], set()), ([11, 12], set()), ([11, 12, 13, 14], {12, 13}), ([13, 11, 12, 14], {12, 13})],
)
def test_the_oldest_and_the_newest_python_run_every_test(minors: list[int], quick: set[int]) -> None:
    targets = targets_of(minors)
    assert {minor for minor, target in targets.items() if target == "quick"} == quick
    assert {minor for minor, target in targets.items() if target == "suite"} == set(minors) - quick


def test_what_runs_on_another_python_is_a_target_of_make_and_part_of_make_test() -> None:
    rules = dict(re.findall(r"^(\w+): (.*?)(?: ##|$)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(targets_of([11, 12, 13]).values()) <= rules.keys()
    assert "suite" in rules["test"].split()
