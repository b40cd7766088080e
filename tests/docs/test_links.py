"""Links of the documentation lead somewhere: to a file, and to a heading in it, on the site and in the repository."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.pages import AT_THE_ROOT, DOCS, PAGES, ROOT, anchors_of, links_of

EVERY_PAGE = [*PAGES, *AT_THE_ROOT]


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    faults = [fault for line, link in links_of(page) if (fault := fault_of(page, line, link)) is not None]
    assert faults == []


@pytest.mark.parametrize("folder", ["decisions/README.md", "guide/index.md"])
def test_an_index_links_to_every_page_of_its_folder(folder: str) -> None:
    index = DOCS / folder
    listed = {(index.parent / link).resolve() for _, link in links_of(index)}
    assert [
        page.name for page in sorted(index.parent.glob("*.md")) if page != index and page not in listed
    ] == []


def test_no_two_pages_of_a_folder_have_the_same_title() -> None:
    """The navigation of the site shows titles only."""
    titles = Counter(
        (page.parent, ("\n" + page.read_text(encoding="utf-8")).partition("\n# ")[2].splitlines()[0])
        for page in PAGES
    )
    assert [title for title, count in titles.items() if count > 1] == []


def test_every_result_of_a_benchmark_says_by_itself_how_it_was_measured() -> None:
    """ "the same" means another run as soon as a row is inserted above it."""
    table = (DOCS / "benchmarks.md").read_text(encoding="utf-8").partition("## Results")[2]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith("| B")
    ]
    assert len(rows) > 20
    assert [row[0] for row in rows if not row[3] or row[3].startswith("the same")] == []


def fault_of(page: Path, line: int, link: str) -> str | None:
    """Return what is wrong with a link; addresses elsewhere are not asked."""
    if link.startswith(("https://", "http://", "mailto:")):
        return None
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    where = f"line {line}: {link}"
    if not target.exists():
        return f"{where} does not exist"
    if page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
        return f"{where} is outside docs/, so the site has no such page; name the file without a link"
    if anchor and anchor not in anchors_of(target):
        return f"{where} names no heading; there are {', '.join(sorted(anchors_of(target)))}"
    return None


def test_the_files_of_the_source_that_pages_name_exist() -> None:
    packages = ROOT / "src" / "everwhen"
    folders = "|".join(sorted(folder.name for folder in packages.iterdir() if folder.is_dir()))
    named = re.compile(
        rf"`((?:src/everwhen/)?(?:{folders})/[a-z_/]+\.py|(?:tests|tools|benchmarks)/[a-z_/]+\.py)[`:]"
    )
    gone = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in (*PAGES, *AT_THE_ROOT)
        for name in named.findall(page.read_text(encoding="utf-8"))
        if not (ROOT / name).exists() and not (packages / name).exists()
    ]
    assert gone == []


def test_the_checker_sees_what_is_wrong(tmp_path: Path) -> None:
    page = DOCS / "index.md"
    assert fault_of(page, 1, "proof.md") is None
    assert fault_of(page, 1, "proof.md#what-is-promised") is None
    assert "names no heading" in str(fault_of(page, 1, "proof.md#what-is-not-there"))
    assert "does not exist" in str(fault_of(page, 1, "prof.md"))
    assert "outside docs" in str(fault_of(page, 1, "../README.md"))
    text = "# A `b` – c\n\n[a](x.md) `[b](y.md)` [![c](z.png)](w.md)\n\n```\n[d](v.md)\n```\n"
    (tmp_path / "page.md").write_text(text)
    assert [link for _, link in links_of(tmp_path / "page.md")] == ["z.png", "x.md", "w.md"]
