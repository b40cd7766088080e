"""The child process of an isolated Python target.

It gets a run as JSON on standard input, and writes the outcome as JSON to the file that EVERWHEN_OUTCOME names. What
the function prints is output, like that of any command.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from everwhen.model.outcome import Outcome, drifted
from everwhen.signals import ProcessSignals
from everwhen.targets.arguments import Arguments, bind, wants_run
from everwhen.targets.python_function import (
    PythonRun,
    UnknownFunctionError,
    call,
    call_async,
    is_async,
    load,
    read_run,
)

OUTCOME = "EVERWHEN_OUTCOME"
ENDED = Outcome("failed", error="killed by SIGTERM")
_REPORTED = (
    "status",
    "error",
    "result",
    "is_final",
    "retry_after",
    "invalidates",
    "is_interrupted",
    "cost",
    "events",
    "is_json",
    "error_type",
)


def main() -> None:
    fields = json.load(sys.stdin)
    cancelled, is_deaf = threading.Event(), threading.Event()
    signals = ProcessSignals()

    def end() -> None:
        """End the function: one that has the run has the five seconds before SIGKILL to end by itself."""
        cancelled.set()
        if is_deaf.is_set():
            is_deaf.clear()
            signals.leave()

    signals.on(signal.SIGTERM, end)
    run = read_run(fields["run"], _log, cancelled)
    outcome = run.reported.added_to(_outcome(fields, run, cancelled, is_deaf))
    if cancelled.is_set() and outcome.status != "succeeded":
        outcome = outcome._replace(is_interrupted=True)
    sys.stdout.flush()
    report = {name: getattr(outcome, name) for name in _REPORTED}
    Path(os.environ[OUTCOME]).write_text(json.dumps(report))


def _outcome(
    fields: Mapping[str, Any], run: PythonRun, cancelled: threading.Event, is_deaf: threading.Event
) -> Outcome:
    """Return the outcome of the function; `is_deaf` is set while one is called that cannot see that it is to end."""
    try:
        function = load(fields["function"])
    except UnknownFunctionError as error:
        return drifted(str(error))
    given = Arguments.of_spec(fields)
    bound = bind(function, run, given)
    if is_async(function):
        return asyncio.run(_await(bound, run, cancelled))
    if wants_run(function, given):
        return call(bound)
    return _call_deaf(bound, cancelled, is_deaf)


def _call_deaf(bound: Callable[[], Any], cancelled: threading.Event, is_deaf: threading.Event) -> Outcome:
    try:
        is_deaf.set()
        outcome = ENDED if cancelled.is_set() else call(bound)
        is_deaf.clear()
    except SystemExit:  # the signal came just before or after the call
        return ENDED
    return ENDED if cancelled.is_set() and outcome.is_failure else outcome


async def _await(bound: Callable[[], Any], run: PythonRun, cancelled: threading.Event) -> Outcome:
    task = asyncio.ensure_future(call_async(bound, run))

    def cancel() -> None:
        cancelled.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, cancel)
    if cancelled.is_set():  # the signal came before the loop started
        task.cancel()
    return await task


def _log(line: bytes) -> None:
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


if __name__ == "__main__":
    main()
