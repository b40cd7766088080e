"""The systems that a release runs on: Windows is refused with a sentence, before anything that needs Unix is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from everwhen.version import NOT_ON_WINDOWS

ON_WINDOWS = "import sys; sys.platform = 'win32'\n"


@pytest.mark.parametrize(
    ("program", "status", "last_line"),
    [
        ("from everwhen.cli.main import main", 1, f"error: {NOT_ON_WINDOWS}"),  # as the installed script does
        ("import runpy; runpy.run_module('everwhen')", 1, f"error: {NOT_ON_WINDOWS}"),
        ("from everwhen import Scheduler", 1, f"ImportError: {NOT_ON_WINDOWS}"),
        ("import everwhen; everwhen.__version__", 0, ""),
    ],
)
def test_windows_is_refused_at_the_start_with_a_sentence(program: str, status: int, last_line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS + program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (status, [last_line] if last_line else [])
    assert done.stderr.startswith("error: ") or "Traceback" in done.stderr or not last_line
