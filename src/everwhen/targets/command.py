"""A command: argv, never a shell, in its own session, all of which a timeout or a cancel ends."""

from __future__ import annotations

import asyncio
import errno
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from everwhen.model.host_fault import HostFault, NotBegunError, host_fault_of
from everwhen.model.outcome import Outcome, not_begun
from everwhen.target import Run
from everwhen.targets.process import Launch, Process, Processes, environment_of
from everwhen.targets.registry import Resources
from everwhen.targets.reports import RunReport, take_report
from everwhen.targets.reports import variables as report_variables
from everwhen.targets.secrets import with_secrets

ReadOutput = Callable[[bytes | None], RunReport]
SHOWN = 4_096
FINAL_EXIT = 78
EXIT_MEANINGS = {  # of commands, plugins and agents; the reference shows this table
    "0": "Success.",
    str(FINAL_EXIT): "A failure that no retry can repair: the slot is not tried again.",
    "128 + a signal": "A shell's child was ended by SIGHUP, SIGINT, SIGKILL or SIGTERM. While the node stops, the job "
    "is given back and runs again; else it is a failure.",
    "any other": "A failure: the slot is tried again, if `max_retries` allows it.",
}
LOST = Outcome("lost", error="its node was frozen beyond its lease, and its guardian ended it")
# How a shell reports that a signal ended its child: 128 + SIGHUP, SIGINT, SIGKILL, SIGTERM.
_EXITS_BY_SIGNAL = frozenset(
    128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
)


class CommandTarget:
    """Runs `{"argv": […], "cwd": …, "env": {…}}`; exit code 0 succeeds, 78 is final."""

    def __init__(self, processes: Processes | None = None) -> None:
        self.processes = processes or Processes()

    def kill(self) -> None:
        """End every process of the node at once, after a second request to stop: all targets share `processes`."""
        self.processes.kill()

    async def close(self) -> None:
        self.processes.guardian.close()

    async def run(self, spec: str, run: Run) -> Outcome:
        return await with_secrets(json.loads(spec), run, self._perform)

    async def _perform(self, fields: dict[str, Any], run: Run) -> Outcome:
        launch = Launch(
            argv=fields["argv"],
            cwd=fields.get("cwd"),
            env=environment_of(run, fields.get("env")),
            sink=run.output.write,
        )
        return await run_process(self.processes, launch, run)


def make_target(resources: Resources) -> CommandTarget:
    return CommandTarget(resources.processes)


async def run_process(
    processes: Processes, launch: Launch, run: Run, *, read_output: ReadOutput | None = None
) -> Outcome:
    """Run a process to its end: exit code 0 succeeds with the last of the output, 78 is final.

    Its report is added to the outcome. `read_output` finds a report in its whole standard output, too.
    """
    path = processes.reports.new_path()
    ended = await end_of_process(
        processes, replace(launch, env={**launch.env, **report_variables(run, path)})
    )
    report = take_report(path)
    outcome = ended if isinstance(ended, Outcome) else _outcome_of(*ended)
    if read_output is not None and not isinstance(ended, Outcome):
        outcome = read_output(ended[0].stdout.whole).added_to(outcome, run)
    return outcome if report is None else report.added_to(outcome, run)


def _outcome_of(process: Process, code: int) -> Outcome:
    if code == 0:
        return Outcome("succeeded", result=process.stdout.last(SHOWN))
    if process.was_lost:
        return LOST
    error, is_final = failure(code, process), code == FINAL_EXIT
    return Outcome("failed", error=error, is_final=is_final, is_interrupted=is_by_signal(code))


async def end_of_process(processes: Processes, launch: Launch) -> tuple[Process, int] | Outcome:
    """Return the ended process and its exit code; an outcome when it cannot be started, or the run is cancelled.

    The next attempt may find a program that is missing now.
    """
    try:
        process = processes.start(launch)
    except (OSError, ValueError, MemoryError, RuntimeError, NotBegunError) as error:
        program = launch.argv[0]
        if (fault := _fault_of_start(program, error)) is not None:
            return not_begun(fault, error)
        if isinstance(error, RuntimeError):
            raise
        return Outcome("failed", error=f"cannot start {program!r}: {_hindrance(program, error)}")
    try:
        return process, await process.wait()
    except asyncio.CancelledError:
        return Outcome("cancelled", error=_last_lines(process))


def _fault_of_start(program: str, error: BaseException) -> HostFault | None:
    """Return the fault of the host that kept a program from starting; one that is not there is no such fault.

    The Python that runs this node was there: when it is gone, the host is at fault.
    """
    is_gone = isinstance(error, FileNotFoundError | PermissionError) and error.filename == sys.executable
    return "program" if is_gone and program == sys.executable else host_fault_of(error)


def _hindrance(program: str, error: Exception) -> str:
    """Describe why a program cannot be started: the system names the program also when something else is missing."""
    number = getattr(error, "errno", None)
    if number == errno.ENOEXEC:
        return "it is not a program for this machine, or its first line does not name its interpreter (#!…)"
    if number == errno.ENOENT and Path(program).is_file():
        return "it exists, but the interpreter that its first line names, or its working directory, does not"
    if number == errno.E2BIG:
        return "its arguments and its environment are larger than the system allows"
    return str(error)


def failure(code: int, process: Process) -> str:
    """Describe how a process ended, with the last of its output."""
    ended = f"exit code {code}" if code >= 0 else f"killed by {signal_name(-code)}"
    text = _last_lines(process)
    return f"{ended}: {text}" if text else ended


def is_by_signal(code: int) -> bool:
    """Return whether a signal ended the leader, or a child that a shell waited for."""
    return code < 0 or code in _EXITS_BY_SIGNAL


def _last_lines(process: Process) -> str:
    return process.stderr.last(SHOWN) or process.stdout.last(SHOWN)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals between the first and the last have no names
        return f"signal {number}"
