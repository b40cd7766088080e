"""The tutorial, page by page, as a newcomer does it: with the installed wheel, an empty folder and an empty home."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tutorial import follow, newcomers_environment
from tests.release.building import ROOT

PAGES = sorted((ROOT / "docs" / "tutorial").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, python: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    follow(page, tmp_path / "work", newcomers_environment(tmp_path / "home", python.parent))
