"""The drawn pictures of the documentation: what the program draws today, and readable for everybody."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools import draw_slot_life, draw_time_lines
from tools.time_line_scenes import SCENES, Scene

ROOT = Path(__file__).parents[2]
DRAWN = {**draw_time_lines.pictures(), draw_slot_life.PICTURE: draw_slot_life.picture()}
CONCEPTS = ROOT / "docs" / "concepts"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", DRAWN, ids=[path.stem for path in DRAWN])
def test_a_picture_is_what_the_program_draws(path: Path) -> None:
    tool = "draw_slot_life" if path == draw_slot_life.PICTURE else "draw_time_lines"
    assert (ROOT / path).read_text(encoding="utf-8") == DRAWN[path], f"run python -m tools.{tool}"


@pytest.mark.parametrize("path", DRAWN, ids=[path.stem for path in DRAWN])
def test_a_picture_has_a_title_a_description_and_dark_colours(path: Path) -> None:
    root = ElementTree.fromstring(DRAWN[path])
    named = root.attrib["aria-labelledby"].split()
    labels = {
        label.attrib["id"]: label.text or "" for label in root if label.tag in (f"{SVG}title", f"{SVG}desc")
    }
    assert root.attrib["role"] == "img" and [bool(labels[name]) for name in named] == [True, True]
    assert "prefers-color-scheme:dark" in DRAWN[path]


def test_no_picture_is_left_over() -> None:
    folder = ROOT / draw_time_lines.PICTURES
    benchmarks = set(folder.glob("benchmark-*.svg"))
    assert {ROOT / path for path in DRAWN} == set(folder.glob("*.svg")) - benchmarks


def test_every_picture_stands_on_a_page_of_the_concepts() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in CONCEPTS.glob("*.md"))
    assert [path.name for path in DRAWN if f"../pictures/{path.name})" not in pages] == []


@pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
def test_a_row_shows_every_slot_that_the_simulation_counts(scene: Scene) -> None:
    picture = draw_time_lines.Picture(scene)
    shown = {name: len(list(picture.fates(name))) for name in picture.rows}
    assert shown == {name: line.slots for name, line in picture.record.lines.items()}
