"""The environment of a run's processes: a small safe base, the listed variables, and the run itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from everwhen.model.instants import moment_of
from everwhen.target import Run

_SAFE_BASE = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")


def environment_of(run: Run, listed: Mapping[str, object] | None = None) -> dict[str, str]:
    """Build the environment of a run; other variables of this process may be secrets of other schedules."""
    listed = listed or {}
    return {**safe_base(), **{name: str(value) for name, value in listed.items()}, **about(run)}


def about(run: Run) -> dict[str, str]:
    """Return the run as variables (CONTRACT 2)."""
    return {
        "EVERWHEN_JOB_ID": run.job_id,
        "EVERWHEN_SCHEDULE_ID": run.schedule_id,
        "EVERWHEN_SCHEDULE_NAME": run.schedule_name,
        "EVERWHEN_SLOT_AT": moment_of(run.slot_at).isoformat(),
        "EVERWHEN_ATTEMPT": str(run.attempt),
        "EVERWHEN_ORIGIN": run.origin,
        "EVERWHEN_CATCH_UP": "true" if run.catch_up else "false",
        "EVERWHEN_REPEAT_NUMBER": str(run.repeat_number),
        "EVERWHEN_PAYLOAD": json.dumps(run.payload),
        "EVERWHEN_DEADLINE_AT": "" if run.deadline_at is None else moment_of(run.deadline_at).isoformat(),
    }


def safe_base() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _SAFE_BASE or name.startswith("LC_")}
