"""The lines of a node, for a person who watches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everwhen.cli.node_log import JobLines
from everwhen.model.outcome import Outcome
from tests.targets.running import a_run


def test_neither_a_name_nor_a_result_paints_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run = replace(a_run(), schedule_name="\x1b]0;owned\x07")
    JobLines().started(run)
    JobLines().ended(run, Outcome("succeeded", result="\x1b[2Jgone\0\nsecond line"))
    JobLines().ended(run, Outcome("failed", error="x" * 500))
    shown = capsys.readouterr().err
    assert all(line.isprintable() for line in shown.splitlines())
    assert r"\x1b[2Jgone\x00" in shown and "second line" not in shown
    assert "x" * 100 not in shown
