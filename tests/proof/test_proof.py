"""The proof, short and long: a nemesis strikes real nodes, and at the end every slot is accounted for.

It runs as a separate program in separate namespaces; a failure shows its report. EVERWHEN_CHAOS_SEED and
EVERWHEN_CHAOS_SECONDS set the long form, and if EVERWHEN_CHAOS_REPORTS names a folder, the reports are kept there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.processes import ROOT

SEED = os.environ.get("EVERWHEN_CHAOS_SEED", "2026")
SECONDS = float(os.environ.get("EVERWHEN_CHAOS_SECONDS", "600"))
REPORTS = os.environ.get("EVERWHEN_CHAOS_REPORTS")


@pytest.mark.timeout(400)
def test_a_dozen_faults_on_postgres_lose_and_double_nothing(tmp_path: Path) -> None:
    prove("postgres", tmp_path, seconds=12, every=0.8, longest=2.5, patience=360)


@pytest.mark.timeout(400)
def test_a_full_disk_and_killed_processes_on_sqlite_lose_and_double_nothing(tmp_path: Path) -> None:
    prove("sqlite", tmp_path, seconds=7, every=0.8, longest=1.0, patience=360)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("world", "share"), [("rq", 1), ("postgres", 1), ("sqlite", 5)])
def test_minutes_of_faults_lose_and_double_nothing(world: str, share: int, tmp_path: Path) -> None:
    seconds = SECONDS / share
    prove(world, tmp_path, seconds=seconds, every=3.0, longest=60.0, patience=2 * seconds + 600)


def prove(
    world: str, tmp_path: Path, *, seconds: float, every: float, longest: float, patience: float
) -> None:
    how = ["--seed", SEED, "--seconds", str(seconds), "--every", str(every), "--longest", str(longest)]
    report = Path(REPORTS or tmp_path) / f"{world}.md"
    fields = ["--world", world, *how, "--report", str(report), "--keep", str(tmp_path / "kept")]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.proof", *fields],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as proof:
        try:
            said, _ = proof.communicate(timeout=patience)
        finally:
            proof.terminate()  # on SIGTERM it removes everything
    assert proof.returncode == 0, said[-12_000:]
