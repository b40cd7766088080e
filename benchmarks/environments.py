"""Creates the peers' virtual environments under `.bench/`; they never become dependencies of everwhen."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.model import OWN, Environment

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".bench"
INSTALL_LIMIT_SECONDS = 600


class EnvironmentUnavailableError(Exception):
    """The packages could not be installed; the contestants are reported as not measured."""


def python_of(environment: Environment, say: Callable[[str], None]) -> Path:
    """Return the interpreter of the environment, which is created when it is missing or its pins have changed."""
    if environment == OWN:
        return Path(sys.executable)
    if made := python_in(environment):
        return made
    folder = FOLDER / environment.name
    python = folder / "bin" / "python"
    say(f"making .bench/{environment.name} with {', '.join(environment.requirements)} …")
    FOLDER.mkdir(exist_ok=True)
    for command in installation(folder, python, environment.requirements):
        run(command, FOLDER / f"{environment.name}.log")
    (folder / ".installed").write_text("\n".join(environment.requirements))
    return python


def python_in(environment: Environment) -> Path | None:
    """Return the interpreter of an environment that was made with these packages, or nothing; make none."""
    stamp = FOLDER / environment.name / ".installed"
    is_made = stamp.exists() and stamp.read_text() == "\n".join(environment.requirements)
    return stamp.parent / "bin" / "python" if is_made else None


def installation(folder: Path, python: Path, requirements: tuple[str, ...]) -> list[list[str]]:
    uv = Path(sys.executable).parent / "uv"
    if uv.exists():
        return [
            [str(uv), "venv", "--clear", "--python", sys.executable, str(folder)],
            [str(uv), "pip", "install", "--python", str(python), *requirements],
        ]
    return [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--disable-pip-version-check", *requirements],
    ]


def run(command: list[str], log: Path) -> None:
    # Error messages of installers contain hosts and paths: those stay in the log, not in the results.
    with log.open("ab") as output:
        try:
            subprocess.run(
                command, stdout=output, stderr=output, check=True, timeout=INSTALL_LIMIT_SECONDS, cwd=ROOT
            )
        except (OSError, subprocess.SubprocessError) as failure:
            raise EnvironmentUnavailableError(f"could not be installed; see .bench/{log.name}") from failure
