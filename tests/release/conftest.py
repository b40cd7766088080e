"""The release, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.building import build_once


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheel and the source archive."""
    return build_once(tmp_path_factory)


@pytest.fixture(scope="session")
def python(dist: Path) -> Path:
    """The interpreter of an environment with the wheel and its declared dependencies, and nothing else."""
    return dist.parent / "venv" / "bin" / "python"
