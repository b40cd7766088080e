"""The proof, short and long: a nemesis strikes real nodes, and at the end every slot is accounted for.

It runs as a program of its own, in namespaces of its own; its report is what a failure shows. EVERWHEN_CHAOS_SEED and
EVERWHEN_CHAOS_SECONDS set the long form, and where EVERWHEN_CHAOS_REPORT names a file, its report is kept there.
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


def test_a_dozen_faults_on_postgres_lose_and_double_nothing(tmp_path: Path) -> None:
    prove(tmp_path, "postgres", seconds=18, every=1.3, longest=3.5, patience=110)


def test_a_full_disk_and_a_killed_scheduler_on_sqlite_lose_and_double_nothing(tmp_path: Path) -> None:
    prove(tmp_path, "sqlite", seconds=9, every=1.2, longest=1.5, patience=110)


@pytest.mark.long
def test_ten_minutes_of_faults_on_three_machines_lose_and_double_nothing(tmp_path: Path) -> None:
    prove(tmp_path, "postgres", "sqlite", seconds=SECONDS, every=3.0, longest=60, patience=3 * SECONDS + 600)


def prove(
    tmp_path: Path, *worlds: str, seconds: float, every: float, longest: float, patience: float
) -> None:
    how = ["--seed", SEED, "--seconds", str(seconds), "--every", str(every), "--longest", str(longest)]
    named = [word for world in worlds for word in ("--world", world)]
    report = Path(os.environ.get("EVERWHEN_CHAOS_REPORT", tmp_path / "report.md"))
    words = [*named, *how, "--report", str(report), "--keep", str(tmp_path / "kept")]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.proof", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as proof:
        try:
            said, _ = proof.communicate(timeout=patience)
        finally:
            proof.terminate()  # which it takes as a reason to clear everything away
    assert proof.returncode == 0, said[-12_000:]
