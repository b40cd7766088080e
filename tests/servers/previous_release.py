"""The previous release, 0.2, on an interpreter of its own: its sources are taken from the history of this repository.

The interpreter sees those sources first, then the packages of the environment that the tests run in: the two releases
have the same dependencies. So nothing is downloaded, and nothing is built.
"""

from __future__ import annotations

import io
import subprocess
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELEASE, COMMIT = "0.2", "f6abe6e75d72fdb2f98a80bacc714eff7956c079"

_LOOK = "from everwhen.store.schema import migrations as m; print(m.__file__, len(m.SQLITE_MIGRATIONS))"


def install_previous_release(folder: Path) -> Path:
    """Install the release in the folder; return its interpreter. Fail the test where the history lacks it."""
    with tarfile.open(fileobj=io.BytesIO(_archive())) as sources:
        sources.extractall(folder, filter="data")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    ours = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (packages / "previous_release.pth").write_text("\n".join([str(folder / "src"), *ours]) + "\n")
    found = subprocess.run([python, "-I", "-c", _LOOK], capture_output=True, text=True, check=True).stdout
    assert found.split() == [str(folder / "src/everwhen/store/schema/migrations.py"), "2"]
    return python


def _archive() -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", ROOT, "archive", COMMIT, "src", "tests/submissions.py"],
            capture_output=True,
            timeout=60,
            check=False,
        )
    except FileNotFoundError:
        problem = "the program git is not installed"
    else:
        if done.returncode == 0:
            return done.stdout
        problem = done.stderr.decode(errors="replace").strip()
    # Outside the `except`, so that the message appears once and without a chain of tracebacks.
    pytest.fail(
        f"release {RELEASE} cannot be taken from the history: commit {COMMIT} is needed in {ROOT} ({problem}); "
        "run this test in a full clone (`git fetch --unshallow`)",
        pytrace=False,
    )
