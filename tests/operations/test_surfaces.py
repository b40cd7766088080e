"""Surfaces are handed no store: the type that they hold has none, and no value without a type lets one through."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import everwhen
from everwhen.runtime import Runtime
from everwhen.store.opened import OpenStore

SOURCE = Path(everwhen.__file__).parent
SURFACES = (
    "api carried cli compat queue_workers scheduler telemetry testing views mcp web django flask".split()
)
HELD = {field.name for field in fields(Runtime)}
STORE = {field.name for field in fields(OpenStore)} - HELD


def test_the_type_that_surfaces_hold_has_no_store() -> None:
    wakes = {"wake_scheduler", "wake_requests", "wake_workers"}
    assert {"clock", "timezone", "clock_skew", "database_kind", "directory", *wakes} == HELD
    assert {"slots", "catalogue", "ledger"} <= STORE


def test_no_surface_reaches_past_the_operations() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
        for package in SURFACES
        for path in (SOURCE / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in STORE and _is_a_runtime(node.value)
    ]
    assert not found


def _is_a_runtime(value: ast.expr) -> bool:
    return ast.unparse(value).rpartition(".")[2].lstrip("_") == "runtime"
