"""`make docs` builds a site without a warning, which loads nothing from elsewhere and has its search in itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.docs.pages import DOCS, PAGES, ROOT

LOADED = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(https?:|//)[^>]*>")
PATIENCE = 120_000  # milliseconds, for a search: its index is read by a worker of the browser
LONGEST = 500  # seconds, on a machine that is busy with other work; three of a core are needed
SECTIONS = "Home, Tutorial, How to, Guides in depth, Concepts, Reference, Proof, Development"

pytestmark = pytest.mark.timeout(2 * LONGEST)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"))


def test_the_site_is_built_without_a_warning_and_is_complete_in_itself(site: Path) -> None:
    index = (site / "search.js").read_text(encoding="utf-8")
    for page in PAGES:
        name = page.relative_to(DOCS).with_suffix(".html").as_posix().replace("README.html", "index.html")
        assert (site / name).is_file(), name
        assert f'"location":"{name}' in index, name
    for path in site.rglob("*.html"):
        assert LOADED.search(path.read_text(encoding="utf-8")) is None, path
    for path in site.rglob("*.css"):
        assert re.search(r"url\([\"']?(?:https?:)?//", path.read_text(encoding="utf-8")) is None, path
    links = re.findall(r'md-tabs__link">(.*?)</a>', (site / "index.html").read_text(), re.DOTALL)
    assert ", ".join(link.strip() for link in links) == SECTIONS


def test_the_search_finds_pages_when_the_site_is_opened_as_a_file(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    for words, found in (
        ("quiet hours", "how-to/quiet-hours-and-holidays.html"),
        ("coming from celery", "how-to/coming-from-celery-beat.html"),
        ("only_between", "reference/schedule-keys.html"),
    ):
        page.goto((site / "index.html").as_uri())
        page.get_by_role("button", name="Search").click()
        field = page.get_by_placeholder("Search")
        field.press_sequentially(words)
        expect(page.locator(f'ol a[href*="{found}"]').first).to_be_visible(timeout=PATIENCE)
        assert field.input_value() == words
    page.close()


def built(folder: Path) -> Path:
    """Build the site in a folder as `make docs` does."""
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    done = subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--clean", "--strict"],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0 and "No issues found" in done.stderr, done.stdout + done.stderr
    return folder / "site"
