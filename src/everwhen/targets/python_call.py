"""A Python function, `module:function`: a plain one in a thread, an async one on a loop, an isolated one in a child.

Async functions run on their own loop, not on the one that runs processes and requests: a function that blocks delays
other async functions of this node, and nothing else. A function that continues after its deadline is left behind: its
run is over, its worker stays occupied until it returns.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from everwhen.model.cost import Cost
from everwhen.model.host_fault import NotBegunError, before_target
from everwhen.model.outcome import Outcome, drifted
from everwhen.model.schedule import Definition
from everwhen.target import Run
from everwhen.targets.arguments import NO_ARGUMENTS, Arguments, bind, wants_run
from everwhen.targets.command import LOST, end_of_process, failure, is_by_signal
from everwhen.targets.isolated import OUTCOME
from everwhen.targets.process import Launch, Process, Processes, environment_of
from everwhen.targets.python_function import (
    Cancellable,
    Functions,
    JobContext,
    UnknownFunctionError,
    call,
    call_async,
    fields_of_run,
    imported,
    is_async,
    load,
    python_run,
)
from everwhen.targets.registry import Hands, Resources
from everwhen.targets.reports import private_folder, take_report
from everwhen.targets.reports import variables as report_variables
from everwhen.targets.secrets import with_secrets

T = TypeVar("T")

OUTCOME_FILE, REPORT_FILE = "outcome.json", "report.json"

# The fault of a function that only the process had that added it (`scheduler.callables`).
DECLARE_AGAIN = "declare it again"


async def call_on(
    hands: Hands,
    function: Callable[..., Any],
    about: Cancellable,
    run: Run,
    given: Arguments = NO_ARGUMENTS,
    *,
    context: JobContext = nullcontext,
) -> Outcome:
    """Call the function with its arguments, and with `about` where it wants the run, on the executor of a node.

    A function that does not end in time is left behind.
    """
    bound = bind(function, about, given)
    if not is_async(function):
        outcome = await run.until_cancelled(_hand_over(hands, partial(call, bound, context)))
        return about.reported.added_to(outcome)
    work = call_async(bound, about, context)
    try:
        with before_target():
            ended, cancel = hands.submit(work)
    except NotBegunError:
        work.close()
        raise
    try:
        return about.reported.added_to(await run.until_cancelled(ended))
    except asyncio.CancelledError:
        cancel()
        raise


def _hand_over(hands: Hands, work: Callable[[], T]) -> Future[T]:
    """Run a call on a thread; raise NotBegunError when there is none for it."""
    with before_target():
        return hands.hand_over(work)


class PythonTarget:
    """Runs `{"function": "module:function", "args": […], "kwargs": {…}, "isolate": false, "env": {…}, "cwd": …}`.

    With an additional `name` the function is one that a program of that name has declared, and need not be
    importable.
    """

    def __init__(
        self, hands: Hands, processes: Processes | None = None, functions: Functions | None = None
    ) -> None:
        self._hands = hands
        self._functions = functions
        self.processes = processes or Processes()

    async def close(self) -> None:
        # It blocks the loop, which has nothing else to do by now; an executor is not available when a program ends
        # and `atexit` stops its scheduler.
        self._hands.close()

    def fault_of(self, schedule_id: str, definition: Definition) -> str | None:
        """Return why the function cannot be called here; None when it can."""
        fields = json.loads(definition.target.spec)
        name = fields.get("name")
        if name is None:
            return _function_fault(fields)
        if self._functions is None or self._functions.name != name:
            return f'it is run by programs that declare the name "{name}"'
        is_declared = self._functions.find(schedule_id, fields["function"]) is not None
        return None if is_declared else _function_fault(fields)

    def call_of(self, spec: str, run: Run) -> Callable[[], Outcome] | None:
        """Return the run as one call for a thread.

        None where it is more than that: a coroutine, a child process, an import, or something that cannot be called.
        """
        fields = _fields_of(spec)
        if fields.get("isolate"):
            return None
        function = self._declared(fields, run)
        if function is None and "process" not in fields:
            function = imported(fields["function"])
        if function is None or is_async(function):
            return None
        given = Arguments.of_spec(fields)
        if not wants_run(function, given):
            return partial(call, bind(function, None, given), self._context)
        about = python_run(run)
        work = partial(call, bind(function, about, given), self._context)
        return lambda: about.reported.added_to(work())

    def hand_over(self, work: Callable[[], T]) -> Future[T]:
        """Run a call on a thread."""
        return self._hands.hand_over(work)

    @property
    def _context(self) -> JobContext:
        return nullcontext if self._functions is None else self._functions.context

    def _declared(self, fields: Mapping[str, Any], run: Run) -> Callable[..., Any] | None:
        """Return the function that the program of this name has declared."""
        if self._functions is None or self._functions.name != fields.get("name"):
            return None
        return self._functions.find(run.schedule_id, fields["function"])

    async def run(self, spec: str, run: Run) -> Outcome:
        fields = json.loads(spec)
        if fields.get("isolate"):
            return await with_secrets(fields, run, self._run_isolated)
        function = self._declared(fields, run)
        if function is None and "process" in fields:  # the schedule may have another function by now
            return Outcome("failed", error=DECLARE_AGAIN, is_final=True)
        if function is None:
            try:
                load_it = partial(load, fields["function"])
                function = await run.until_cancelled(_hand_over(self._hands, load_it))
            except UnknownFunctionError as error:
                return drifted(str(error))
        given = Arguments.of_spec(fields)
        return await call_on(self._hands, function, python_run(run), run, given, context=self._context)

    async def _run_isolated(self, fields: dict[str, Any], run: Run) -> Outcome:
        listed = fields.get("env") or {}
        with ExitStack() as stack:
            with before_target():
                folder = stack.enter_context(private_folder(OUTCOME_FILE, REPORT_FILE))
            report, own = Path(folder) / OUTCOME_FILE, f"{folder}/{REPORT_FILE}"
            launch = Launch(
                argv=[sys.executable, "-P", "-m", "everwhen.targets.isolated"],
                env={
                    **environment_of(run, {"PYTHONPATH": _path(), **listed}),
                    **report_variables(run, own),
                    OUTCOME: str(report),
                },
                cwd=fields.get("cwd"),
                stdin=json.dumps({**fields, "run": fields_of_run(run)}).encode(),
                sink=run.output.write,
            )
            ended = await end_of_process(self.processes, launch)
            if isinstance(ended, Outcome):
                return ended
            process, code = ended
            written = take_report(own)
            outcome = _isolated_outcome(report, process, code)
            return outcome if written is None else written.added_to(outcome, run)


def _isolated_outcome(report: Path, process: Process, code: int) -> Outcome:
    if report.exists() and code == 0:
        fields = json.loads(report.read_text())
        cost = fields.pop("cost", None)
        return Outcome(**fields, cost=None if cost is None else Cost(*cost))
    if process.was_lost:
        return LOST
    return Outcome("failed", error=failure(code, process), is_interrupted=is_by_signal(code))


def _fields_of(spec: str) -> Mapping[str, Any]:
    """Return the fields of a target; its arguments anew, because a function may change them."""
    fields = _remembered_fields(spec)
    return json.loads(spec) if "args" in fields or "kwargs" in fields else fields


_remembered_fields: Callable[[str], dict[str, Any]] = lru_cache(maxsize=10_000)(json.loads)


def _path() -> str:
    """Return the module path of this process, so that the child finds the same modules."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)


def make_target(resources: Resources) -> PythonTarget:
    return PythonTarget(resources.hands, resources.processes, resources.functions)


def _function_fault(fields: Mapping[str, Any]) -> str | None:
    if "process" in fields:
        return DECLARE_AGAIN
    try:
        load(fields["function"])
    except UnknownFunctionError as error:
        return str(error)
    return None
