"""A Python function, `module:function`: a plain one in a thread, an async one on a loop, an isolated one in a child.

Async functions run on a loop of their own, not on the one that runs processes and requests: one that blocks holds
up other async functions of this node, and nothing else. A function that goes on after its deadline is left behind:
its run is over, its worker stays taken until it returns (R9).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from everwhen.model.outcome import Outcome, drifted
from everwhen.ports.target import Run
from everwhen.targets.command import failure, last_words, not_started
from everwhen.targets.environment import environment_of
from everwhen.targets.isolated import OUTCOME, read_outcome
from everwhen.targets.process import Launch, Processes
from everwhen.targets.python_function import UnknownFunctionError, call, call_async, is_async, load
from everwhen.targets.python_run import PythonRun, python_run, spell_run
from everwhen.targets.secrets import with_secrets

T = TypeVar("T")


class Hands(Protocol):
    """Threads that run what blocks, and a loop for other people's coroutines."""

    def hand_over(self, work: Callable[[], T], /) -> Future[T]: ...

    def submit(self, work: Coroutine[Any, Any, T], /) -> tuple[Future[T], Callable[[], None]]:
        """The future ends with the coroutine; the call cancels it."""
        ...

    def close(self) -> None: ...


class PythonTarget:
    """Runs `{"function": "module:function", "isolate": false, "env": {…}, "cwd": …}`."""

    def __init__(self, hands: Hands, processes: Processes | None = None) -> None:
        self._hands = hands
        self.processes = processes or Processes()

    def kill(self) -> None:
        self.processes.kill()

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._hands.close)

    async def run(self, spec: str, run: Run) -> Outcome:
        words = json.loads(spec)
        if words.get("isolate"):
            return await with_secrets(words, run, self._run_isolated)
        try:
            function = await run.until_told(self._hands.hand_over(partial(load, words["function"])))
        except UnknownFunctionError as error:
            return drifted(str(error))
        about = python_run(run, partial(run.output.write, "log"))
        if is_async(function):
            return await self._run_async(function, about, run)
        return await run.until_told(self._hands.hand_over(partial(call, function, about)))

    async def _run_async(self, function: Callable[..., Any], about: PythonRun, run: Run) -> Outcome:
        ended, cancel = self._hands.submit(call_async(function, about))
        try:
            return await run.until_told(ended)
        except asyncio.CancelledError:
            cancel()
            raise

    async def _run_isolated(self, words: dict[str, Any], run: Run) -> Outcome:
        listed = words.get("env") or {}
        with TemporaryDirectory(prefix="everwhen-run-") as folder:
            report = Path(folder) / "outcome.json"
            launch = Launch(
                argv=[sys.executable, "-P", "-m", "everwhen.targets.isolated"],
                env={**environment_of(run, {"PYTHONPATH": _path(), **listed}), OUTCOME: str(report)},
                cwd=words.get("cwd"),
                stdin=json.dumps({"function": words["function"], "run": spell_run(run)}).encode(),
                sink=run.output.write,
            )
            try:
                process = self.processes.start(launch)
            except (OSError, ValueError) as error:
                return not_started(sys.executable, error)
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                return Outcome("cancelled", error=last_words(process))
            if report.exists() and code == 0:
                return read_outcome(report.read_text())
            return Outcome("failed", error=failure(code, process))


def _path() -> str:
    """Where this process finds its modules, so that the child finds the same."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
