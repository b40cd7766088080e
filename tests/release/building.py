"""The wheel and the source archive of this tree, and an environment that has the wheel and nothing undeclared.

All of it is made once per run, whichever worker of pytest asks first. Nothing is fetched: the build backend is a
package of the environment of the tests, and so are the dependencies, which the new environment is linked to one by one.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tests.environment import without_settings
from tools.sbom import closure_of

ROOT = Path(__file__).parents[2]


def build_once(factory: pytest.TempPathFactory) -> Path:
    """Return the folder `dist` of a release, with the environment `venv` beside it."""
    shared = factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    folder = shared / "release"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _run(sys.executable, "-m", "hatchling", "build", "-d", str(folder / "dist"))
            (wheel,) = (folder / "dist").glob("*.whl")
            _install(wheel, folder / "venv")
            (folder / "complete").touch()
    return folder / "dist"


def _install(wheel: Path, folder: Path) -> None:
    venv.create(folder, symlinks=True)
    how = ["--no-index", "--no-deps", "--disable-pip-version-check", "--no-compile", "--quiet"]
    _run(sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", *how, str(wheel))
    (packages,) = (folder / "lib").glob("python*/site-packages")
    link_packages(closure_of().values(), packages)


def link_packages(found: Iterable[Distribution], folder: Path) -> Path:
    """Link everything that these distributions installed into a folder; what is there already stays."""
    folder.mkdir(exist_ok=True)
    for one in found:
        tops = {Path(str(file)).parts[0] for file in one.files or ()}
        for top in sorted(tops - {"..", "__pycache__"}):
            there, here = Path(str(one.locate_file(top))), folder / top
            if there.is_dir() and here.is_dir():  # a name space of several distributions
                for inner in there.iterdir():
                    if not (here / inner.name).exists():
                        (here / inner.name).symlink_to(inner)
            elif not here.exists():
                here.symlink_to(there)
    return folder


def _run(*command: str) -> None:
    # pip and its libraries warn, and warnings are errors in what tests start.
    environ = {**without_settings(), "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
