"""Rules about the source that no linter checks: arguments have names, and fields are read by their names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src"
FILES = sorted(SOURCES.rglob("*.py"))
MOST_POSITIONAL = 5
CORE = tuple(
    f"everwhen/{package}/"
    for package in ("timetable", "model", "decide", "verify", "engine", "operations/simulate", "stores/flows")
)
# Functions of other packages that take any number of equal arguments.
VARIADIC = {"pack", "assemble"}
# What a tuple with named fields is called; the fields of any other sequence have no names to read them by.
RECORDS = {
    "self",
    "row",
    "state",
    "job",
    "event",
    "revision",
    "start",
    "new",
    "before",
    "after",
    "decision",
    "token",
}


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for path in FILES:
        yield str(path.relative_to(SOURCES)), ast.parse(path.read_text())


@pytest.fixture(scope="module")
def trees() -> list[tuple[str, ast.Module]]:
    return list(_trees())


def calls_with_too_many(tree: ast.Module, variadic: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) not in variadic:
            given = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
            if len(given) > MOST_POSITIONAL:
                yield node


def positions(tree: ast.Module) -> Iterator[ast.Subscript]:
    """Yield what reads fields by position: a slice of a record or of its field names, or an index into itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript):
            continue
        is_record = _name(node.value) in RECORDS or _name(node.value) == "_fields"
        if isinstance(node.slice, ast.Slice):
            bounds = [node.slice.lower, node.slice.upper]
            if is_record and any(_is_number(bound) for bound in bounds):
                yield node
        elif _name(node.value) == "self" and _is_number(node.slice):
            yield node


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_number(node: ast.expr | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def test_no_call_has_more_than_five_positional_arguments(trees: list[tuple[str, ast.Module]]) -> None:
    variadic = VARIADIC | {
        node.name
        for _, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.args.vararg is not None
    }
    found = [f"{name}:{call.lineno}" for name, tree in trees for call in calls_with_too_many(tree, variadic)]
    assert found == []


def test_no_field_is_read_by_its_position(trees: list[tuple[str, ast.Module]]) -> None:
    found = [f"{name}:{one.lineno} {ast.unparse(one)}" for name, tree in trees for one in positions(tree)]
    assert found == []


def test_no_two_classes_of_the_core_share_a_name(trees: list[tuple[str, ast.Module]]) -> None:
    places: dict[str, list[str]] = {}
    for name, tree in trees:
        if name.startswith(CORE):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("text", ["f(1, 2, 3, 4, 5, 6)", "a.b(1, 2, 3, 4, 5, 6, *c)"])
def test_six_positional_arguments_are_found(text: str) -> None:
    assert list(calls_with_too_many(ast.parse(text), VARIADIC))
    assert not list(calls_with_too_many(ast.parse("f(1, 2, 3, 4, 5, *rest, x=6)"), VARIADIC))


@pytest.mark.parametrize("text", ["State._make((*self[:17], 1))", "self[40]", "row[9:15]", "T._fields[1:]"])
def test_a_read_by_position_is_found(text: str) -> None:
    assert list(positions(ast.parse(text)))
    assert not list(positions(ast.parse("row[:size], names[:5], self[key], text[1:]")))
