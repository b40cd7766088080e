"""The concepts claim nothing that no test shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_security_page import TEST, names_in

FOLDER = Path(__file__).parents[2] / "docs" / "concepts"
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if page.name != "index.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_tests_that_are_there(page: Path) -> None:
    named = TEST.findall(page.read_text(encoding="utf-8").partition("## Shown by")[2])
    assert named
    for path, name in named:
        assert names_in(path), f"{path} has no tests"
        assert not name or name in names_in(path), f"{path} has no {name}"


def test_the_index_names_every_page() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\w[\w-]*\.md)\)", index)) == {page.name for page in PAGES}
