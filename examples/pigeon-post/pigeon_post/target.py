"""A target: a pigeon that puts a letter into a loft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from everwhen.model.outcome import Outcome
from everwhen.target import Run


class PigeonTarget:
    """Runs `{"loft": FOLDER, "letter": TEXT}`. A plain `run` is called in a thread, an async one on the loop.

    It writes into any folder that a schedule names. So it counts as code over REST, and does not say
    `runs_code = False`.
    """

    # A JSON Schema: files and REST bodies are checked by it, editors and OpenAPI show it.
    keys: ClassVar = {
        "type": "object",
        "description": "A letter, brought by a pigeon.",
        "required": ["loft"],
        "additionalProperties": False,
        "properties": {
            "loft": {"type": "string", "description": "The folder that it is brought to."},
            "letter": {"type": "string", "description": "What it says.", "default": ""},
        },
    }

    def run(self, spec: str, run: Run) -> Outcome:
        fields = json.loads(spec)
        loft = Path(fields["loft"])
        if not loft.is_dir():
            return Outcome("failed", error=f"there is no loft {loft}", is_final=True)
        # The job id is the idempotency key: a second pigeon of the same job brings the same letter.
        (loft / f"{run.job_id}.txt").write_text(fields.get("letter", ""))
        return Outcome("succeeded", result=f"brought to {loft}")
