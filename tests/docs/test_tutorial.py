"""How pages with commands are followed, and the pages of Concepts; `tests/release` follows the tutorial."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.tutorial import MismatchError, fences_of, follow, newcomers_environment

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
PAGES = sorted(TUTORIAL.glob("*.md"))
CONCEPTS = sorted((TUTORIAL.parent / "concepts").glob("*.md"))


@pytest.mark.parametrize("page", CONCEPTS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    follow(page, folder, newcomers_environment(tmp_path / "home", Path(sys.executable).parent))


def test_the_index_names_every_page() -> None:
    index = (TUTORIAL / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"({page.name})" not in index] == ["index.md"]


def test_a_page_that_shows_something_else_is_a_fault(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one; echo two\none\n```\n", encoding="utf-8")
    with pytest.raises(MismatchError, match=r"(?s)line 1: `echo one; echo two` printed.*two"):
        follow(page, tmp_path, newcomers_environment(tmp_path / "home", Path(sys.executable).parent))


def test_a_fence_that_is_not_run_says_why() -> None:
    page = "<!-- not run: it needs the network -->\n```console\n$ false\n```\n\n```console\n$ true\n```\n"
    assert [fence.text for fence in fences_of(page)] == ["$ true\n"]
