"""What `rq worker` loads before it forks, so that no job has to load it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_process_that_forks_has_loaded_the_driver_of_the_database(tmp_path: Path) -> None:
    code = "import sys, everwhen.queue_workers.rq; print('everwhen.store.postgres.backend' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"EVERWHEN_DATABASE": "postgresql://nobody@nowhere.invalid/everwhen"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "True"
