"""A reader that goes away (`| head -1`) ends a command quietly, with the exit code that the command has anyway."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).parent / "everwhen")
FILE = """
service: {database: "sqlite:///e.db"}
schedules: [{id: a, every: 1h, run: {command: [date]}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "everwhen.yaml").write_text(FILE)
    subprocess.run([COMMAND, "config", "reload"], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def without_reader(folder: Path, *fields: str, **more: str) -> tuple[int, str]:
    """The exit code and stderr of a command into a pipe that nobody reads."""
    with subprocess.Popen(
        [COMMAND, *fields], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    return process.returncode, said


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "--version",
        "next @hourly --count 1000",
        "config show",
        "config schema",
        "schedules list",
        "schedules list --json",
        "audit --json",
        "audit -f",
        "why a",
    ],
)
def test_a_command_whose_reader_went_away_ends_quietly(folder: Path, line: str) -> None:
    assert without_reader(folder, *line.split()) == (0, "")


def test_the_exit_code_tells_what_the_command_found(folder: Path) -> None:
    (folder / "everwhen.yaml").write_text(FILE.replace("1h", "2h"))
    code, said = without_reader(folder, "config", "diff")
    assert (code, said) == (3, "1 schedule would change\n")
    (folder / "everwhen.yaml").write_text(FILE.replace("every", "evry"))
    code, said = without_reader(folder, "config", "check")
    assert code == 1 and "mistake" in said and "Traceback" not in said
