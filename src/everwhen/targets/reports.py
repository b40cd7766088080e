"""What a run reports about itself beside its outcome: its cost, and a summary, a status, an error, its usage.

A process writes JSON to the file that EVERWHEN_REPORT names, a Python function calls `run.report`, a server answers
with a header or in its body, and an agent with `report: claude` prints it. A report that cannot be read never fails a
run: it is noted in the run's output, and the run counts as its estimate.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from everwhen.errors import CostError
from everwhen.model.cost import Cost, amount_text, cost_of
from everwhen.model.outcome import Outcome
from everwhen.model.variables import MAX_COST, MAX_COST_UNIT, REPORT
from everwhen.target import Run

LARGEST = 64 * 1024
LONGEST = 4_096
_KEYS = ("cost", "summary", "status", "error", "usage")
_EXIT = re.compile(r"exit code [0-9]+", re.ASCII)


class RunReport(NamedTuple):
    """What a run reported; `faults` are sentences about what could not be read."""

    cost: Cost | None = None
    summary: str | None = None
    status: str | None = None
    error: str | None = None
    usage: Any = None
    faults: tuple[str, ...] = ()

    def added_to(self, outcome: Outcome, run: Run) -> Outcome:
        """Return the outcome with what is reported; a report of failure fails a run, one of success saves none."""
        for fault in self.faults:
            run.output.write("log", f"report: {fault}\n".encode(errors="replace"))
        if self.usage is not None:
            outcome = outcome._replace(events=outcome.events + json.dumps({"usage": self.usage}) + "\n")
        if self.cost is not None:
            outcome = outcome._replace(cost=self.cost)
        if outcome.status == "succeeded" and self.status == "failed":
            error = self.error or self.summary or "reported as failed"
            return outcome._replace(status="failed", error=error, result=self.summary)
        if outcome.status == "failed" and self.error is not None:
            ended = _EXIT.match(outcome.error or "")  # a ping reports the exit status
            text = f"{ended[0]}: {self.error}" if ended else self.error
            return outcome._replace(error=text, error_type=None)
        if outcome.status == "succeeded" and self.summary is not None:
            return outcome._replace(result=self.summary)
        return outcome


def read_report(document: Any) -> RunReport:
    """Read a report; what is wrong in it is noted, and the rest counts."""
    if not isinstance(document, Mapping):
        return RunReport(faults=("is not a JSON object",))
    faults = [
        f'there is no key "{key}"; known are {", ".join(_KEYS)}' for key in document if key not in _KEYS
    ]
    cost = None
    if document.get("cost") is not None:
        try:
            cost = cost_of(document["cost"])
        except CostError as error:
            faults.append(f"cost: {error}")
    status = document.get("status")
    if status not in (None, "succeeded", "failed"):
        faults.append("status is neither succeeded nor failed")
        status = None
    texts = [_text(document.get(key)) for key in ("summary", "error")]
    return RunReport(cost, texts[0], status, texts[1], document.get("usage"), faults=tuple(faults[:10]))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value))[:LONGEST]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def parse_report(data: bytes) -> RunReport:
    """Read a report from JSON."""
    if len(data) > LARGEST:
        return RunReport(faults=(f"is larger than {LARGEST // 1024} KiB",))
    try:
        return read_report(json.loads(data, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return RunReport(faults=("is not valid JSON",))


# The files of one run.


@contextlib.contextmanager
def private_folder(*names: str) -> Iterator[str]:
    """Make a folder that only this user can read, for files of these names; it is gone when the block is over.

    Its end never fails a run. Where no descriptor is free it cannot be listed, and the files are removed by name.
    """
    folder = tempfile.mkdtemp(prefix="everwhen-run-")
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        except OSError:
            for name in names:
                with contextlib.suppress(OSError):
                    Path(folder, name).unlink()
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


# The file that a process writes.


class ReportFiles:
    """Names for the files of one node, in a directory that only its user can read.

    A file is only looked for, and nearly no process writes one: so a run costs a system call and no directory. All
    nodes of a user share the directory, which stays: a node that is killed leaves nothing behind.
    """

    def __init__(self) -> None:
        self._folder: str | None = None
        with contextlib.suppress(OSError):
            tempfile.gettempdir()  # found once, by writing a file: later there may be no descriptor for that

    def new_path(self) -> str:
        if self._folder is None:
            self._folder = _own_folder()
        return f"{self._folder}/{secrets.token_hex(16)}.json"


def _own_folder() -> str:
    """Return the directory of this user; where somebody else has taken its name, a new one."""
    folder = Path(tempfile.gettempdir()) / f"everwhen-reports-{os.getuid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return str(folder)
    return tempfile.mkdtemp(prefix="everwhen-reports-")


def take_report(path: str) -> RunReport | None:
    """Read and remove the report of a process; None when it wrote none."""
    try:
        data = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return RunReport(faults=(f"cannot be read: {error.strerror}",))
    Path(path).unlink(missing_ok=True)
    if data is None:
        return RunReport(faults=("is not a regular file",))
    return parse_report(data) if data.strip() else None


def _read(path: str) -> bytes | None:
    """Return the beginning of a file; None for anything else.

    A process may put a pipe there, which nobody writes to: to open it as a file would stop the loop of the worker.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as report:
        is_file = stat.S_ISREG(os.fstat(report.fileno()).st_mode)
        return report.read(LARGEST + 1) if is_file else None


def variables(run: Run, path: str) -> dict[str, str]:
    """Return the variables that say where a process reports, and what its run may cost."""
    found = {REPORT: path}
    if run.max_cost is not None:
        found[MAX_COST] = amount_text(run.max_cost.amount)
        found[MAX_COST_UNIT] = run.max_cost.unit
    return found


# What `claude -p --output-format json` prints: one object, an array of them, or one in each line (stream-json).


def read_claude(output: bytes | None) -> RunReport:
    """Read the last object of type `result`; its `is_error` fails the run, whatever the exit code."""
    found = None if output is None else _last_result(output)
    if found is None:
        return RunReport(faults=("standard output has no object of type result; use --output-format json",))
    cost, faults = None, []
    if found.get("total_cost_usd") is not None:
        try:
            cost = cost_of({"amount": found["total_cost_usd"], "currency": "USD"})
        except CostError as error:
            faults.append(f"total_cost_usd: {error}")
    text = _text(found.get("result"))
    if found.get("is_error"):
        error_text = text or _text(found.get("subtype")) or "reported as failed"
        return RunReport(cost, None, "failed", error_text, found.get("usage"), faults=tuple(faults))
    return RunReport(cost, text, None, None, found.get("usage"), faults=tuple(faults))


def _last_result(output: bytes) -> Mapping[str, Any] | None:
    for document in _documents(output):
        found = [one for one in document if isinstance(one, Mapping) and one.get("type") == "result"]
        if found:
            return found[-1]
    return None


def _documents(output: bytes) -> list[list[Any]]:
    """Return the whole output as one document, or else its lines, the last first."""
    whole = _parsed(output)
    if whole is not None:
        return [whole]
    return [found for line in reversed(output.splitlines()) if (found := _parsed(line)) is not None]


def _parsed(data: bytes) -> list[Any] | None:
    if data.strip()[:1] not in (b"{", b"["):
        return None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, list) else [document]
