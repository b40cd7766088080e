"""What the commands that serve do about garbage, seen from a job that runs in their process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from everwhen.cli.main import YOUNG
from tests.cli.test_nodes import stop
from tests.cli.test_up import lines_until

FILE = """
service: {database: "sqlite:///everwhen.db"}
schedules:
  - {id: look, every: 1h, run: {python: "looking:look"}}
"""
FUNCTION = """
import gc

def look(run):
    return f"looks after {gc.get_threshold()[0]}, has frozen {gc.get_freeze_count() > 10_000}"
"""


def test_a_node_looks_for_garbage_seldom(tmp_path: Path) -> None:
    (tmp_path / "everwhen.yaml").write_text(FILE)
    (tmp_path / "looking.py").write_text(FUNCTION)
    command = Path(sys.executable).parent / "everwhen"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    node = subprocess.Popen([command, "up"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment)
    said = lines_until(node.stderr, "succeeded", 1)[-1]
    stop(node)
    assert f"looks after {YOUNG}, has frozen True" in said
