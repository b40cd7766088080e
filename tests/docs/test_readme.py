"""The README: the answer of `why` is the one that a scheduler gives, and the program can be started again."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from everwhen.testing import manual_scheduler
from tests.docs.pages import ROOT


def test_the_answer_about_a_missed_slot_is_the_one_that_is_given() -> None:
    with closing(manual_scheduler("2026-11-18T07:30:00Z")) as scheduler:
        scheduler.add("report", cron="0 9 * * 1-5", timezone="Europe/Berlin")
        scheduler.advance("11m")
        scheduler.beat()
        scheduler.sleep("31m")
        scheduler.restart()
        scheduler.step()
        answer = scheduler.why("report", at="2026-11-18T08:00:00Z").sentence
    shown = re.findall(
        r"^\$ everwhen why report --at 2026-11-18T09:00\n✗ (.*?)```", readme(), re.DOTALL | re.MULTILINE
    )
    assert [" ".join(one.split()) for one in shown] == [answer]


def test_the_program_can_be_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(
        r"^```python\n(from .*?)^scheduler\.run\(\)\n```", readme(), re.DOTALL | re.MULTILINE
    )
    for _ in range(2):
        names: dict[str, Any] = {}
        exec(program, names)  # all but the line that waits for Ctrl-C
        with closing(names["scheduler"]) as scheduler:
            assert scheduler.get_schedule("report").revision == 1


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")
