"""What the schedules of the proof run: work that records its own begin and end, outside of any database.

Each line has the time (by the monotonic clock, which all processes of a machine share and no fault sets), the job,
the attempt and the place. A line is one write to a file opened for appending, so lines of many processes stay intact,
and a killed process has either written its line or not. Work that lasts writes a line from time to time, so that the
last sign of an attempt whose process was killed is on record, too.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

BEAT = 0.2  # seconds between two signs of life


class Line(NamedTuple):
    """One thing that happened to one attempt of one job."""

    at: float
    what: str  # begin, still, end, failed, cancelled
    job_id: str
    attempt: int
    schedule_id: str
    node: str


def work(run: Any) -> str:
    """Take the payload's `seconds`, and fail for the share `fails` of all jobs: always the same ones."""
    note("begin", run)
    for _ in range(round(float(run.payload.get("seconds", 0)) / BEAT)):
        if run.cancelled.wait(BEAT):
            note("cancelled", run)
            return "cancelled"
        note("still", run)
    if cost := float(run.payload.get("cost", 0)):
        run.report(cost=f"{cost} USD")
    if random.Random(run.job_id).random() < float(run.payload.get("fails", 0)):
        note("failed", run)
        raise RuntimeError(f"{run.job_id} was to fail")
    note("end", run)
    return "done"


def stubborn(run: Any) -> str:
    """Run work that cannot be asked to end."""
    note("begin", run)
    time.sleep(float(run.payload.get("seconds", 0)))
    note("end", run)
    return "done"


def note(what: str, run: Any) -> None:
    fields = (f"{time.monotonic():.6f}", what, run.job_id, str(run.attempt), run.schedule_id, node())
    folder = run.payload.get("runs") or os.environ["EVERWHEN_PROOF_RUNS"]
    append(Path(folder) / "python", "\t".join(fields) + "\n")


def node() -> str:
    return os.environ.get("EVERWHEN_PROOF_NODE", "?")


def append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


# The same for programs, whose argument is a number of signs of life. Their shell has no monotonic clock; /proc/uptime
# is accurate enough (hundredths of a second).
SHELL = """#!/bin/sh
note() { read -r up _ < /proc/uptime; printf '%s\\t%s\\t%s\\t%s\\t%s\\t%s\\n' \\
  "$up" "$1" "$EVERWHEN_JOB_ID" "$EVERWHEN_ATTEMPT" "$EVERWHEN_SCHEDULE_ID" "${PROOF_NODE:-program}" >> "$RUNS/shell"; }
RUNS=$1 BEATS=${2:-0}
note begin
while [ "$BEATS" -gt 0 ]; do sleep 0.2; note still; BEATS=$((BEATS - 1)); done
note end
"""


def read_lines(folder: Path) -> list[Line]:
    """Return every line, in the order in which they were written."""
    lines = _lines_of(folder / "python", 0.0)
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    lines += _lines_of(folder / "shell", time.monotonic() - uptime)
    return sorted(lines)


def _lines_of(path: Path, ahead: float) -> list[Line]:
    if not path.exists():
        return []
    found = (line.split("\t") for line in path.read_text().splitlines())
    return [
        Line(float(at) + ahead, what, job_id, int(attempt), schedule_id, where)
        for at, what, job_id, attempt, schedule_id, where in found
    ]
