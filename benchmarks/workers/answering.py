"""The child's side of the protocol: one JSON line in, one JSON line out, until the input ends."""

import gc
import json
import os
import sys
from typing import Any, Protocol

from benchmarks.calibration import calibrate

# Seconds and number of operations, by the name of the case.
Timings = dict[str, tuple[float, int]]


class Task(Protocol):
    """The work of one contestant. After a turn it leaves amounts that are not durations in `amounts`, a dictionary."""

    @property
    def version(self) -> str: ...

    def check(self) -> dict[str, str]:
        """Return digests of the results by case, for comparison with other contestants."""

    def run(self, part: int, parts: int) -> Timings:
        """Run its share of a round: all parts together are the whole work, once."""


def answer_until_end(task: Task) -> None:
    # Output that a peer prints must not corrupt the protocol: it goes to stderr.
    with os.fdopen(os.dup(1), "w") as channel:
        os.dup2(2, 1)
        for line in sys.stdin:
            print(json.dumps(answer(task, json.loads(line))), file=channel, flush=True)


def answer(task: Task, request: dict[str, Any]) -> dict[str, Any]:
    try:
        if request["command"] == "check":
            digests = task.check()
            return {"version": task.version, "digests": digests}
        gc.collect()
        calibration = calibrate()
        timings = task.run(request["part"], request["parts"])
        return {"calibration": calibration, "timings": timings, "amounts": getattr(task, "amounts", {})}
    except Exception as error:  # the worker's boundary: the parent reports it in the table
        return {"error": f"{type(error).__name__}: {error}"}
