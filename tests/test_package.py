"""The package as a newcomer meets it: light to import, its public names in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import everwhen

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
HEAVY = (
    "asyncio",
    "sqlite3",
    "click",
    "rich",
    "zoneinfo",
    "datetime",
    "json",
    "logging",
    "typing_extensions",
)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.strip()


def test_importing_everwhen_pulls_in_nothing_heavy() -> None:
    added = "import sys; before = set(sys.modules); import everwhen; print(*set(sys.modules) - before)"
    loaded = run_python(added).split()
    assert not set(loaded) & set(HEAVY)
    assert [name for name in loaded if name.startswith("everwhen.")] == ["everwhen.version"]


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    for name in everwhen.__all__:
        assert getattr(everwhen, name) is not None
    assert set(dir(everwhen)) == set(everwhen.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = everwhen.nonsense  # type: ignore[attr-defined]


def test_type_checkers_and_python_find_the_same_names_in_the_same_modules() -> None:
    (block,) = [node for node in ast.parse(Path(everwhen.__file__).read_text()).body if is_for_checkers(node)]
    imports = [node for node in ast.walk(block) if isinstance(node, ast.ImportFrom)]
    found = [(alias, import_module(node.module or "")) for node in imports for alias in node.names]
    declared = {alias.asname: getattr(module, alias.name) for alias, module in found}
    assert declared == {name: getattr(everwhen, name) for name in everwhen.__all__ if name != "__version__"}


def is_for_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_nothing_inside_imports_the_public_front(path: Path) -> None:
    public = set(everwhen.__all__) - {"__version__"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "everwhen":
            assert not {alias.name for alias in node.names} & public


def test_every_module_opens_with_a_sentence() -> None:
    silent = [str(path) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_constraints_pin_versions_and_name_no_host() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    assert lines
    assert [line for line in lines if line.count("==") != 1 or "/" in line] == []
