"""A command: argv, never a shell, in a process group of its own that a timeout or a cancel ends whole."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from typing import Any

from everwhen.model.instants import moment_of
from everwhen.model.outcome import Outcome
from everwhen.ports.target import Run

KEPT_OUTPUT = 4_096
GRACE_SECONDS = 5.0
FINAL_EXIT = 78
_SAFE_BASE = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")
_POLL = 0.05


class CommandTarget:
    """Runs `{"argv": […], "cwd": …, "env": {…}}`."""

    def __init__(self) -> None:
        self._living: set[subprocess.Popen[bytes]] = set()

    def kill(self) -> None:
        """End every process group at once; for a service that is told twice to stop."""
        for process in list(self._living):
            _signal_group(process, signal.SIGKILL)

    def run(self, spec: str, run: Run) -> Outcome:
        words = json.loads(spec)
        try:
            process = subprocess.Popen(
                words["argv"],
                cwd=words.get("cwd"),
                env=_environment(words.get("env") or {}, run),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Outcome("failed", error=f"cannot start {words['argv'][0]!r}: {error}")
        self._living.add(process)
        try:
            return _await(process, run)
        finally:
            self._living.discard(process)


def _await(process: subprocess.Popen[bytes], run: Run) -> Outcome:
    tail = _Tail(process)
    ending = _wait(process, run)
    if ending is not None:
        _end_group(process)
    tail.join()
    text = tail.text()
    if ending is not None:
        said = "cancelled" if ending == "cancelled" else f"timed out after {run.seconds_left:g}s"
        return Outcome(ending, error=f"{said}: {text}" if text else said)
    if process.returncode == 0:
        return Outcome("succeeded", result=text)
    code = process.returncode
    ended = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    error = f"{ended}: {text}" if text else ended
    return Outcome("failed", error=error, is_final=process.returncode == FINAL_EXIT)


def _wait(process: subprocess.Popen[bytes], run: Run) -> Any:
    """None when it ended by itself, else why it has to be ended."""
    waited = 0.0
    while True:
        try:
            process.wait(timeout=_POLL)
            return None
        except subprocess.TimeoutExpired:
            waited += _POLL
        if run.cancelled.is_set():
            return "cancelled"
        if run.seconds_left is not None and waited >= run.seconds_left:
            return "timed_out"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the whole group, SIGKILL to what is left of it five seconds later."""
    _signal_group(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE_SECONDS)
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return  # nobody of the group is left


class _Tail:
    """The last bytes that a process prints, read while it runs so that it never blocks on a full pipe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._stream = process.stdout
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._stream is not None
        with self._stream as stream:
            while piece := stream.read1(65_536):  # type: ignore[attr-defined]
                self._kept = (self._kept + piece)[-KEPT_OUTPUT:]

    def join(self) -> None:
        # A grandchild that left the group may keep the pipe open for ever; the run is over all the same.
        self._thread.join(timeout=1.0)

    def text(self) -> str:
        return self._kept.decode(errors="replace").strip()


def _environment(listed: dict[str, str], run: Run) -> dict[str, str]:
    base = {name: os.environ[name] for name in _SAFE_BASE if name in os.environ}
    return {**base, **{key: str(value) for key, value in listed.items()}, **_about(run)}


def _about(run: Run) -> dict[str, str]:
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
