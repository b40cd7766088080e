"""The pages of the documentation as text: their headings, links and fences."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
AT_THE_ROOT = sorted(ROOT.glob("*.md"))

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)(?P<info>[^\n`]*)$")
_TITLE = re.compile(r'title="([^"]*)"')
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$")
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^()\s>]+)>?(?: \"[^\"]*\")?\)")
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^()\s]+)\)")
_CODE = re.compile(r"(`+)(.+?)\1")
_MARK = re.compile(r"^ *<!-- (?P<word>[a-z ]+?)(?:: (?P<text>.*?))? -->$")


class Fence(NamedTuple):
    """A fenced block: where it begins, its language, its lines, the mark on the line before it, and its title."""

    page: Path
    line: int
    language: str
    text: str
    mark: str | None
    mark_text: str
    title: str = ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def fences_of(page: Path) -> list[Fence]:
    """Return the fenced blocks of a page."""
    return [part for part in parts_of(page) if isinstance(part, Fence)]


@cache
def parts_of(page: Path) -> tuple[Fence | tuple[int, str], ...]:
    """Return a page as its fences and its other lines, each with its number."""
    return tuple(_parts(page, page.read_text(encoding="utf-8").splitlines()))


def _parts(page: Path, lines: list[str]) -> Iterator[Fence | tuple[int, str]]:
    number, mark = 0, None
    while number < len(lines):
        line = lines[number]
        number += 1
        opened = _FENCE.match(line)
        if opened is None:
            yield number, line
            mark = _MARK.match(line) if line.strip() else mark
            continue
        first, indent, closing = number, len(opened["indent"]), f"{opened['indent']}{opened['ticks']}"
        while lines[number].rstrip() != closing:
            number += 1
        text = "".join(f"{inner[indent:]}\n" for inner in lines[first:number])
        word, said = (mark["word"], mark["text"] or "") if mark else (None, "")
        title = _TITLE.search(opened["info"])
        yield Fence(page, first, opened["language"], text, word, said, title[1] if title else "")
        number, mark = number + 1, None


def links_of(page: Path) -> list[tuple[int, str]]:
    """Return the targets of links and images on a page, each with its line; what stands in code is not a link."""
    lines = [(part[0], _CODE.sub("", part[1])) for part in parts_of(page) if not isinstance(part, Fence)]
    return [
        (number, found)
        for number, line in lines
        for found in (*_IMAGE.findall(line), *_LINK.findall(_IMAGE.sub("", line)))
    ]


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors that a page has both on the site and where a forge shows the file."""
    headings = [
        found[1]
        for part in parts_of(page)
        if not isinstance(part, Fence) and (found := _HEADING.match(part[1]))
    ]
    texts = [re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", text) for text in headings]
    on_site, on_forge = Counter(map(_slug, texts)), Counter(map(_forge_slug, texts))
    return frozenset(slug for slug in on_site if slug in on_forge and on_site[slug] == on_forge[slug] == 1)


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _forge_slug(text: str) -> str:
    return re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
