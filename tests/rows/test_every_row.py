"""Every row of `behaviour.py` has a test with its number, and every number in a name is that of a row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.rows.behaviour import ROWS

NUMBERS = re.compile(r"test_((?:[dphmw]\d+_)+)")


def rows_with_a_test() -> set[str]:
    names = (
        node.name
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    found = (match[1] for name in names if (match := NUMBERS.match(name)))
    return {number.upper() for numbers in found for number in numbers.rstrip("_").split("_")}


def test_every_row_has_a_test_of_its_number() -> None:
    assert sorted(ROWS.keys() - rows_with_a_test()) == []


def test_no_test_has_the_number_of_no_row() -> None:
    assert sorted(rows_with_a_test() - ROWS.keys()) == []
