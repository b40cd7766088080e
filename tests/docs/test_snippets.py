"""Every fence of the documentation works as it is written; `snippets` says what is done with each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, Fence, fences_of
from tests.docs.snippets import Page, SnippetError

SHOWN = [page for page in (*PAGES, ROOT / "README.md") if "decisions" not in page.parts and fences_of(page)]


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Page]:
    page = Page(tmp_path)
    try:
        yield page
    finally:
        page.close()


@pytest.mark.timeout(900)  # a page may have dozens of fences
@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_of_a_page_works(page: Path, scratch: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scratch.folder)
    monkeypatch.syspath_prepend(scratch.folder)
    faults = []
    for fence in fences_of(page):
        try:
            scratch.carry_out(fence)
        except SnippetError as error:
            faults.append(str(error))
    assert faults == [], "\n\n".join(faults)


@pytest.mark.parametrize(
    ("language", "text", "mark", "fault"),
    [
        ("", "anything\n", None, "without a language"),
        ("ts", "let x = 1\n", None, "what is a ts"),
        ("text", "$ everwhen up\n", None, "has commands"),
        ("text", "$ everwhen up\n", ("not run", "no"), "needs a reason"),
        ("python", ">>> 1 + 1\n3\n", None, "Expected"),
        ("python", "1 / 0\n", None, "division by zero"),
        ("yaml", "schedules: [{id: a, evry: 1h, run: {command: [x]}}]\n", None, 'did you mean "every"'),
        (
            "yaml",
            "groups: [{name: a, rules: [{alert: A, expr: everwhen_lag > 1}]}]\n",
            None,
            "no metric everwhen_lag",
        ),
        ("json", "{'a': 1}\n", None, "Expecting property name"),
        ("sh", "true\nfalse\ntrue\n", None, "ended with 1"),
        ("console", "$ echo a\nb\n", ("exact output", ""), "printed"),
        ("console", "$ printf 'job\\n──\\n'\njob   took\n─────\n", None, "printed"),
    ],
)
def test_a_snippet_that_does_not_work_is_found(
    language: str, text: str, mark: tuple[str, str] | None, fault: str, scratch: Page
) -> None:
    fence = Fence(DOCS / "index.md", 1, language, text, *(mark or (None, "")))
    with pytest.raises(SnippetError, match=fault):
        scratch.carry_out(fence)


def test_a_fence_with_a_title_is_a_file_that_commands_find(scratch: Page) -> None:
    page = scratch.folder / "page.md"
    page.write_text(
        '```bash title="say.sh"\necho said\n```\n\n<!-- exact output -->\n```console\n$ ./say.sh\nsaid\n```\n'
    )
    for fence in fences_of(page):
        scratch.carry_out(fence)
    assert [fence.title for fence in fences_of(page)] == ["say.sh", ""]
