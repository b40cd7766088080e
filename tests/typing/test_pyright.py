"""The same program for pyright, the other checker that people use: it finds nothing, and it finds mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.npm_packages import npm_modules

ROOT = Path(__file__).parents[2]
PINNED = "pyright@1.1.400"
PROGRAM = Path(__file__).with_name("user_program.py")
MISTAKES = """
from everwhen import Run, Scheduler

scheduler = Scheduler("sqlite://", nam="shop")

@scheduler.every("5m", args=["Ada"])
def greet(name: str, run: Run) -> None: ...

greet(5)
scheduler.update("greet", evry="5m")
scheduler.trigger("greet").wait("30s")
"""


@pytest.fixture(scope="module")
def pyright() -> Path:
    return npm_modules(PINNED) / ".bin" / "pyright"


def complaints(pyright: Path, program: Path) -> list[str]:
    command = [str(pyright), "--pythonpath", sys.executable, str(program)]
    environ = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False, env=environ
    )
    return [line for line in done.stdout.splitlines() if " - error: " in line]


def test_pyright_finds_nothing_in_a_sound_program_and_each_mistake_on_its_line(
    pyright: Path, tmp_path: Path
) -> None:
    assert complaints(pyright, PROGRAM) == []
    mistakes = tmp_path / "mistakes.py"
    mistakes.write_text(MISTAKES)
    lines = {int(one.split(":")[1]) for one in complaints(pyright, mistakes)}
    assert lines == {4, 9, 10, 11}
