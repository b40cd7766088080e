"""A target: a pigeon that puts a letter into a loft."""

from __future__ import annotations

import json
from pathlib import Path

from everwhen.model.outcome import Outcome
from everwhen.ports.target import Run


class PigeonTarget:
    """Runs `{"loft": FOLDER, "letter": TEXT}`. A plain `run` is called in a thread, an async one on the loop."""

    def run(self, spec: str, run: Run) -> Outcome:
        fields = json.loads(spec)
        loft = Path(fields["loft"])
        if not loft.is_dir():
            return Outcome("failed", error=f"there is no loft {loft}", is_final=True)
        # The job id is the idempotency key: a second pigeon of the same job brings the same letter.
        (loft / f"{run.job_id}.txt").write_text(fields.get("letter", ""))
        return Outcome("succeeded", result=f"brought to {loft}")
