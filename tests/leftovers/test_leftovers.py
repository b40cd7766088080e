"""Whoever opens something closes it: afterwards no file, socket, thread or child process is left."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.leftovers.programs import PROGRAMS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_left_open_by(name: str, tmp_path: Path) -> None:
    program = "from tests.leftovers.programs import main; main()"
    command = [sys.executable, "-W", "error", "-c", program, name, str(tmp_path)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
