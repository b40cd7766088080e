"""The tap is installed while these tests run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.boundaries.tap import installed

MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Provide a folder of real files, in memory if possible: thousands of runs need not wait for a disk."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=MEMORY, prefix="everwhen-") as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def tap() -> Iterator[None]:
    with installed():
        yield
