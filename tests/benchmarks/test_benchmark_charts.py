"""Charts are drawn from results, and show what the table says."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.charts import RESULTS, chart, draw, picture_of

FILES = sorted(RESULTS.glob("*.json"))
SVG = "{http://www.w3.org/2000/svg}"


def results(**changes: Any) -> dict[str, Any]:
    contestants = {
        name: {"label": f"{name} 1.0", "seconds": {"median": cost, "low": cost / 2, "high": cost * 2}}
        for name, cost in (("everwhen", 0.001), ("peer", 0.004), ("other", 0.002))
    }
    goals = [
        {"subject": "everwhen", "text": "≥ 2 × peer", "ratio": {"median": 3.9}},
        {"subject": "everwhen", "text": "≤ 1 × other", "ratio": {"median": 0.25}},
    ]
    one = {
        "number": "B0",
        "what": "10 (quick: 5) things; on a disk",
        "contestants": contestants,
        "goals": goals,
    }
    return {"started_at": "2026-11-15T00:00", "rounds": 3, "quick": False, "benchmarks": [one | changes]}


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_results_of_the_repository_have_their_chart(path: Path) -> None:
    drawn = chart(json.loads(path.read_text(encoding="utf-8")))
    assert picture_of(path).read_text(encoding="utf-8") == drawn, "run python -m benchmarks.charts"


def test_a_bar_has_its_time_and_the_ratio_of_the_table() -> None:
    assert texts(chart(results()))[-6:] == [
        "everwhen 1.0",
        "1 ms",
        "peer 1.0",
        "4 ms, 3.9 ×",
        "other 1.0",
        "2 ms, 4.0 ×",
    ]


def test_a_quick_run_names_its_smaller_loads() -> None:
    assert "10 things" in texts(chart(results()))
    assert "10 (quick: 5) things" in texts(chart(results() | {"quick": True}))


def test_what_has_nothing_to_be_compared_with_is_left_out() -> None:
    assert "B0" not in texts(chart(results(goals=[])))


def test_a_chart_is_drawn_where_it_is_wanted(tmp_path: Path) -> None:
    measured = tmp_path / "latest.json"
    measured.write_text(json.dumps(results()), encoding="utf-8")
    draw(measured, tmp_path / "pictures" / "latest.svg")
    assert (tmp_path / "pictures" / "latest.svg").read_text(encoding="utf-8") == chart(results())


def test_results_of_what_is_measured_in_another_way_by_now_are_not_drawn() -> None:
    old = results(number="B5")
    assert "10 things" not in texts(chart(old))
    assert "10 things" in texts(chart(old | {"started_at": "2026-11-20T00:00"}))
