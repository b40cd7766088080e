"""docs/architecture.md names every package and every file of the source, and no file that is gone."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "architecture.md").read_text()
SOURCE = ROOT / "src/everwhen"
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")


def test_every_file_of_the_source_is_named() -> None:
    named = set(re.findall(r"[\w*]+\.py", PAGE))
    missing = [
        str(path.relative_to(SOURCE))
        for path in FILES
        if path.name not in named and not path.name.endswith("_command.py") and path.parent.name != "routes"
    ]
    assert missing == []


def test_every_package_is_named() -> None:
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert sorted(name for name in packages if f"{name}/" not in PAGE and f"`{name}`" not in PAGE) == []


def test_no_file_is_named_that_is_gone() -> None:
    known = {
        path.name
        for folder in ("src", "tests", "tools", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    }
    named = {name for name in re.findall(r"[\w*]+\.py", PAGE) if "*" not in name}
    assert sorted(named - known) == []
